/**
 * A running service: pipeline, endpoint, metrics and an end in order. `sluice run`, `reader` and `stream` are this with
 * different parts. A named state stops its table and the process stays up, so that no supervisor loops over it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createFaultStore, STORE_FAULTS } from '../../ops/faults/fault-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { parseLsn } from '../log/position.ts';
import type { ReaderStatus } from '../reader/reader-options.ts';
import { failpointFromEnvironment } from '../runtime/failpoints.ts';
import { startHttp, type HttpServer } from '../runtime/http.ts';
import { createLogger, type Logger } from '../runtime/logger.ts';
import { createMetrics, type Metrics } from '../runtime/metrics.ts';
import { ExitCode } from '../runtime/errors.ts';
import type { Config } from '../runtime/config.ts';
import type { CliContext } from './command.ts';
import { createControl } from './control-actions.ts';
import { startPipeline, type Pipeline, type PipelineParts } from './pipeline.ts';
import { numbered, statusReport, troublesOf, type StatusReport } from './status-report.ts';
import { createSpeedWatch, writeSpeed } from './read-speed.ts';
import { keepTables } from './table-upkeep.ts';
import { markBehind } from './verify-tables.ts';
import { createWalBudget, type WalBudget } from './wal-budget.ts';

export interface ServiceOptions {
  readonly config: Config;
  readonly reload: () => Config;
  readonly parts: PipelineParts;
  readonly availableNow: boolean;
  /** Rows that went to quarantine make available-now end with 1. */
  readonly failOnQuarantine: boolean;
  readonly onSourceBreak?: 'stop' | 'resnapshot';
  /** What a command does with the pipeline that it had to start itself, at this endpoint; then it catches up and ends. */
  readonly work?: (url: string) => Promise<ExitCode>;
}

/** A loop that has not turned for this long is not alive; an outside part that has not answered for this long is not ready. */
const SILENCE_MS = 60_000;
/** Ends in order within this; main.ts then ends what would still keep the process alive. */
const STOP_MS = 7_500;
const WATCH_MS = 1_000;

export async function runService(options: ServiceOptions, context: CliContext): Promise<ExitCode> {
  const { config } = options;
  const logger = createLogger({ level: config.logging.level, pipeline: config.name });
  const metrics = createMetrics();
  const failpoint = failpointFromEnvironment(context.env['SLUICE_FAILPOINT'], () =>
    process.kill(process.pid, 'SIGKILL'),
  );
  const wrapLake = lyingStore(context.env['SLUICE_FAULT_STORE']);
  const { signal } = context;
  let pipeline: Pipeline;
  try {
    pipeline = await startPipeline({ ...options, logger, metrics, failpoint, wrapLake, signal });
  } catch (error) {
    // Ended before it ran: whatever the half-started parts made of that is no failure.
    if (signal.aborted) return ExitCode.clean;
    throw error;
  }
  const watch = createWatch(pipeline, config, metrics, createWalBudget(pipeline, config, logger, Date.now));
  let http: HttpServer | null = null;
  const ended = new AbortController();
  try {
    const control = await createControl(pipeline, config, metrics, failpoint);
    http = await startHttp({ ...config.http, metrics, measure: watch.measure, health: watch.health, control });
    logger.info({ url: http.url, parts: options.parts }, 'running');
    const watching = watch.run(ended.signal);
    if (pipeline.ingest !== null) void keepTables(pipeline.lake, pipeline.ingest, logger, ended.signal);
    const done = (await options.work?.(http.url)) ?? ExitCode.clean;
    const outcome = options.availableNow
      ? worse(done, await catchUp(pipeline, options, context, logger))
      : await follow(pipeline, context.signal);
    ended.abort();
    await watching;
    return outcome;
  } finally {
    ended.abort();
    await Promise.race([pipeline.stop(), sleep(STOP_MS, undefined, { ref: false })]);
    await http?.close();
    logger.info('stopped');
  }
}

const worse = (a: ExitCode, b: ExitCode): ExitCode => (a === ExitCode.clean ? b : a);

/** For drills (`sluice faults`): SLUICE_FAULT_STORE=SEED puts a store between us and the lake whose answers get lost. */
function lyingStore(seed: string | undefined): (lake: ObjectStore) => ObjectStore {
  if (seed === undefined || seed === '') return (lake) => lake;
  return (lake) => createFaultStore(lake, Number(seed), STORE_FAULTS).store;
}

/** Until a signal; a part that cannot go on by a named state leaves the process up for whoever looks. */
async function follow(pipeline: Pipeline, signal: AbortSignal): Promise<ExitCode> {
  const stopped = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await Promise.race([stopped, pipeline.done]);
  return ExitCode.clean;
}

async function catchUp(
  pipeline: Pipeline,
  options: ServiceOptions,
  context: CliContext,
  logger: Logger,
): Promise<ExitCode> {
  const { ingest, source } = pipeline;
  const stop = new AbortController();
  const onAbort = (): void => stop.abort();
  context.signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (source !== null && ingest !== null) {
      const lsn = await markBehind(source);
      const stuck = watchForStops(pipeline, stop.signal);
      await Promise.race([ingest.catchUp(lsn, stop.signal), pipeline.done, stuck]);
    } else if (ingest !== null) await Promise.race([ingest.drain(stop.signal), pipeline.done]);
    else if (source !== null) await readerCatchesUp(pipeline, await markBehind(source), stop.signal);
  } finally {
    stop.abort();
    context.signal.removeEventListener('abort', onAbort);
  }
  const report = statusReport(pipeline, options.config.name);
  const broken = report.tables.filter((table) => table.why !== null);
  for (const table of broken)
    context.err(`sluice: ${table.table} ${numbered(table.state)}: ${table.why ?? ''}\n  ${table.remedy ?? ''}\n`);
  if (report.reader?.stopped != null || broken.length > 0) return ExitCode.namedState;
  const quarantined = report.tables.reduce((sum, table) => sum + table.quarantined, 0);
  logger.info({ quarantined, consistent: report.consistent }, 'caught up');
  return quarantined > 0 && options.failOnQuarantine ? ExitCode.findings : ExitCode.clean;
}

