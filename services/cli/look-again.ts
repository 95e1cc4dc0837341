/**
 * Where verify looks again at rows that differed. A replica shows a row as it was until it has replayed the change, which the
 * lake may have long before: as often as it were asked, the row would stand still and differ.
 */
import { setTimeout as sleepFor } from 'node:timers/promises';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { quoteLiteral } from '../reader/sql-text.ts';

const WAIT_MS = 10_000;
const POLL_MS = 100;

export interface LookClock {
  readonly now: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
}

/** A session at the replica, once it has all that the primary has by now; at the primary when it does not come to that. */
export async function lookAgainAt(
  primary: PostgresSource,
  replica: PostgresSource,
  { now, sleep }: LookClock = { now: Date.now, sleep: sleepFor },
): Promise<SourceSession> {
  const own = await primary.session('verify');
  let session: SourceSession | null = null;
  let chosen: SourceSession | null = null;
  try {
    const [row] = await own.query('select pg_current_wal_flush_lsn()::text as lsn');
    const lsn = quoteLiteral(row?.['lsn'] ?? '0/0');
    session = await replica.session('verify');
    const endMs = now() + WAIT_MS;
    while (chosen === null) {
      const [at] = await session.query(
        `select (not pg_is_in_recovery() or pg_last_wal_replay_lsn() >= ${lsn}::pg_lsn)::text as there`,
      );
      if (at?.['there']?.startsWith('t') === true) chosen = session;
      else if (now() >= endMs) chosen = own;
      else await sleep(POLL_MS);
    }
    return chosen;
  } finally {
    if (chosen !== own) await own.close();
    if (chosen !== session) await session?.close();
  }
}
