/**
 * The demo's main path: a PostgreSQL from npm, the shop loaded into it, the whole pipeline embedded, a workload beside it,
 * and at the end the comparison of every table with its source. Everything it starts, it stops; its slot goes with its server.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPostgres, type PostgresServer } from '../../../ops/local/postgres.ts';
import { contractFolder } from '../../ingest/contract-files.ts';
import { createShapeFeed } from '../../ingest/shape-feed.ts';
import { dropSlot } from '../../reader/slot.ts';
import type { SourceSession } from '../../reader/source.ts';
import { parseConfig, type Config } from '../../runtime/config.ts';
import type { Logger } from '../../runtime/logger.ts';
import { createMetrics } from '../../runtime/metrics.ts';
import { openSource } from '../assemble/source.ts';
import { startPipeline, type Pipeline } from '../pipeline.ts';
import { markBehind, verifyTables, type TableReport } from '../verify-tables.ts';
import { inlineSession } from './inline-session.ts';
import { quarantineReasons, type QuarantineReason } from './quarantine-reasons.ts';
import { SHOP_SCHEMA_SQL, SHOP_TABLES } from './shop-schema.ts';
import { loadShop, runWorkload, type WorkloadCounts } from './shop-workload.ts';

export interface DemoOptions {
  /** Seconds of workload. */
  readonly seconds: number;
  /** Orders loaded before the pipeline starts. */
  readonly rows: number;
  readonly seed: number;
  /** Folder that keeps the lake, the contracts and the state; null = a temporary one, removed at the end. */
  readonly keep: string | null;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onStep: (text: string) => void;
  readonly onProgress: (line: string) => void;
}

export interface DemoTable {
  readonly table: string;
  readonly sourceRows: number;
  readonly lakeRows: number;
  readonly batches: number;
  readonly version: string | null;
  readonly quarantined: number;
  readonly parkedKeys: number;
  readonly equal: boolean;
  readonly differences: number;
}

export interface DemoSummary {
  readonly verified: boolean;
  readonly seconds: number;
  readonly tables: readonly DemoTable[];
  readonly quarantine: readonly QuarantineReason[];
  readonly workload: WorkloadCounts;
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly snapshotRows: number;
  readonly lagSeconds: number;
  readonly lake: string | null;
}

const DEMO_TENANT = 'shop';

export async function runDemo(options: DemoOptions): Promise<DemoSummary> {
  const home = options.keep ?? mkdtempSync(join(tmpdir(), 'sluice-demo-'));
  mkdirSync(home, { recursive: true });
  let postgres: PostgresServer | null = null;
  try {
    options.onStep('starting PostgreSQL 18 with wal_level=logical');
    postgres = await startPostgres({ durable: false });
    return await withServer(postgres, home, options);
  } finally {
    await postgres?.stop('immediate').catch(() => undefined);
    if (options.keep === null) rmSync(home, { recursive: true, force: true });
  }
}

async function withServer(postgres: PostgresServer, home: string, options: DemoOptions): Promise<DemoSummary> {
  const config = demoConfig(postgres.url, home);
  copyContracts(config.contracts);
  const started = performance.now();
  const metrics = createMetrics();
  const pipelineOptions = {
    config,
    reload: () => config,
    parts: { reader: true, stream: true },
    logger: options.logger,
    metrics,
    failpoint: () => undefined,
    availableNow: false,
  };
  const setup = await openSourceFor(config);
  let pipeline: Pipeline | null = null;
  try {
    options.onStep(`loading the shop: ${options.rows} orders, with customers, items and payments`);
    await setup.query('set search_path = public');
    await setup.query(SHOP_SCHEMA_SQL);
    await loadShop(inlineSession(setup), options.rows);
    options.onStep('snapshot and stream run beside the workload');
    pipeline = await startPipeline(pipelineOptions);
    const running = pipeline;
    const stopper = new AbortController();
    const failed = running.done.then(
      () => undefined,
      (error: unknown) => error ?? new Error('the pipeline ended'),
    );
    const ticker = showProgress(running, options, stopper.signal);
    const workload = await driveWorkload(setup, options, failed);
    options.onStep('catching up, then comparing every table with the source');
    if (running.source !== null) {
      const lsn = await markBehind(running.source);
      await Promise.race([running.ingest?.catchUp(lsn, options.signal), failed.then(raise)]);
    }
    stopper.abort();
    await ticker;
    const elapsedSeconds = (performance.now() - started) / 1000;
    const reports = await compare(running, config, options.signal);
    return await summarise(running, reports, workload, elapsedSeconds, options);
  } finally {
    await pipeline?.stop();
    await dropSlot(setup, config.source.slot).catch(() => false);
    await setup.close();
  }
}