async function readerCatchesUp(pipeline: Pipeline, lsn: bigint, signal: AbortSignal): Promise<void> {
  for (;;) {
    const status = pipeline.reader?.status();
    const reading = status?.tables.some((table) => table.snapshotProgress !== null) === true;
    if (signal.aborted || status === undefined || (status.durableLsn >= lsn && !reading)) return;
    await Promise.race([sleep(50), pipeline.done]);
  }
}

/** Resolves when the reader stopped by a named state or every table has stopped: nothing more will come. */
async function watchForStops(pipeline: Pipeline, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(200, undefined, { signal }).catch(() => undefined);
    if (pipeline.reader?.status().stopped != null) return;
    const tables = pipeline.ingest?.status().tables ?? [];
    if (tables.length > 0 && tables.every((table) => table.message !== null)) return;
  }
}

function createWatch(pipeline: Pipeline, config: Config, metrics: Metrics, walBudget: WalBudget) {
  let turnedMs = Date.now();
  let sourceMs = Date.now();
  let failing: string | null = null;
  const counted = new Map<string, bigint>();
  const speedWatch = createSpeedWatch(Date.now);
  const measure = (): StatusReport => {
    const report = statusReport(pipeline, config.name);
    metrics.trouble.reset();
    for (const state of troublesOf(report)) metrics.trouble.set({ state }, 1);
    metrics.tableState.reset();
    for (const table of report.tables) {
      metrics.tableState.set({ table: table.table, state: table.state }, 1);
      metrics.lagBytes.set({ table: table.table }, Number(table.lagBytes));
      metrics.lagSeconds.set({ table: table.table }, table.lagSeconds);
      if (table.committedLsn !== null)
        metrics.committedLsn.set({ table: table.table }, Number(parseLsn(table.committedLsn)));
    }
    return report;
  };
  const look = (): void => {
    turnedMs = Date.now();
    walBudget.check();
    const report = measure();
    if (report.reader === null || ['streaming', 'standby', 'stopped'].includes(report.reader.phase))
      sourceMs = turnedMs;
    failing = report.reader?.lastError ?? null;
    const reader = pipeline.reader?.status();
    if (reader !== undefined) {
      metrics.readerConfirmedLsn.set(Number(reader.confirmedLsn));
      metrics.readerReceivedLsn.set(Number(reader.receivedLsn));
      metrics.slotRetainedBytes.set(Number(reader.insurance?.heldBytes ?? 0n));
    }
    if (reader !== undefined) feedReaderCounters(metrics, reader, counted);
    if (reader !== undefined && pipeline.ingest !== null) {
      const speed = speedWatch({
        reading: report.tables.some(({ state }) => state === 'SNAPSHOTTING'),
        rows: reader.tables.reduce((sum, { snapshotRows }) => sum + Number(snapshotRows), 0),
        bytes: reader.bytes,
      });
      if (speed !== null) void writeSpeed(pipeline.lake, speed).catch(() => undefined);
    }
  };
  return {
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        look();
        await sleep(WATCH_MS, undefined, { signal }).catch(() => undefined);
      }
    },
    measure,
    health: {
      alive: () => Date.now() - turnedMs < SILENCE_MS,
      notReady() {
        const silentS = Math.round((Date.now() - sourceMs) / 1000);
        const silent =
          silentS * 1000 < SILENCE_MS
            ? null
            : `source: no answer for ${silentS} s${failing === null ? '' : ` (${failing})`}`;
        const stopped = pipeline.reader?.status().stopped ?? null;
        const state = stopped === null ? null : `reader: ${numbered(stopped.state)}: ${stopped.detail}`;
        return [silent, state, walBudget.exceeded()].filter((reason) => reason !== null);
      },
      status: () => Promise.resolve(stoppedBy(statusReport(pipeline, config.name), walBudget.gaveUp())),
    },
  };
}

/** A reader whose slot was given up has ended in order, and yet the source is a named state. */
function stoppedBy(report: StatusReport, gaveUp: ReturnType<WalBudget['gaveUp']>): StatusReport {
  return gaveUp === null || report.reader === null
    ? report
    : { ...report, reader: { ...report.reader, stopped: gaveUp } };
}

/** The reader's own totals as counters: what they rose by since the last look. */
function feedReaderCounters(metrics: Metrics, reader: ReaderStatus, counted: Map<string, bigint>): void {
  const rise = (key: string, total: bigint): number => {
    const by = Number(total - (counted.get(key) ?? 0n));
    counted.set(key, total);
    return Math.max(0, by);
  };
  metrics.readerBytes.inc(rise('bytes', reader.bytes));
  for (const { schema, table, events } of reader.tables) {
    metrics.readerRecords.inc({ table: `${schema}.${table}` }, rise(`records ${schema}.${table}`, events));
  }
}
