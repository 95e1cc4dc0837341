/**
 * Taking rows out of stored files, in the two ways that Delta has: a deletion vector beside the file (cheap to write), or a
 * copy of the file without them (what readers without deletion vectors need).
 */
import { randomUUID } from 'node:crypto';
import { hashKeys } from '../index/key-hash.ts';
import { removeOf, type AddFile, type RemoveFile } from '../table/actions.ts';
import { batchBytes } from '../table/pack-batch.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { encodeDeletionVectors } from '../table/deletion-vector.ts';
import { containsRow, unionRows, type RowSet } from '../table/row-bitmap.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { concat } from './concat.ts';
import { writeDataFiles, type FileSettings, type WrittenFiles } from './data-files.ts';
import { trueRows } from './file-entries.ts';
import { vectorStats, recordCount } from './file-stats.ts';
import { gather, picksOf } from './gather.ts';
import { DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN, positionsOf } from './position-columns.ts';
import { putObject } from './put-object.ts';
import { openDataFile, readRowGroups } from './read-rows.ts';
import { NO_ROWS, type VectorCache } from './vector-cache.ts';

export interface DeletedRows {
  readonly adds: readonly AddFile[];
  readonly removes: readonly RemoveFile[];
  readonly vectorsWritten: number;
  readonly bytes: number;
  /** Copied rows: their files and index entries (copy-on-write only). */
  readonly copied: readonly WrittenFiles[];
}

export interface DeleteTarget {
  readonly snapshot: Snapshot;
  readonly vectors: VectorCache;
  readonly nowMs: number;
}

async function physicalRows(snapshot: Snapshot, file: AddFile): Promise<number> {
  return recordCount(file) ?? (await openDataFile(snapshot, file)).rowCount;
}

/** Files whose last living row goes are removed; the others get the union of old and new in one vector file. */
export async function deleteByVector(
  target: DeleteTarget,
  doomed: ReadonlyMap<string, RowSet>,
  dataChange = true,
): Promise<DeletedRows> {
  const { snapshot, vectors, nowMs } = target;
  const files = [...doomed.keys()].flatMap((path) => snapshot.files.get(path) ?? []);
  const held = await vectors.rowsOf(snapshot.store, files);
  const removes: RemoveFile[] = [];
  const marked: { file: AddFile; rows: RowSet; physical: number }[] = [];
  for (const file of files) {
    const before = held.get(file.path) ?? NO_ROWS;
    const rows = unionRows(before, doomed.get(file.path) ?? NO_ROWS);
    if (rows.length === before.length) continue;
    removes.push(removeOf(file, nowMs, dataChange));
    const physical = await physicalRows(snapshot, file);
    if (rows.length < physical) marked.push({ file, rows, physical });
  }
  if (marked.length === 0) return { adds: [], removes, vectorsWritten: 0, bytes: 0, copied: [] };
  const encoded = encodeDeletionVectors(
    marked.map(({ rows }) => rows),
    randomUUID(),
  );
  await putObject(snapshot.store, encoded.key, encoded.bytes);
  const adds = marked.map(({ file, rows, physical }, i): AddFile => {
    const deletionVector = encoded.descriptors[i] ?? null;
    const add = { ...file, deletionVector, dataChange, stats: vectorStats(file, physical) };
    vectors.put(add, rows);
    return add;
  });
  return { adds, removes, vectorsWritten: adds.length, bytes: encoded.bytes.byteLength, copied: [] };
}

