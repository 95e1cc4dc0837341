/** How much WAL the source writes just now, and how much a slot may hold back. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseLsn } from '../log/position.ts';
import type { SourceSession } from '../reader/source.ts';

export interface WalFacts {
  /** Bytes a second: what the slot holds back for every second that the service is down. */
  readonly walBytesPerSecond: number;
  /** max_slot_wal_keep_size in bytes; null = no limit. */
  readonly walLimitBytes: number | null;
}

const SAMPLE_MS = 1_000;

export async function walFacts(session: SourceSession): Promise<WalFacts> {
  const position = async (): Promise<{ lsn: bigint; atMs: number }> => {
    const [row] = await session.query(
      `select pg_current_wal_lsn()::text as lsn, (extract(epoch from clock_timestamp()) * 1000)::bigint::text as ms`,
    );
    return { lsn: parseLsn(row?.['lsn'] ?? '0/0'), atMs: Number(row?.['ms'] ?? '0') };
  };
  const before = await position();
  await sleep(SAMPLE_MS);
  const after = await position();
  const [limit] = await session.query(
    `select (pg_size_bytes(current_setting('max_slot_wal_keep_size')))::text as bytes where current_setting('max_slot_wal_keep_size') <> '-1'`,
  );
  const bytes = limit?.['bytes'] ?? null;
  return {
    walBytesPerSecond: Math.round((Number(after.lsn - before.lsn) * 1_000) / Math.max(1, after.atMs - before.atMs)),
    walLimitBytes: bytes === null ? null : Number(bytes),
  };
}
