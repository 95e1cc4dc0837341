/** Rows of a table's data file as columns: column mapping and partition values applied, deletion vectors not. */
import { storeSource } from '../parquet/byte-source.ts';
import { decodeParquet, decodeRowGroups } from '../parquet/decode.ts';
import { openParquet, type ParquetFile } from '../parquet/footer.ts';
import { ParquetError } from '../parquet/parquet-error.ts';
import { dataFileError } from '../read/file-rows.ts';
import { StoreError } from '../store/store.ts';
import type { AddFile } from '../table/actions.ts';
import { mappingMode, physicalName } from '../table/column-mapping.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { keyOfPath } from '../table/file-path.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { partitionColumn } from '../read/partition-column.ts';

/** What reading a file of a table takes of its snapshot. */
export type FileTable = Pick<Snapshot, 'store' | 'version' | 'metadata'>;

export async function openDataFile(snapshot: FileTable, file: AddFile): Promise<ParquetFile> {
  const key = keyOfPath(file.path, snapshot.store.uri);
  if (key === null)
    throw new TableError(
      'PROTOCOL_UNSUPPORTED',
      { table: snapshot.store.uri, version: snapshot.version, file: file.path },
      'the file lies outside of the table, which is a shallow clone: this version reads such a table and does not rewrite it',
    );
  return named(snapshot, file, () => openParquet(storeSource(snapshot.store, key, Number(file.size))));
}

/** Damage of a file as an error that names table, version and file. What another try may cure stays what it is. */
async function named<T>(snapshot: FileTable, file: AddFile, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const mayBeWhole = error instanceof StoreError && error.code === 'STORE_TRUNCATED';
    if (mayBeWhole && (await sizeOf(snapshot, file)) === Number(file.size)) throw error;
    throw error instanceof ParquetError || error instanceof StoreError ? dataFileError(snapshot, file, error) : error;
  }
}

async function sizeOf({ store }: FileTable, file: AddFile): Promise<number | null> {
  return (await store.head(keyOfPath(file.path, store.uri) ?? ''))?.sizeBytes ?? null;
}

/** The fields' columns for the given rows (ascending), or all rows. */
export async function readRows(
  snapshot: FileTable,
  file: AddFile,
  opened: ParquetFile,
  fields: readonly StructField[],
  rows?: Uint32Array,
): Promise<ColumnBatch> {
  const stored = storedFields(snapshot, fields);
  const columnMapping = mappingMode(snapshot.metadata);
  const batch = await named(snapshot, file, () =>
    decodeParquet(
      opened,
      { type: 'struct', fields: stored },
      rows === undefined ? { columnMapping } : { columnMapping, rows },
    ),
  );
  return withPartitions(snapshot, file, fields, batch, rows?.length ?? opened.rowCount);
}

/** The same for all rows, a row group at a time. */
export async function* readRowGroups(
  snapshot: FileTable,
  file: AddFile,
  fields: readonly StructField[],
): AsyncGenerator<{ readonly rowStart: number; readonly batch: ColumnBatch }> {
  const opened = await openDataFile(snapshot, file);
  const schema = { type: 'struct' as const, fields: storedFields(snapshot, fields) };
  const groups = decodeRowGroups(opened, schema, { columnMapping: mappingMode(snapshot.metadata) });
  try {
    for (;;) {
      const next = await named(snapshot, file, () => groups.next());
      if (next.done === true) return;
      const { rowStart, batch } = next.value;
      yield { rowStart, batch: withPartitions(snapshot, file, fields, batch, batch.rowCount) };
    }
  } finally {
    await groups.return(undefined);
  }
}

function storedFields(snapshot: FileTable, fields: readonly StructField[]): StructField[] {
  return fields.filter((field) => !snapshot.metadata.partitionColumns.includes(field.name));
}

function withPartitions(
  snapshot: FileTable,
  file: AddFile,
  fields: readonly StructField[],
  stored: ColumnBatch,
  rowCount: number,
): ColumnBatch {
  const mode = mappingMode(snapshot.metadata);
  const columns = fields.map((field): ColumnVector => {
    const column = stored.columns[stored.names.indexOf(field.name)];
    if (column !== undefined) return column;
    if (typeof field.type !== 'string') throw new RangeError(`column ${field.name} cannot partition a table`);
    return partitionColumn(field.type, file.partitionValues[physicalName(field, mode)] ?? null, rowCount);
  });
  return { rowCount, names: fields.map((field) => field.name), columns };
}
