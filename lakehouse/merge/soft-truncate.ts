/** TRUNCATE in soft-delete mode: the cleared rows are written again as deleted, at the truncate's position. */
import type { TruncatePosition } from '../index/manifest.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { containsRow, type RowSet } from '../table/row-bitmap.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { writeDataFiles, type FileSettings, type WrittenFiles } from './data-files.ts';
import { livingRows, rowIdentity } from './delete-rows.ts';
import { DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN } from './position-columns.ts';

/**
 * @param rows living rows to clear, a file
 * @param replaced rows of them that the batch itself writes anew
 * @param onImages told of the rows as they were and as they become
 */
export async function softTruncate(
  snapshot: Snapshot,
  settings: FileSettings,
  keyColumns: readonly string[],
  rows: ReadonlyMap<string, RowSet>,
  replaced: ReadonlyMap<string, RowSet>,
  truncate: TruncatePosition,
  onImages: (before: ColumnBatch, after: ColumnBatch) => Promise<void>,
): Promise<readonly WrittenFiles[]> {
  const written: WrittenFiles[] = [];
  for (const [path, cleared] of rows) {
    const file = snapshot.files.get(path);
    if (file === null) continue;
    const elsewhere = replaced.get(path) ?? new Uint32Array(0);
    const keep = (row: number): boolean => containsRow(cleared, row) && !containsRow(elsewhere, row);
    for await (const batch of livingRows(snapshot, file, settings, keep)) {
      const marked = markDeleted(batch, truncate);
      await onImages(batch, marked);
      written.push(await writeDataFiles(settings, { ...rowIdentity(marked, keyColumns), batch: marked }));
    }
  }
  return written;
}

function markDeleted(batch: ColumnBatch, truncate: TruncatePosition): ColumnBatch {
  const length = batch.rowCount;
  const base = { length, validity: null };
  const column = (name: string, old: ColumnVector): ColumnVector => {
    switch (name) {
      case DELETED_COLUMN:
        return { kind: 'boolean', ...base, values: new Uint8Array((length + 7) >> 3).fill(255) };
      case LSN_COLUMN:
        return { kind: 'int64', ...base, values: new BigInt64Array(length).fill(BigInt.asIntN(64, truncate.lsn)) };
      case ORD_COLUMN:
        return { kind: 'int32', ...base, values: new Int32Array(length).fill(truncate.ord) };
      case EPOCH_COLUMN:
        return { kind: 'int32', ...base, values: new Int32Array(length).fill(truncate.epoch) };
      default:
        return old;
    }
  };
  return {
    rowCount: length,
    names: batch.names,
    columns: batch.columns.map((old, i) => column(batch.names[i] ?? '', old)),
  };
}
