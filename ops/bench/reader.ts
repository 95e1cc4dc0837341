/**
 * How fast WAL reaches the log, beside what takes the same WAL and does nothing with it: a slot each, the same rows, the same
 * machine, one after the other. The server's own decoding is the limit. `pg_recvlogical` is PostgreSQL's own receiver (from
 * `pgBin` or PATH); our connection with a handler that only counts stands beside it. Kafka where brokers are given, or where
 * one can be started here (Java and Maven), with kafkajs's own producer on the same brokers.
 */
import { spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import type { EventLog } from '../../services/log/log.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { startReader } from '../../services/reader/reader.ts';
import type { ReaderHandle } from '../../services/reader/reader-options.ts';
import { createSlot } from '../../services/reader/slot.ts';
import type { PostgresSource, SourceSession } from '../../services/reader/source.ts';
import { startKafka } from '../local/kafka.ts';
import { startPostgres } from '../local/postgres.ts';
import { findTool } from '../local/toolchain.ts';
import { benchKafkajs } from './log.ts';

export interface ReaderBenchLine {
  readonly what: string;
  readonly rows: number;
  /** Null: not measured here, see `note`. */
  readonly rowsPerSecond: number | null;
  /** By the rate of `pg_recvlogical`, or of kafkajs; where that is not there, by our own bare receiver. */
  readonly ratio: number | null;
  readonly bytes: number | null;
  readonly rssBytes: number | null;
  readonly note: string;
}

export interface ReaderBenchOptions {
  /** Folder of `pg_recvlogical`; default: PATH. */
  readonly pgBin?: string | undefined;
  readonly brokers?: readonly string[] | undefined;
}

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };
const POLL_MS = 5;
/** Records a transaction of kafkajs: what the reader puts into one. */
const KAFKAJS_RECORDS = 5_000;

