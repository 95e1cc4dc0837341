/** The replication slot: created after the publication, inspected at start and on every heartbeat. Source: PostgreSQL docs, pg_replication_slots. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseLsn, type Lsn } from '../log/position.ts';
import { ReaderError } from './reader-error.ts';
import type { SourceSession } from './source.ts';
import { quoteLiteral } from './sql-text.ts';

export interface SlotState {
  readonly name: string;
  readonly plugin: string;
  readonly database: string;
  readonly active: boolean;
  readonly activePid: number | null;
  readonly restartLsn: Lsn | null;
  readonly confirmedFlushLsn: Lsn | null;
  /** reserved | extended | unreserved | lost. */
  readonly walStatus: string;
  /** Bytes of WAL that may still be written before the slot is in danger; null without a limit. */
  readonly safeWalBytes: bigint | null;
  /** PostgreSQL 17+ (16: `conflicting`): why the slot can no longer be used; null while it can. */
  readonly invalidationReason: string | null;
  readonly failover: boolean;
  /** A synchronized copy made on a standby; once that is promoted it is a slot like any other, and still says so. */
  readonly synced: boolean;
  readonly temporary: boolean;
  readonly catalogXmin: number | null;
}

type SlotRow = Readonly<Record<string, string | number | boolean | null>>;

export async function findSlot(session: SourceSession, name: string): Promise<SlotState | null> {
  // As JSON, because the columns differ between versions.
  const rows = await session.query(
    `select to_jsonb(s)::text as j from pg_replication_slots s where slot_name = ${quoteLiteral(name)}`,
  );
  const text = rows[0]?.['j'];
  return text == null ? null : slotState(JSON.parse(text) as SlotRow);
}

function slotState(row: SlotRow): SlotState {
  const lsnOf = (value: unknown): Lsn | null => (typeof value === 'string' ? parseLsn(value) : null);
  const numberOf = (value: unknown): number | null => (value === null || value === undefined ? null : Number(value));
  const safe = row['safe_wal_size'];
  const conflicting = row['conflicting'] === true ? 'rows_removed' : null;
  return {
    name: String(row['slot_name']),
    plugin: String(row['plugin']),
    database: String(row['database']),
    active: row['active'] === true,
    activePid: numberOf(row['active_pid']),
    restartLsn: lsnOf(row['restart_lsn']),
    confirmedFlushLsn: lsnOf(row['confirmed_flush_lsn']),
    walStatus: String(row['wal_status'] ?? 'reserved'),
    safeWalBytes: safe == null ? null : BigInt(safe),
    invalidationReason: typeof row['invalidation_reason'] === 'string' ? row['invalidation_reason'] : conflicting,
    failover: row['failover'] === true,
    synced: row['synced'] === true,
    temporary: row['temporary'] === true,
    catalogXmin: numberOf(row['catalog_xmin']),
  };
}

/** Why nothing will come from this slot again; null while it can be used. */
export function invalidation(slot: SlotState): string | null {
  if (slot.invalidationReason !== null) return slot.invalidationReason;
  return slot.walStatus === 'lost' || slot.restartLsn === null ? 'wal_removed' : null;
}

/** Creates the slot and returns its start. Waits until every transaction that runs now has ended. @throws ReaderError NO_FREE_SLOT */
export async function createSlot(session: SourceSession, name: string): Promise<Lsn> {
  // temporary, two-phase, failover (17+): a failover slot lives on when a standby with sync_replication_slots is promoted.
  const options = session.serverVersion >= 170_000 ? 'false, false, true' : 'false, false';
  const rows = await session.query(
    `select lsn from pg_create_logical_replication_slot(${quoteLiteral(name)}, 'pgoutput', ${options})`,
  );
  const text = rows[0]?.['lsn'];
  if (text == null) throw new ReaderError('SOURCE_QUERY_FAILED', `slot "${name}" was created without a position`);
  return parseLsn(text);
}

/** A sender ends in the server some time after its connection was closed. */
const FREED_MS = 3_000;
const FREED_POLL_MS = 50;

/** True: no slot of that name stands any more. False: somebody has it, and goes on having it. */
export async function dropSlot(session: SourceSession, name: string, withinMs = FREED_MS): Promise<boolean> {
  for (const endMs = performance.now() + withinMs; ;) {
    const drop = `select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${quoteLiteral(name)} and not active`;
    const rows = await session.query(drop).catch((error: unknown) => {
      // Taken, or just being ended, between the look and the drop.
      if (error instanceof ReaderError && error.code === 'SLOT_IN_USE') return [];
      throw error;
    });
    if (rows.length > 0 || (await findSlot(session, name)) === null) return true;
    if (performance.now() >= endMs) return false;
    await sleep(FREED_POLL_MS);
  }
}

/** @throws ReaderError SLOT_FOREIGN if a slot of that name belongs to something else */
export function requireOwnSlot(slot: SlotState, database: string): void {
  const what =
    slot.plugin !== 'pgoutput'
      ? `uses the plugin ${slot.plugin}, not pgoutput`
      : slot.database !== database
        ? `belongs to database "${slot.database}", not "${database}"`
        : slot.temporary
          ? 'is temporary'
          : null;
  if (what === null) return;
  throw new ReaderError('SLOT_FOREIGN', `replication slot "${slot.name}" ${what}`, {
    remedy: 'set source.slot to another name, or drop that slot if nothing needs it',
  });
}
