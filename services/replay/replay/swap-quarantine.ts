/** The quarantine's part of a switch: its rows go with the table's, and come back with them. */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { createTable } from '../../../lakehouse/table/create.ts';
import { EMPTY_STATE } from '../../../lakehouse/table/replay.ts';
import { openSnapshot, type Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { copyObjects, objectsOf, replaceRows } from '../../../lakehouse/upkeep/replace-rows.ts';
import { restoreTable } from '../../../lakehouse/upkeep/restore.ts';

/** The built table's parked events become the table's: their ids are the same, for they are the same records. */
export async function replaceQuarantine(
  from: ObjectStore,
  to: ObjectStore,
  names: { readonly table: string; readonly into: string },
  freshSinceMs: number,
): Promise<number> {
  const source = await snapshotOf(from);
  const current = await snapshotOf(to);
  if (source === null) {
    if (current !== null) await emptyTable(to, current);
    return 0;
  }
  const bytes = await copyObjects(from, to, objectsOf(source), { freshSinceMs });
  if (current === null) await createTable(to, { name: `${names.table}__quarantine`, schema: source.schema });
  await replaceRows(to, source, { txns: [], parameters: { from: `${names.into}__quarantine` } });
  return bytes;
}

/** The quarantine as it was at a version; null = there was none, and it is emptied. */
export async function quarantineAt(store: ObjectStore, version: string | null): Promise<void> {
  const current = await snapshotOf(store);
  if (current === null) return;
  if (version === null) await emptyTable(store, current);
  else await restoreTable(store, BigInt(version));
}

async function emptyTable(store: ObjectStore, current: Snapshot): Promise<void> {
  if (current.files.count === 0) return;
  await replaceRows(store, { ...current, files: EMPTY_STATE.files }, { txns: [], parameters: { from: 'nothing' } });
}

async function snapshotOf(store: ObjectStore): Promise<Snapshot | null> {
  for await (const _ of store.list('_delta_log/')) return openSnapshot(store);
  return null;
}
