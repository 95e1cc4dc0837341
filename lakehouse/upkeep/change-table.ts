/** Commits a change of schema or properties; after a lost race the change is made again on top of the winner. */
import { randomUUID } from 'node:crypto';
import { NO_ACTIONS } from '../table/actions.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import { evolve } from '../table/evolve.ts';
import type { TableChange } from '../table/evolve.ts';
import type { Snapshot } from '../table/snapshot.ts';

const OPERATIONS = {
  'add-column': 'ADD COLUMNS',
  'rename-column': 'RENAME COLUMN',
  'drop-column': 'DROP COLUMNS',
  'drop-not-null': 'CHANGE COLUMN',
  comment: 'CHANGE COLUMN',
  properties: 'SET TBLPROPERTIES',
  'column-mapping': 'SET TBLPROPERTIES',
} as const satisfies Record<TableChange['kind'], string>;

/** `version` is null when the table already was so. @throws TableError SCHEMA_INVALID | UPKEEP_REFUSED | as commitTo */
export async function changeTable(
  snapshot: Snapshot,
  change: TableChange,
  options: CommitOptions & { readonly newId?: () => string } = {},
): Promise<CommitResult> {
  // One time for the commit's stamp and for the property that records it.
  const nowMs = (options.now ?? Date.now)();
  const proposal = (newest: Snapshot): Proposal | null => {
    const evolved = evolve(newest, change, {
      newId: options.newId ?? randomUUID,
      commitVersion: newest.version + 1n,
      commitMs: Math.max(nowMs, (newest.inCommitTimestampMs ?? newest.committedAtMs) + 1),
    });
    if (evolved === null) return null;
    return { operation: { name: OPERATIONS[change.kind] }, actions: { ...NO_ACTIONS, ...evolved } };
  };
  const first = proposal(snapshot);
  if (first === null) return { version: null, snapshot, conflicts: 0 };
  return commitTo(snapshot, first, async (_lost, newest) => proposal(newest), { ...options, now: () => nowMs });
}
