/** Rows of a table's data file as columns: column mapping and partition values applied, deletion vectors not. */
import { storeSource } from '../parquet/byte-source.ts';
import { decodeParquet, decodeRowGroups } from '../parquet/decode.ts';
import { openParquet, type ParquetFile } from '../parquet/footer.ts';
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

export function openDataFile(snapshot: FileTable, file: AddFile): Promise<ParquetFile> {
  const key = keyOfPath(file.path, snapshot.store.uri);
  if (key === null)
    throw new TableError(
      'DATA_FILE_MISSING',
      { table: snapshot.store.uri, version: snapshot.version, file: file.path },
      'the file lies outside of the table (a shallow clone); such a table can be read, not merged into',
    );
  return openParquet(storeSource(snapshot.store, key, Number(file.size)));
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
  const batch = await decodeParquet(
    opened,
    { type: 'struct', fields: stored },
    rows === undefined ? { columnMapping } : { columnMapping, rows },
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
  for await (const { rowStart, batch } of decodeRowGroups(opened, schema, {
    columnMapping: mappingMode(snapshot.metadata),
  }))
    yield { rowStart, batch: withPartitions(snapshot, file, fields, batch, batch.rowCount) };
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