/** Copies each file without the doomed rows (and without those that a vector already hides). */
export async function deleteByCopy(
  target: DeleteTarget,
  doomed: ReadonlyMap<string, RowSet>,
  settings: FileSettings,
  keyColumns: readonly string[],
): Promise<DeletedRows> {
  const { snapshot, vectors, nowMs } = target;
  const removes: RemoveFile[] = [];
  const copied: WrittenFiles[] = [];
  for (const [path, rows] of doomed) {
    const file = snapshot.files.get(path);
    if (file === null) continue;
    const before = (await vectors.rowsOf(snapshot.store, [file])).get(path) ?? NO_ROWS;
    const gone = unionRows(before, rows);
    if (gone.length === before.length) continue;
    removes.push(removeOf(file, nowMs, settings.dataChange));
    if (gone.length === (await physicalRows(snapshot, file))) continue;
    const keep = (row: number): boolean => !containsRow(gone, row);
    for await (const batch of livingRows(snapshot, file, settings, keep))
      copied.push(await writeDataFiles(settings, { ...rowIdentity(batch, keyColumns), batch }));
  }
  return {
    adds: copied.flatMap((written) => written.adds),
    removes,
    vectorsWritten: 0,
    bytes: copied.reduce((sum, written) => sum + written.bytes, 0),
    copied,
  };
}

/** Hashes, positions and delete marks of rows read whole. */
export function rowIdentity(
  batch: ColumnBatch,
  keyColumns: readonly string[],
): { hashes: Uint32Array; positions: ReturnType<typeof positionsOf>; softDeleted: Uint8Array | null } {
  const column = (name: string): ColumnVector | undefined => batch.columns[batch.names.indexOf(name)];
  return {
    hashes: hashKeys(
      keyColumns.flatMap((name) => column(name) ?? []),
      batch.rowCount,
    ),
    positions: positionsOf(
      { epoch: column(EPOCH_COLUMN), lsn: column(LSN_COLUMN), ord: column(ORD_COLUMN) },
      batch.rowCount,
    ),
    softDeleted: trueRows(column(DELETED_COLUMN)),
  };
}

/** Rows to keep of a file, in the columns of `settings.schema`, in batches of about a file's size. */
export async function* livingRows(
  snapshot: Snapshot,
  file: AddFile,
  settings: Pick<FileSettings, 'schema' | 'fileBytesMax' | 'fileRowsMax'>,
  keep: (row: number) => boolean,
): AsyncGenerator<ColumnBatch> {
  let parts: ColumnBatch[] = [];
  let rows = 0;
  let bytes = 0;
  for await (const { rowStart, batch } of readRowGroups(snapshot, file, settings.schema.fields)) {
    const kept: number[] = [];
    for (let row = 0; row < batch.rowCount; row++) if (keep(rowStart + row)) kept.push(row);
    if (kept.length === 0) continue;
    const part = pickRows(batch, Uint32Array.from(kept));
    parts.push(part);
    rows += part.rowCount;
    bytes += batchBytes(part);
    if (rows >= settings.fileRowsMax || bytes >= settings.fileBytesMax) {
      yield joinBatches(parts);
      parts = [];
      rows = 0;
      bytes = 0;
    }
  }
  if (parts.length > 0) yield joinBatches(parts);
}

/** Rows of a batch, ascending and without repeats. */
export function pickRows(batch: ColumnBatch, rows: Uint32Array): ColumnBatch {
  // Ascending, and as many as there are: all of them.
  return rows.length === batch.rowCount ? batch : arrangeRows(batch, rows);
}

/** Rows of a batch in any order. */
export function arrangeRows(batch: ColumnBatch, rows: Uint32Array): ColumnBatch {
  const picks = picksOf(rows);
  return { rowCount: rows.length, names: batch.names, columns: batch.columns.map((column) => gather([column], picks)) };
}

/** Batches of the same columns, one after another. */
export function joinBatches(parts: readonly ColumnBatch[]): ColumnBatch {
  const [first] = parts;
  if (first === undefined) throw new RangeError('no batch to join');
  let list = parts;
  while (list.length > 1) {
    const next: ColumnBatch[] = [];
    for (let from = 0; from < list.length; from += 200) {
      const slice = list.slice(from, from + 200);
      next.push({
        rowCount: slice.reduce((sum, part) => sum + part.rowCount, 0),
        names: first.names,
        columns: first.columns.map((_, i) => concat(slice.map((part) => part.columns[i] as ColumnVector))),
      });
    }
    list = next;
  }
  return list[0] ?? first;
}
