/** Index entries of a data file that stands in the table, read from its key and position columns, a row group at a time. */
import { ENTRY_WORDS } from '../index/entry.ts';
import { hashKeys } from '../index/key-hash.ts';
import type { AddFile } from '../table/actions.ts';
import { isNull, type ColumnBatch, type ColumnVector } from '../table/column.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { writeEntry } from './data-files.ts';
import { MergeError } from './merge-error.ts';
import { DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN, positionsOf } from './position-columns.ts';
import { readRowGroups } from './read-rows.ts';

/** Rows in ascending order that a deletion vector marks. */
export interface DeadRows {
  has(row: number): boolean;
}

/** Unsorted entries of the file's living rows. */
export async function* fileEntries(
  snapshot: Snapshot,
  file: AddFile,
  keyColumns: readonly string[],
  ordinal: number,
  dead: DeadRows,
): AsyncGenerator<Uint32Array> {
  for await (const { rowStart, batch } of readRowGroups(snapshot, file, indexFields(snapshot, keyColumns))) {
    yield groupEntries(batch, keyColumns, ordinal, rowStart, dead);
  }
}

function indexFields(snapshot: Snapshot, keyColumns: readonly string[]): StructField[] {
  const wanted = [...keyColumns, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN, DELETED_COLUMN];
  return wanted.flatMap((name) => snapshot.schema.fields.find((field) => field.name === name) ?? []);
}

function groupEntries(
  batch: ColumnBatch,
  keyColumns: readonly string[],
  ordinal: number,
  rowStart: number,
  dead: DeadRows,
): Uint32Array {
  const column = (name: string): ColumnVector | undefined => batch.columns[batch.names.indexOf(name)];
  const keys = keyColumns.flatMap((name) => column(name) ?? []);
  const source = {
    hashes: hashKeys(keys, batch.rowCount),
    positions: positionsOf(
      { epoch: column(EPOCH_COLUMN), lsn: column(LSN_COLUMN), ord: column(ORD_COLUMN) },
      batch.rowCount,
    ),
    softDeleted: trueRows(column(DELETED_COLUMN)),
  };
  const entries = new Uint32Array(batch.rowCount * ENTRY_WORDS);
  let at = 0;
  for (let row = 0; row < batch.rowCount; row++) {
    if (dead.has(rowStart + row)) continue;
    writeEntry(entries, at, source, row, ordinal, rowStart + row);
    at += ENTRY_WORDS;
  }
  return entries.subarray(0, at);
}

/** Bitmap of the rows where a boolean column is true; null when there are none. */
export function trueRows(column: ColumnVector | undefined): Uint8Array | null {
  if (column?.kind !== 'boolean') return null;
  if (column.validity === null) return column.values;
  const { validity } = column;
  return column.values.map((byte, i) => byte & (validity[i] ?? 0));
}

/** @throws MergeError MERGE_BAD_BATCH */
export function assertKeyColumns(snapshot: Snapshot, keyColumns: readonly string[]): void {
  for (const name of keyColumns)
    if (!snapshot.schema.fields.some((field) => field.name === name))
      throw new MergeError(
        'MERGE_BAD_BATCH',
        snapshot.store.uri,
        `the table has no column ${name}, which is to be its key`,
      );
}

/** Whether any key column is NULL in a row. */
export function hasNullKey(keys: readonly ColumnVector[], row: number): boolean {
  return keys.some((column) => isNull(column, row));
}
