/**
 * How fast WAL reaches the embedded log, beside what receiving the same WAL alone takes: one slot each, the same rows, the
 * same machine. The server's own decoding is the limit (`pg_recvlogical` is receiving without doing anything; where it is not
 * installed, our own connection with a handler that only counts stands for it).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { startReader } from '../../services/reader/reader.ts';
import { createSlot } from '../../services/reader/slot.ts';
import type { PostgresSource } from '../../services/reader/source.ts';
import { startPostgres } from '../local/postgres.ts';

export interface ReaderBench {
  readonly rows: number;
  /** Receiving only. */
  readonly receiveRowsPerSecond: number;
  /** Receiving, decoding, envelopes, durable in the embedded log. */
  readonly readerRowsPerSecond: number;
  readonly ratio: number;
  readonly snapshotRowsPerSecond: number;
  readonly logBytes: number;
  readonly rssBytes: number;
}

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

export async function benchReader(rows = 300_000): Promise<ReaderBench> {
  const server = await startPostgres({ durable: false, settings: { max_wal_size: '4GB' } });
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-reader-'));
  try {
    const source = await openPostgresSource(() => parseConnection(server.url));
    const session = await source.session('bench');
    await session.query(`create table public.bench (id int8 primary key, a int4, b int8, c text, d text, e numeric(12,2),
      f timestamptz, g bool, h float8, i jsonb); create publication bench for table public.bench`);
    await createSlot(session, 'bench_receive');
    const log = await openEmbeddedLog({ directory });
    const reader = await startReader({
      name: 'bench',
      source,
      log,
      slot: 'bench_reader',
      publication: 'bench',
      tables: ['public.bench'],
      newTables: 'ignore',
      topic: { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
      snapshotParallel: 2,
      snapshotChunkRows: 20_000,
      putLarge: null,
      committedLsn: null,
      logger: QUIET,
      clock: Date.now,
      runId: 'bench-1',
      failpoint: () => undefined,
    });
    await reader.stop();
    await session.query(`insert into public.bench select g, g % 1000, g * 7, 'customer ' || g, md5(g::text), (g % 100000) / 100.0,
      timestamptz '2026-01-01' + g * interval '1 second', g % 2 = 0, g / 3.0, jsonb_build_object('n', g) from generate_series(1, ${rows}) g`);
    const receive = await timed(async () => receiveOnly(source, rows));
    let caught = 0;
    const started = process.hrtime.bigint();
    const second = await startReader({
      name: 'bench',
      source,
      log,
      slot: 'bench_reader',
      publication: 'bench',
      tables: ['public.bench'],
      newTables: 'ignore',
      topic: { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
      snapshotParallel: 2,
      snapshotChunkRows: 20_000,
      putLarge: null,
      committedLsn: null,
      logger: QUIET,
      clock: Date.now,
      runId: 'bench-2',
      failpoint: () => undefined,
    });
    while (caught < rows) {
      await sleep(5);
      caught = Number((await log.reader.bounds('bench.public.bench')).get(0)?.end ?? 0n);
    }
    const read = Number(process.hrtime.bigint() - started) / 1e9;
    const logBytes = Number(second.status().bytes);
    const snapshot = await timed(async () => {
      await second.resnapshot('public', 'bench');
      while (second.status().tables[0]?.phase !== 'streaming') await sleep(5);
    });
    const { rss } = process.memoryUsage();
    await second.stop();
    await session.close();
    await log.close();
    return {
      rows,
      receiveRowsPerSecond: Math.round(rows / receive),
      readerRowsPerSecond: Math.round(rows / read),
      ratio: receive / read,
      snapshotRowsPerSecond: Math.round(rows / snapshot),
      logBytes,
      rssBytes: rss,
    };
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
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
  while (seen < rows) await sleep(5);
  await stream.close();
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = process.hrtime.bigint();
  await work();
  return Number(process.hrtime.bigint() - started) / 1e9;
}