function raise(error: unknown): never {
  throw error instanceof Error ? error : new Error('the pipeline ended before the demo did');
}

async function openSourceFor(config: Config): Promise<SourceSession> {
  return (await openSource(config, () => config)).session('demo workload');
}

function demoConfig(url: string, home: string): Config {
  return parseConfig({
    text: [
      `name: ${DEMO_TENANT}`,
      'source: {postgres: "${PGURL}", tables: ["public.*"]}',
      `contracts: ${JSON.stringify(join(home, 'contracts'))}`,
      `lake: {uri: ${JSON.stringify(join(home, 'lake'))}}`,
      `state: ${JSON.stringify(join(home, 'state'))}`,
      'stream: {trigger: 500ms}',
    ].join('\n'),
    file: 'the demo',
    env: { PGURL: url },
    readFile: () => '',
  });
}

/** The shop's contracts stand in the package's own contracts folder. */
function copyContracts(target: string): void {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder);
  mkdirSync(target, { recursive: true });
  for (const table of SHOP_TABLES) {
    const file = `public.${table}.odcs.yaml`;
    if (!existsSync(join(target, file)) && existsSync(join(folder, 'contracts', file)))
      cpSync(join(folder, 'contracts', file), join(target, file));
  }
}

async function driveWorkload(
  session: SourceSession,
  options: DemoOptions,
  failed: Promise<unknown>,
): Promise<WorkloadCounts> {
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), options.seconds * 1000);
  options.signal.addEventListener('abort', () => end.abort(), { once: true });
  void failed.then(() => end.abort());
  try {
    return await runWorkload(inlineSession(session), {
      seed: options.seed,
      transactions: Number.MAX_SAFE_INTEGER,
      signal: end.signal,
      rows: options.rows,
      violationEvery: 150,
    });
  } finally {
    clearTimeout(timer);
  }
}

async function showProgress(pipeline: Pipeline, options: DemoOptions, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(500, undefined, { signal }).catch(() => undefined);
    const status = pipeline.ingest?.status();
    if (status === undefined || signal.aborted) continue;
    const parts = status.tables.map((table) => {
      const name = table.table.replace(/^public\./, '');
      const state = table.state === 'STREAMING' ? '' : ` ${table.state.toLowerCase()}`;
      return `${name} v${table.version ?? '-'} ${table.ledger.read} events${state}`;
    });
    options.onProgress(parts.join(' | '));
  }
}

async function compare(pipeline: Pipeline, config: Config, signal: AbortSignal): Promise<TableReport[]> {
  const { source, ingest, lake, log } = pipeline;
  if (source === null || ingest === null) throw new Error('the demo runs reader and stream');
  const shapes = createShapeFeed(log.reader, config.name);
  await shapes.refresh();
  return verifyTables(shapes.tables(), {
    source,
    publication: config.source.publication,
    lake,
    contracts: contractFolder(config.contracts),
    hasher: null,
    reached: (lsn) => ingest.catchUp(lsn, signal),
  });
}

async function summarise(
  pipeline: Pipeline,
  reports: readonly TableReport[],
  workload: WorkloadCounts,
  seconds: number,
  options: DemoOptions,
): Promise<DemoSummary> {
  const status = pipeline.ingest?.status();
  const reader = pipeline.reader?.status();
  const tables = reports.map((report): DemoTable => {
    const table = status?.tables.find((each) => each.table === report.table);
    return {
      table: report.table,
      sourceRows: report.sourceRows,
      lakeRows: report.lakeRows,
      batches: table?.batchId === null || table === undefined ? 0 : Number(table.batchId) + 1,
      version: table?.version?.toString() ?? null,
      quarantined: table?.ledger.quarantined ?? 0,
      parkedKeys: report.parkedKeys,
      equal: report.equal,
      differences: report.differences.length + report.unsettled,
    };
  });
  const events = status?.tables.reduce((sum, table) => sum + table.ledger.read, 0) ?? 0;
  return {
    verified: reports.length === SHOP_TABLES.length && reports.every((report) => report.equal),
    seconds: Math.round(seconds * 10) / 10,
    tables,
    quarantine: await quarantineReasons(
      pipeline.lake,
      reports.map((report) => report.table),
    ),
    workload,
    events,
    eventsPerSecond: Math.round(events / Math.max(0.1, seconds)),
    snapshotRows: Number(reader?.tables.reduce((sum, table) => sum + table.snapshotRows, 0n) ?? 0n),
    lagSeconds: Math.max(0, ...(status?.tables.map((table) => table.lagSeconds) ?? [0])),
    lake: options.keep === null ? null : join(options.keep, 'lake'),
  };
}