export async function benchReader(rows = 300_000, options: ReaderBenchOptions = {}): Promise<ReaderBenchLine[]> {
  const server = await startPostgres({ durable: false, settings: { max_wal_size: '4GB' } });
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-reader-'));
  const kafka = await kafkaOf(options);
  try {
    const source = await openPostgresSource(() => parseConnection(server.url));
    const session = await source.session('bench');
    await session.query(`create table public.bench (id int8 primary key, a int4, b int8, c text, d text, e numeric(12,2),
      f timestamptz, g bool, h float8, i jsonb); create publication bench for table public.bench`);
    for (const slot of ['bench_tool', 'bench_receive']) await createSlot(session, slot);
    const embedded = await openEmbeddedLog({ directory });
    const name = `bench${process.pid}`;
    const kafkaLog = kafka.brokers === null ? null : await openKafkaLog({ name, brokers: kafka.brokers });
    // Their slots, and snapshots of nothing.
    await empty(await reader(source, embedded, 'bench', 1));
    if (kafkaLog !== null) await empty(await reader(source, kafkaLog, name, 1));
    await session.query(`insert into public.bench select g, g % 1000, g * 7, 'customer ' || g, md5(g::text), (g % 100000) / 100.0,
      timestamptz '2026-01-01' + g * interval '1 second', g % 2 = 0, g / 3.0, jsonb_build_object('n', g) from generate_series(1, ${rows}) g`);
    const tool = await receiveByTool(session, server.url, options.pgBin);
    const receive = await timed(async () => receiveOnly(source, rows));
    const best = tool.seconds ?? receive;
    const wal = await walTo(source, embedded, 'bench', rows);
    const snapshot = await timed(async () => {
      await wal.reader.resnapshot('public', 'bench');
      while (wal.reader.status().tables[0]?.phase !== 'streaming') await sleep(POLL_MS);
    });
    await wal.reader.stop();
    await embedded.close();
    const lines = [
      line('pg_recvlogical', rows, tool.seconds, null, { note: tool.note }),
      line('receive only, ours', rows, receive, best),
      line('WAL to embedded log', rows, wal.seconds, best, { bytes: wal.bytes, rss: wal.rss }),
      line('snapshot to embedded log', rows, snapshot, null),
    ];
    if (kafkaLog !== null && kafka.brokers !== null) {
      const toKafka = await walTo(source, kafkaLog, name, rows);
      await toKafka.reader.stop();
      const topic = `${name}.client`;
      const valueBytes = Math.round(toKafka.bytes / rows);
      const appends = Math.max(1, Math.round(rows / KAFKAJS_RECORDS));
      const sizes = { recordsPerAppend: KAFKAJS_RECORDS, appends, valueBytes };
      const client = await benchKafkajs(kafka.brokers, topic, sizes, kafkaLog);
      const produced = KAFKAJS_RECORDS * appends;
      lines.push(
        line('WAL to Kafka', rows, toKafka.seconds, rows / client.appendRecordsPerSecond, {
          bytes: toKafka.bytes,
          rss: toKafka.rss,
        }),
        line('kafkajs produce', produced, produced / client.appendRecordsPerSecond, null, {
          bytes: produced * valueBytes,
        }),
      );
      await kafkaLog.close();
    } else lines.push(line('WAL to Kafka', rows, null, null, { note: kafka.note }));
    await session.close();
    return lines;
  } finally {
    await kafka.stop();
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

function line(
  what: string,
  rows: number,
  seconds: number | null,
  baseline: number | null,
  more: { readonly bytes?: number; readonly rss?: number; readonly note?: string } = {},
): ReaderBenchLine {
  return {
    what,
    rows,
    rowsPerSecond: seconds === null ? null : Math.round(rows / seconds),
    ratio: seconds === null || baseline === null ? null : baseline / seconds,
    bytes: more.bytes ?? null,
    rssBytes: more.rss ?? null,
    note: more.note ?? '',
  };
}

async function reader(source: PostgresSource, log: EventLog, name: string, run: number): Promise<ReaderHandle> {
  return startReader({
    name,
    source,
    log,
    slot: `${name}_reader`,
    publication: 'bench',
    tables: ['public.bench'],
    newTables: 'ignore',
    logKind: 'embedded',
    topic: { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
    snapshotParallel: 2,
    snapshotChunkRows: 20_000,
    putLarge: null,
    committedLsn: null,
    logger: QUIET,
    clock: Date.now,
    runId: `${name}-${run}`,
    failpoint: () => undefined,
  });
}

/** Until the snapshot of nothing is done: what is measured is the stream alone. */
async function empty(handle: ReaderHandle): Promise<void> {
  while (handle.status().tables[0]?.phase !== 'streaming') await sleep(POLL_MS);
  await handle.stop();
}

interface Measured {
  readonly reader: ReaderHandle;
  readonly seconds: number;
  readonly bytes: number;
  readonly rss: number;
}

async function walTo(source: PostgresSource, log: EventLog, name: string, rows: number): Promise<Measured> {
  const started = process.hrtime.bigint();
  const handle = await reader(source, log, name, 2);
  let rss = 0;
  for (let caught = 0; caught < rows;) {
    await sleep(POLL_MS);
    rss = Math.max(rss, process.memoryUsage.rss());
    caught = Number((await log.reader.bounds(`${name}.public.bench`)).get(0)?.end ?? 0n);
  }
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  return { reader: handle, seconds, bytes: Number(handle.status().bytes), rss };
}

/** PostgreSQL's own receiver, up to where the WAL ends now, into nothing. */
async function receiveByTool(
  session: SourceSession,
  url: string,
  pgBin: string | undefined,
): Promise<{ readonly seconds: number | null; readonly note: string }> {
  const program = toolIn(pgBin) ?? findTool('pg_recvlogical');
  if (program === null) return { seconds: null, note: 'not installed: set PGBIN, or put it on PATH' };
  const [row] = await session.query('select pg_current_wal_flush_lsn()::text as lsn');
  const args = ['--dbname', url, '--slot', 'bench_tool', '--start', '--no-loop', '--file', '/dev/null'];
  args.push('--endpos', row?.['lsn'] ?? '', '--option', 'proto_version=1', '--option', 'publication_names=bench');
  const started = process.hrtime.bigint();
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-1_000);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  return code === 0
    ? { seconds, note: '' }
    : { seconds: null, note: `it ended with exit code ${code}: ${said.trim()}` };
}

function toolIn(folder: string | undefined): string | null {
  if (folder === undefined || folder === '') return null;
  const path = join(folder, 'pg_recvlogical');
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return null;
  }
}

interface KafkaThere {
  readonly brokers: readonly string[] | null;
  readonly note: string;
  stop(): Promise<void>;
}

async function kafkaOf({ brokers }: ReaderBenchOptions): Promise<KafkaThere> {
  const stop = (): Promise<void> => Promise.resolve();
  if (brokers !== undefined) return { brokers, note: '', stop };
  if (findTool('java') === null || findTool('mvn') === null)
    return { brokers: null, note: 'no brokers given, and no Java and Maven to start one here', stop };
  try {
    const server = await startKafka();
    return { brokers: server.brokers, note: '', stop: () => server.stop() };
  } catch (error) {
    return { brokers: null, note: error instanceof Error ? error.message : String(error), stop };
  }
}

async function receiveOnly(source: PostgresSource, rows: number): Promise<void> {
  const session = await source.replication('bench receive');
  let seen = 0;
  const stream = await session.start({
    slot: 'bench_receive',
    publication: 'bench',
    startLsn: 0n,
    protoVersion: 1,
    handlers: {
      data(bytes, start) {
        if (bytes[start] === 0x49) seen++;
      },
      keepalive() {},
      chunkEnd() {},
    },
  });
  while (seen < rows) await sleep(POLL_MS);
  await stream.close();
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - started) / 1e9;
}
