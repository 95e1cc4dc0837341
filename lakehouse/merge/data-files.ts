/**
 * Rows into new data files of the table: split by partition and by size, statistics beside them, and an index entry a row.
 * Names are random and carry no values (PROTOCOL.md, "Data Files": directories are a convention only).
 */
import { randomUUID } from 'node:crypto';
import { ENTRY_WORDS } from '../index/entry.ts';
import { HASH_WORDS } from '../index/key-hash.ts';
import type { ParquetCodec } from '../parquet/encode.ts';
import { makeFileBody } from './file-thread.ts';
import { putObject } from './put-object.ts';
import type { ObjectStore } from '../store/store.ts';
import { newAdd, type AddFile, type MetadataAction } from '../table/actions.ts';
import { rowsWithin } from '../table/pack-batch.ts';
import { mappingMode } from '../table/column-mapping.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';
import { gather, picksOf } from './gather.ts';
import { partitionRows, type PartitionRows } from './partition-rows.ts';
import type { Positions } from './position-columns.ts';
import { SOFT_DELETED_BIT } from './resolve.ts';

export interface FileSettings {
  readonly store: ObjectStore;
  readonly metadata: MetadataAction;
  readonly schema: StructType;
  readonly codec: ParquetCodec;
  /** Limits of one file: rows, and bytes in memory. */
  readonly fileRowsMax: number;
  readonly fileBytesMax: number;
  /** Ordinals for index entries; null where rows are not indexed. */
  readonly reserveOrdinal: (() => number) | null;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  readonly dataChange: boolean;
  /** As makeFileBody: which files are made in another thread. */
  readonly apartBytes: number;
}

export interface RowsToWrite {
  /** Columns of `schema.fields`, in that order. */
  readonly batch: ColumnBatch;
  /** Key hashes and positions, a row each. */
  readonly hashes: Uint32Array;
  readonly positions: Positions;
  /** Rows that stand for a delete (a bitmap); null when none does. */
  readonly softDeleted: Uint8Array | null;
  /** The rows in the order of their hashes, where that is known. */
  readonly order?: Uint32Array | null;
}

export interface WrittenFile {
  readonly ordinal: number | null;
  readonly path: string;
  readonly rows: Uint32Array | null;
}

export interface WrittenFiles {
  readonly adds: readonly AddFile[];
  /** Entries, one a row. */
  readonly entries: Uint32Array;
  /** They stand in hash order. */
  readonly sorted: boolean;
  /** Beside each add: its ordinal (null where rows are not indexed), and which rows of the batch it has (null: all). */
  readonly files: readonly WrittenFile[];
  readonly bytes: number;
}

export const NO_FILES: WrittenFiles = { adds: [], entries: new Uint32Array(0), sorted: true, files: [], bytes: 0 };

export async function writeDataFiles(settings: FileSettings, rows: RowsToWrite): Promise<WrittenFiles> {
  if (rows.batch.rowCount === 0) return NO_FILES;
  const pieces = splitRows(settings, rows.batch);
  const entries =
    settings.reserveOrdinal === null ? new Uint32Array(0) : new Uint32Array(rows.batch.rowCount * ENTRY_WORDS);
  const adds: AddFile[] = [];
  const files: WrittenFile[] = [];
  let bytes = 0;
  let entryAt = 0;
  const only = pieces.length === 1 && pieces[0]?.rows === null;
  const order = only ? (rows.order ?? null) : null;
  for (const piece of pieces) {
    const written = await writeFile(settings, rows.batch, piece);
    adds.push(written);
    bytes += Number(written.size);
    const ordinal = settings.reserveOrdinal?.() ?? null;
    files.push({ ordinal, path: written.path, rows: piece.rows });
    if (ordinal !== null) {
      if (order !== null) fillInOrder(entries, ordinal, rows, order);
      else entryAt = fillEntries(entries, entryAt, ordinal, rows, piece.rows);
    }
  }
  return { adds, entries, sorted: order !== null, files, bytes };
}

