/** Rows of one file that the log names: deletion vector applied, partition values and column mapping too. */
import { storeSource, type ByteSource } from '../parquet/byte-source.ts';
import { decodeParquet, decodeRowGroups } from '../parquet/decode.ts';
import { openParquet, type ParquetFile } from '../parquet/footer.ts';
import { ParquetError } from '../parquet/parquet-error.ts';
import { openStore } from '../store/open-store.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import type { PartitionValues } from '../table/actions.ts';
import { mappingMode, physicalName } from '../table/column-mapping.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { DeletionVectorDescriptor } from '../table/deletion-vector-descriptor.ts';
import { readDeletionVector } from '../table/deletion-vector.ts';
import { canonicalPath, keyOfPath } from '../table/file-path.ts';
import type { RowSet } from '../table/row-bitmap.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { partitionColumn } from './partition-column.ts';

/** What an add, remove or cdc action says of a file. */
export interface LoggedFile {
  readonly path: string;
  readonly size: bigint | null;
  readonly partitionValues: PartitionValues | null;
}

const NO_ROWS: RowSet = new Uint32Array(0);

export async function vectorRows(snapshot: Snapshot, vector: DeletionVectorDescriptor | null): Promise<RowSet> {
  if (vector === null) return NO_ROWS;
  try {
    return await readDeletionVector(snapshot.store, vector, async (uri, start, end) => {
      const { store, key } = outside(snapshot, uri);
      return store.get(key, { start, end });
    });
  } catch (error) {
    throw error instanceof TableError ? error.at({ version: snapshot.version }) : error;
  }
}

/** Live rows of a file as batches, a row group at a time; `deleted` are the rows its vector hides. */
export async function* liveRows(
  snapshot: Snapshot,
  file: LoggedFile,
  fields: readonly StructField[],
  deleted: RowSet,
): AsyncGenerator<ColumnBatch> {
  try {
    const opened = await openDataFile(snapshot, file);
    const stored = { type: 'struct' as const, fields: storedFields(snapshot, fields) };
    const options = { columnMapping: mappingMode(snapshot.metadata), without: deleted };
    for await (const { batch } of decodeRowGroups(opened, stored, options))
      yield withPartitions(snapshot, file, fields, batch);
  } catch (error) {
    throw dataFileError(snapshot, file, error);
  }
}

/** Chosen rows of a file by physical position, ascending. */
export async function rowsAt(
  snapshot: Snapshot,
  file: LoggedFile,
  fields: readonly StructField[],
  rows: RowSet,
): Promise<ColumnBatch> {
  try {
    const opened = await openDataFile(snapshot, file);
    const stored = { type: 'struct' as const, fields: storedFields(snapshot, fields) };
    const batch = await decodeParquet(opened, stored, { columnMapping: mappingMode(snapshot.metadata), rows });
    return withPartitions(snapshot, file, fields, batch);
  } catch (error) {
    throw dataFileError(snapshot, file, error);
  }
}

async function openDataFile(snapshot: Snapshot, file: LoggedFile): Promise<ParquetFile> {
  return openParquet(await fileSource(snapshot, file));
}

async function fileSource(snapshot: Snapshot, file: LoggedFile): Promise<ByteSource> {
  const own = keyOfPath(file.path, snapshot.store.uri);
  const { store, key } = own === null ? outside(snapshot, file.path) : { store: snapshot.store, key: own };
  if (file.size !== null) return storeSource(store, key, Number(file.size));
  const found = await store.head(key);
  if (found === null) throw new StoreError('STORE_NOT_FOUND', key, 'no such object');
  return storeSource(store, key, found.sizeBytes);
}

/** A file of another table (a shallow clone's): only where no credentials are needed to reach it. */
function outside(snapshot: Snapshot, uri: string): { store: ObjectStore; key: string } {
  const path = canonicalPath(uri);
  const slash = path.lastIndexOf('/');
  if (!path.startsWith('/'))
    throw new TableError(
      'DATA_FILE_MISSING',
      { table: snapshot.store.uri, version: snapshot.version, file: uri },
      'the file lies outside the table, in a store that this reader was not given',
    );
  return { store: openStore(path.slice(0, slash)), key: path.slice(slash + 1) };
}

function storedFields(snapshot: Snapshot, fields: readonly StructField[]): StructField[] {
  return fields.filter((field) => !snapshot.metadata.partitionColumns.includes(field.name));
}

function withPartitions(
  snapshot: Snapshot,
  file: LoggedFile,
  fields: readonly StructField[],
  stored: ColumnBatch,
): ColumnBatch {
  const mode = mappingMode(snapshot.metadata);
  const columns = fields.map((field): ColumnVector => {
    const column = stored.columns[stored.names.indexOf(field.name)];
    if (column !== undefined) return column;
    const text = file.partitionValues?.[physicalName(field, mode)] ?? null;
    if (typeof field.type !== 'string') throw new RangeError(`column ${field.name} cannot partition a table`);
    return partitionColumn(field.type, text, stored.rowCount);
  });
  return { rowCount: stored.rowCount, names: fields.map((field) => field.name), columns };
}

/** Faults of a data file as errors that name table, version and file. */
export function dataFileError(
  snapshot: Pick<Snapshot, 'store' | 'version'>,
  file: Pick<LoggedFile, 'path'>,
  error: unknown,
): unknown {
  const place = { table: snapshot.store.uri, version: snapshot.version, file: file.path };
  if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND')
    return new TableError('DATA_FILE_MISSING', place, 'a data file is gone; run fsck', { cause: error });
  if (error instanceof StoreError && error.code === 'STORE_BAD_URI')
    return new TableError('DATA_FILE_MISSING', place, 'the log names a file that is not inside the table; run fsck', {
      cause: error,
    });
  if (error instanceof StoreError && error.code === 'STORE_TRUNCATED')
    return new TableError('DATA_FILE_CORRUPT', place, 'a data file is shorter than the log says; run fsck', {
      cause: error,
    });
  if (error instanceof ParquetError)
    return new TableError('DATA_FILE_CORRUPT', place, `a data file cannot be read: ${error.message}`, { cause: error });
  if (error instanceof RangeError)
    return new TableError('DATA_FILE_CORRUPT', place, `a data file cannot be read: ${error.message}`, { cause: error });
  return error;
}
