/** A batch against one snapshot of the table: index brought up to it, keys looked up, outcomes decided. */
import { ABSENT, FENCE, FOUND_WORDS, type Lookup } from '../index/entry.ts';
import type { KeyIndex } from '../index/key-index.ts';
import { containsRow } from '../table/row-bitmap.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import { MergeOp, RowOutcome } from './merge.ts';
import { MergeError } from './merge-error.ts';
import { resetWhenCorrupt } from '../index/reset-corrupt.ts';
import { NO_BASE, resolveRows, type Resolution } from './resolve.ts';
import type { TableState } from './table-state.ts';
import { findTruncated, type TruncatedRows } from './truncate.ts';
import { NO_ROWS } from './vector-cache.ts';

/** A batch's standing against one snapshot. */
export interface Resolved {
  readonly keyed: KeyedBatch;
  readonly snapshot: Snapshot;
  readonly index: KeyIndex | null;
  readonly resolution: Resolution;
  readonly truncated: TruncatedRows;
}

export async function resolveAt(state: TableState, keyed: KeyedBatch, snapshot: Snapshot): Promise<Resolved> {
  const keyFields = storedKeyFields(snapshot, keyed);
  const index = await state.index(snapshot, keyFields);
  if (index === null)
    return { keyed, snapshot, index, resolution: resolveAppend(keyed), truncated: { rows: new Map(), count: 0 } };
  let resolved: Resolved | null = null;
  const damaged = await resetWhenCorrupt(index, async () => {
    resolved = await resolveBy(index, state, keyed, snapshot);
  });
  if (!damaged && resolved !== null) return resolved;
  return resolveBy((await state.index(snapshot, keyFields)) ?? index, state, keyed, snapshot);
}

async function resolveBy(index: KeyIndex, state: TableState, keyed: KeyedBatch, snapshot: Snapshot): Promise<Resolved> {
  const { truncate } = keyed.source;
  const truncated =
    truncate === null ? { rows: new Map(), count: 0 } : await findTruncated(snapshot, state.vectors, truncate);
  const lookup = index.lookup(keyed.hashes, keyed.order);
  const isLive = await livenessOf(state, index, snapshot, lookup);
  const resolution = resolveRows({
    rowCount: keyed.source.rowCount,
    ops: keyed.source.ops,
    positions: keyed.positions,
    absent: keyed.absent,
    donors: keyed.source.baseRow ?? null,
    lookup,
    isLive,
    truncate,
    lastTruncate: index.truncate(),
    keepsCleared: state.mode === 'soft-delete',
  });
  return { keyed, snapshot, index, resolution, truncated };
}

/** The key's fields as the table has them, in key order. */
function storedKeyFields(snapshot: Snapshot, keyed: KeyedBatch): readonly StructField[] {
  return keyed.keyFields.map((field) => snapshot.schema.fields.find((stored) => stored.name === field.name) ?? field);
}

function resolveAppend({ source }: KeyedBatch): Resolution {
  const outcomes = new Uint8Array(source.rowCount);
  for (let row = 0; row < source.rowCount; row++)
    outcomes[row] = source.ops[row] === MergeOp.delete ? RowOutcome.delete : RowOutcome.insert;
  const baseFile = new Uint32Array(source.rowCount).fill(NO_BASE);
  return { outcomes, baseFile, baseRow: new Uint32Array(source.rowCount), donors: null, extra: [] };
}

/** Whether a row that the index names still stands in the snapshot: its file does, and no vector hides it. */
async function livenessOf(
  state: TableState,
  index: KeyIndex,
  snapshot: Snapshot,
  lookup: Lookup,
): Promise<(file: number, row: number) => boolean> {
  const { found, extra } = lookup;
  const ordinals = new Set<number>();
  for (let at = 0; at < found.length; at += FOUND_WORDS) ordinals.add(found[at] ?? ABSENT);
  for (let i = 1; i < extra.length; i += 3) ordinals.add(extra[i] ?? ABSENT);
  ordinals.delete(ABSENT);
  ordinals.delete(FENCE);
  const files = new Map(
    [...ordinals].flatMap((ordinal) => {
      const path = index.pathOf(ordinal);
      const file = path === undefined ? null : snapshot.files.get(path);
      return file === null ? [] : [[ordinal, file] as const];
    }),
  );
  const vectors = await state.vectors.rowsOf(snapshot.store, files.values());
  const dead = new Map([...files].map(([ordinal, file]) => [ordinal, vectors.get(file.path) ?? NO_ROWS]));
  return (ordinal, row) => {
    const rows = dead.get(ordinal);
    return rows !== undefined && (rows.length === 0 || !containsRow(rows, row));
  };
}

/**
 * After another resolution: rows that were parked stay parked (the quarantine has them), and a row that lost its base since
 * cannot be parked any more.
 */
export function keepParked(before: Uint8Array, resolved: Resolved, table: string): Resolved {
  const { outcomes, baseFile } = resolved.resolution;
  for (let row = 0; row < outcomes.length; row++) {
    if (before[row] === RowOutcome.missingBase) {
      outcomes[row] = RowOutcome.missingBase;
      baseFile[row] = NO_BASE;
    } else if (outcomes[row] === RowOutcome.missingBase)
      throw new MergeError(
        'MERGE_BASE_LOST',
        table,
        'another writer deleted a row that the batch completes; prepare the batch again',
      );
  }
  return resolved;
}
