/**
 * Commit at the source to visible in the lake: a PostgreSQL, the whole pipeline embedded, a writer that inserts a set number of
 * rows a second, and a watcher that asks which LSN the table has. Latency is measured from the source's commit to the moment
 * at which the watcher sees the table past it, so the watcher's own step (20 ms) is in it. Further tables are followed and
 * have nothing new: they must cost the busy one nothing.
 *
 * Twice in one run: at the rate that is asked for, and at half of the peak, which is what the pipeline takes of rows that were
 * all committed before it came to them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPostgres } from '../local/postgres.ts';
import { startPipeline } from '../../services/cli/pipeline.ts';
import { markBehind } from '../../services/cli/verify-tables.ts';
import { parseLsn } from '../../services/log/position.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import type { SourceSession } from '../../services/reader/source.ts';
import { parseConfig } from '../../services/runtime/config.ts';
import { createLogger } from '../../services/runtime/logger.ts';
import { createMetrics } from '../../services/runtime/metrics.ts';

export interface LatencyBench {
  readonly rate: 'set' | 'half of the peak';
  /** Tables of the pipeline; one of them is written to. */
  readonly tables: number;
  /** Rows that were written. */
  readonly rowsPerSecond: number;
  /** Rows that the pipeline takes when more than it can take are there; null where that was not measured. */
  readonly peakRowsPerSecond: number | null;
  readonly triggerMs: number;
  readonly samples: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Batches of the table that is written to, and of all the others. */
  readonly batches: number;
  readonly quietBatches: number;
  /** Of this process, the writer and the watcher among it, while rows are written. */
  readonly cpuSeconds: number;
  readonly rssBytes: number;
}

const STEP_MS = 20;
const TRIGGER_MS = 500;
/** Written at once to find the peak: some seconds of work. */
const PEAK_ROWS = 300_000;
const PEAK_WAIT_MS = 300_000;

export async function benchLatency(rowsPerSecond = 1000, tables = 1, seconds = 15): Promise<LatencyBench[]> {
  const home = mkdtempSync(join(tmpdir(), 'sluice-bench-latency-'));
  const server = await startPostgres({ durable: false });
  try {
    const source = await openPostgresSource(() => parseConnection(server.url));
    const session = await source.session('bench');
    await session.query('create table public.ticks (id bigint primary key, body text, at timestamptz)');
    for (let i = 1; i < tables; i++)
      await session.query(
        `create table public.quiet_${i} (id bigint primary key, body text); insert into public.quiet_${i} select i, 'quiet' from generate_series(1, 100) i`,
      );
    const config = parseConfig({
      text: `name: latency\nsource: {postgres: "\${PGURL}"}\nlake: {uri: ${join(home, 'lake')}}\nstate: ${join(home, 'state')}\ncontracts: ${join(home, 'contracts')}\nstream: {trigger: ${TRIGGER_MS}ms}`,
      file: 'the benchmark',
      env: { PGURL: server.url },
      readFile: () => '',
    });
    const pipeline = await startPipeline({
      config,
      reload: () => config,
      parts: { reader: true, stream: true },
      logger: createLogger({ level: 'error', pipeline: 'latency' }),
      metrics: createMetrics(),
      failpoint: () => undefined,
      availableNow: false,
    });
    try {
      // The first load of the quiet tables is no part of it.
      const signal = AbortSignal.timeout(120_000);
      await pipeline.ingest?.catchUp(await markBehind(source), signal);
      signal.throwIfAborted();
      const bench = { session, tables, seconds, status: () => pipeline.ingest?.status().tables ?? [], nextId: 0 };
      const set = await writeSteadily(bench, rowsPerSecond);
      const peak = await peakOf(bench);
      const half = await writeSteadily(bench, Math.round(peak / 2));
      return [
        { rate: 'set', ...set, peakRowsPerSecond: null },
        { rate: 'half of the peak', ...half, peakRowsPerSecond: peak },
      ];
    } finally {
      await pipeline.stop();
      await session.close();
    }
  } finally {
    await server.stop('immediate');
    rmSync(home, { recursive: true, force: true });
  }
}