function splitRows(settings: FileSettings, batch: ColumnBatch): PartitionRows[] {
  const limit = Math.min(settings.fileRowsMax, rowsWithin(batch, settings.fileBytesMax));
  const groups = partitionRows(settings.metadata, settings.schema, batch, settings.store.uri);
  return groups.flatMap(({ rows, partitionValues }): PartitionRows[] => {
    const count = rows?.length ?? batch.rowCount;
    if (count <= limit) return [{ rows, partitionValues }];
    const whole = rows ?? Uint32Array.from({ length: count }, (_, row) => row);
    const parts = Math.ceil(count / limit);
    const size = Math.ceil(count / parts);
    return Array.from({ length: parts }, (_, i) => ({
      rows: whole.subarray(i * size, Math.min((i + 1) * size, count)),
      partitionValues,
    }));
  });
}

async function writeFile(settings: FileSettings, batch: ColumnBatch, piece: PartitionRows): Promise<AddFile> {
  const { metadata, schema, store, codec } = settings;
  const { rows } = piece;
  const stored = schema.fields
    .map((field, i) => ({ field, column: batch.columns[i] as ColumnVector }))
    .filter(({ field }) => !metadata.partitionColumns.includes(field.name));
  const picks = rows === null ? null : picksOf(rows);
  const out: ColumnBatch = {
    rowCount: rows?.length ?? batch.rowCount,
    names: stored.map(({ field }) => field.name),
    columns: stored.map(({ column }) => (picks === null ? column : gather([column], picks))),
  };
  const fileSchema: StructType = { type: 'struct', fields: stored.map(({ field }) => field) };
  const columnMapping = mappingMode(metadata) !== 'none';
  const { body, stats } = await makeFileBody(
    { schema: fileSchema, batch: out, codec, columnMapping, indexedColumns: indexedColumns(metadata) },
    settings.apartBytes,
  );
  const path = dataFileName(codec);
  await putObject(store, path, body);
  return newAdd({
    path,
    partitionValues: piece.partitionValues,
    size: BigInt(body.byteLength),
    modificationTime: BigInt(settings.nowMs),
    dataChange: settings.dataChange,
    stats,
  });
}

/** Which columns have statistics, as the table's properties say; undefined: they say nothing. */
function indexedColumns({ configuration }: MetadataAction): number | string[][] | undefined {
  const named = configuration['delta.dataSkippingStatsColumns'];
  if (named !== undefined) return named.split(',').map((name) => name.trim().split('.'));
  const count = Number(configuration['delta.dataSkippingNumIndexedCols'] ?? NaN);
  return Number.isInteger(count) ? count : undefined;
}

function dataFileName(codec: ParquetCodec): string {
  return `part-00000-${randomUUID()}-c000${codec === 'uncompressed' ? '' : `.${codec}`}.parquet`;
}

function fillEntries(
  entries: Uint32Array,
  from: number,
  ordinal: number,
  source: RowsToWrite,
  rows: Uint32Array | null,
): number {
  const count = rows?.length ?? source.batch.rowCount;
  let at = from;
  for (let i = 0; i < count; i++) {
    writeEntry(entries, at, source, rows === null ? i : (rows[i] ?? 0), ordinal, i);
    at += ENTRY_WORDS;
  }
  return at;
}

/** All rows of the batch, in one file. */
function fillInOrder(entries: Uint32Array, ordinal: number, source: RowsToWrite, order: Uint32Array): void {
  for (let i = 0, at = 0; i < order.length; i++, at += ENTRY_WORDS) {
    const row = order[i] as number;
    writeEntry(entries, at, source, row, ordinal, row);
  }
}

/** Entry of batch row `row`, which stands at `fileRow` of file `ordinal`. */
export function writeEntry(
  entries: Uint32Array,
  at: number,
  source: Pick<RowsToWrite, 'hashes' | 'positions' | 'softDeleted'>,
  row: number,
  ordinal: number,
  fileRow: number,
): void {
  const { hashes, positions, softDeleted } = source;
  for (let word = 0; word < HASH_WORDS; word++) entries[at + word] = hashes[row * HASH_WORDS + word] ?? 0;
  const deleted = softDeleted !== null && ((softDeleted[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
  entries[at + 4] = ordinal;
  entries[at + 5] = fileRow;
  entries[at + 6] = (positions.epoch[row] ?? 0) | (deleted ? SOFT_DELETED_BIT : 0);
  entries[at + 7] = positions.ord[row] ?? 0;
  entries[at + 8] = positions.lsnWords[row * 2] ?? 0;
  entries[at + 9] = positions.lsnWords[row * 2 + 1] ?? 0;
}