interface Bench {
  readonly session: SourceSession;
  readonly tables: number;
  readonly seconds: number;
  readonly status: () => readonly {
    readonly table: string;
    readonly batchId: bigint | null;
    readonly lsn: string | null;
  }[];
  nextId: number;
}

async function insert(bench: Bench, rows: number): Promise<bigint> {
  await bench.session.query(
    `insert into public.ticks select ${bench.nextId} + i, md5(i::text), clock_timestamp() from generate_series(1, ${rows}) i`,
  );
  bench.nextId += rows;
  const [row] = await bench.session.query('select pg_current_wal_flush_lsn()::text as lsn');
  // The commit record lies just before the flushed end.
  return parseLsn(row?.['lsn'] ?? '0/0') - 64n;
}

function reachedLsn(bench: Bench): bigint {
  const text = bench.status().find(({ table }) => table === 'public.ticks')?.lsn ?? null;
  return text === null ? 0n : parseLsn(text);
}

/** Rows a second, from the commit of many transactions to the last of them in the lake. */
async function peakOf(bench: Bench): Promise<number> {
  const begin = performance.now();
  let last = 0n;
  for (let rows = 0; rows < PEAK_ROWS; rows += 10_000) last = await insert(bench, 10_000);
  while (reachedLsn(bench) < last) {
    if (performance.now() - begin > PEAK_WAIT_MS) throw new Error('the pipeline did not catch up with the peak');
    await sleep(STEP_MS);
  }
  return Math.round(PEAK_ROWS / ((performance.now() - begin) / 1000));
}

async function writeSteadily(
  bench: Bench,
  rowsPerSecond: number,
): Promise<Omit<LatencyBench, 'rate' | 'peakRowsPerSecond'>> {
  const { seconds, tables } = bench;
  const batchesOf = (quiet: boolean): number =>
    bench
      .status()
      .filter(({ table }) => (table === 'public.ticks') !== quiet)
      .reduce((sum, { batchId }) => sum + Number(batchId ?? -1) + 1, 0);
  const before = { batches: batchesOf(false), quiet: batchesOf(true), cpu: process.cpuUsage(), id: bench.nextId };
  const commits: { readonly lsn: bigint; readonly atMs: number }[] = [];
  const latencies: number[] = [];
  const perStep = Math.max(1, Math.round((rowsPerSecond * STEP_MS) / 1000));
  const begin = performance.now();
  let seen = 0;
  const look = (): void => {
    const reached = reachedLsn(bench);
    const now = performance.now();
    for (; seen < commits.length && (commits[seen]?.lsn ?? 0n) <= reached; seen += 1)
      latencies.push(now - (commits[seen]?.atMs ?? now));
  };
  while (performance.now() - begin < seconds * 1000) {
    const lsn = await insert(bench, perStep);
    commits.push({ lsn, atMs: performance.now() });
    look();
    const due = begin + commits.length * STEP_MS;
    await sleep(Math.max(0, due - performance.now()));
  }
  const written = (bench.nextId - before.id) / ((performance.now() - begin) / 1000);
  for (let wait = 0; wait < 500 && seen < commits.length; wait += 1) {
    await sleep(STEP_MS);
    look();
  }
  // What never came through is the slowest of all.
  const never = commits.slice(seen).map(({ atMs }) => performance.now() - atMs);
  const cpu = process.cpuUsage(before.cpu);
  const sorted = [...latencies, ...never].toSorted((a, b) => a - b);
  const at = (share: number): number =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return {
    tables,
    rowsPerSecond: Math.round(written),
    triggerMs: TRIGGER_MS,
    samples: sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    maxMs: at(1),
    batches: batchesOf(false) - before.batches,
    quietBatches: batchesOf(true) - before.quiet,
    cpuSeconds: (cpu.user + cpu.system) / 1e6,
    rssBytes: process.memoryUsage().rss,
  };
}
