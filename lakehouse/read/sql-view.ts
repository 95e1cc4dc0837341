/**
 * A version of a table as a DuckDB view over its files: deletion vectors as an anti-join by file and row, partition values
 * by a join, missing columns as NULL, every column cast to its declared type. What DuckDB would not read rightly (column
 * mapping, void and variant columns, 2-level lists, Hadoop's LZ4, split integers) is first written anew by our own reader.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { storeSource } from '../parquet/byte-source.ts';
import { encodeParquet } from '../parquet/encode.ts';
import { openParquet, type FileNode, type ParquetFile } from '../parquet/footer.ts';
import { nullColumn } from '../parquet/spread.ts';
import { StoreError } from '../store/store.ts';
import type { AddFile } from '../table/actions.ts';
import { mappingMode } from '../table/column-mapping.ts';
import { isAbsolutePath, keyOfPath } from '../table/file-path.ts';
import type { DeltaType, StructField } from '../table/schema.ts';
import { usesType } from '../table/schema-walk.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { quoteName, quoteText, type DuckDbSession } from './duckdb.ts';
import { duckType, kindOfDuckType, narrows } from './duck-type.ts';
import { fetchTo, wantedBytes } from './fetch-columns.ts';
import { dataFileError, vectorRows } from './file-rows.ts';
import { partitionColumn } from './partition-column.ts';
import { scan } from './scan.ts';
import { canSkip, type Condition } from './skip-files.ts';
import { SqlError } from './sql-error.ts';
import { mixesTextAndBytes } from './stored-bytes.ts';

/** Local disk that fetched and converted files may take, of all tables of a session. */
export interface DiskBudget {
  readonly folder: string;
  bytesLeft: number;
  /** Which data file each local file is, or is a copy of. */
  readonly files: Map<string, { readonly snapshot: Snapshot; readonly file: AddFile }>;
}

/** The LZ4 frames of Hadoop, which DuckDB does not read; the name is the only sign before the pages. */
const OLD_LZ4 = /\.lz4(?:hadoop)?\.parquet$/;

/** Files fetched at a time. */
const FETCHES = 4;

/** Columns that read_parquet adds itself; a table's own column of that name would hide them. */
const VIRTUAL = new Set(['file_index', 'file_row_number', 'filename']);

export interface ViewNeeds {
  /** Makes the names of its helper tables. */
  readonly id: number;
  readonly budget: DiskBudget;
  /** Lower-case names among which every column is that is wanted; null: all. */
  readonly columns: ReadonlySet<string> | null;
  /** Files that hold no row meeting all of these are left out. */
  readonly where: readonly Condition[];
}

/** The table's columns and no row: enough to see whether a query fits. */
export async function createEmptyView(session: DuckDbSession, view: string, snapshot: Snapshot): Promise<void> {
  const columns = snapshot.schema.fields.map((field) => `NULL::${duckType(field.type)} AS ${quoteName(field.name)}`);
  if (columns.length === 0) columns.push(NO_COLUMN);
  await session.run(`CREATE OR REPLACE VIEW ${view} AS SELECT ${columns.join(', ')} WHERE false`);
}

/** A query that only counts wants no column, and a view must have one. */
const NO_COLUMN = 'NULL AS _sluice_row';

/** Where the snapshot's files lie that are read in place. */
export function foldersOf({ store, files }: Snapshot): readonly string[] {
  const folders = new Set<string>();
  if (store.uri.startsWith('file:')) folders.add(fileURLToPath(store.uri));
  for (const { path } of files)
    if (keyOfPath(path, store.uri) === null && isAbsolutePath(path)) folders.add(dirname(outsidePath(path)));
  return [...folders];
}

/** Creates `view` over the snapshot, with the wanted columns only. */
export async function createView(
  session: DuckDbSession,
  view: string,
  whole: Snapshot,
  { id, budget, columns: wanted, where }: ViewNeeds,
): Promise<void> {
  const files = [...whole.files].filter((file) => !canSkip(whole, file, where));
  if (files.length === 0) {
    await createEmptyView(session, view, whole);
    return;
  }
  const fields = whole.schema.fields.filter(({ name }) => wanted === null || wanted.has(name.toLowerCase()));
  const snapshot = { ...whole, schema: { ...whole.schema, fields } };
  const readAnew = async (): Promise<void> => {
    const paths = await convert(whole, fields, where, id, budget);
    await session.run(
      `CREATE OR REPLACE VIEW ${view} AS SELECT ${await columnList(session, snapshot, paths, new Set())} FROM ${readParquet(paths)}`,
    );
  };
  if (await mustConvert(whole, fields, files)) return readAnew();
  const paths = await localPaths(snapshot, files, id, budget, wanted);
  const partitions = new Set(snapshot.metadata.partitionColumns);
  const stored = fields.filter(({ name }) => !partitions.has(name));
  if (await mixesTextAndBytes(session, paths, stored)) return readAnew();
  const joins: string[] = [];
  if (partitions.size > 0) {
    await createPartitions(session, snapshot, files, id);
    joins.push(`JOIN _sluice.files_${id} AS f ON f.file = r.file_index`);
  }
  if (await createDeleted(session, snapshot, files, id))
    joins.push(`ANTI JOIN _sluice.deleted_${id} AS d ON d.file = r.file_index AND d.row = r.file_row_number`);
  const columns = await columnList(session, snapshot, paths, partitions);
  await session.run(
    `CREATE OR REPLACE VIEW ${view} AS SELECT ${columns} FROM ${readParquet(paths)} AS r ${joins.join(' ')}`,
  );
}

const readParquet = (paths: readonly string[]): string =>
  `read_parquet([${paths.map(quoteText).join(', ')}], union_by_name = true, hive_partitioning = false)`;

async function columnList(
  session: DuckDbSession,
  snapshot: Snapshot,
  paths: readonly string[],
  partitions: ReadonlySet<string>,
): Promise<string> {
  const inFiles = new Map<string, string>();
  const described = await session.query(`DESCRIBE SELECT * FROM ${readParquet(paths)}`);
  for await (const rows of described.rows)
    for (const [name, type] of rows)
      if (typeof name === 'string' && typeof type === 'string') inFiles.set(name.toLowerCase(), type);
  if (snapshot.schema.fields.length === 0) return NO_COLUMN;
  return snapshot.schema.fields
    .map((field, i) => {
      const name = quoteName(field.name);
      const type = duckType(field.type);
      if (partitions.has(field.name)) return `${partitionValue(field, `f.p${i}`)} AS ${name}`;
      const found = inFiles.get(field.name.toLowerCase());
      if (found === undefined) return `NULL::${type} AS ${name}`;
      if (kindOfDuckType(found) !== kindOfDuckType(type) || narrows(found, type))
        throw otherType(snapshot, field, found);
      return found === type ? `${name} AS ${name}` : `CAST(${name} AS ${type}) AS ${name}`;
    })
    .join(', ');
}

/** Cast, the values would be others, or fail one by one. */
function otherType({ store, version }: Snapshot, { name, type }: StructField, found: string): TableError {
  const said = typeof type === 'string' ? type : type.type;
  return new TableError(
    'DATA_FILE_CORRUPT',
    { table: store.uri, version },
    `the table says that column ${name} is ${said}, a data file has it as ${found}; run fsck, which names the file`,
  );
}

function partitionValue(field: StructField, column: string): string {
  return field.type === 'binary' ? `encode(${column})` : `CAST(${column} AS ${duckType(field.type)})`;
}

async function createPartitions(
  session: DuckDbSession,
  snapshot: Snapshot,
  files: readonly AddFile[],
  id: number,
): Promise<void> {
  const indexes = snapshot.schema.fields.flatMap((field, i) =>
    snapshot.metadata.partitionColumns.includes(field.name) ? [{ name: field.name, column: `p${i}` }] : [],
  );
  const columns = indexes.map(({ column }) => `${column} VARCHAR`);
  await session.run(`CREATE OR REPLACE TABLE _sluice.files_${id} (file BIGINT, ${columns.join(', ')})`);
  const rows = files.map((file, at) => {
    const values = indexes.map(({ name }) => {
      const text = file.partitionValues[name] ?? null;
      return text === null || text === '' ? 'NULL' : quoteText(text);
    });
    requirePartitionValues(snapshot, file);
    return `(${[at, ...values].join(', ')})`;
  });
  for (let at = 0; at < rows.length; at += 1_000)
    await session.run(`INSERT INTO _sluice.files_${id} VALUES ${rows.slice(at, at + 1_000).join(', ')}`);
}

/** DuckDB's own error of a value that is none would name neither table nor file. */
function requirePartitionValues(snapshot: Snapshot, file: AddFile): void {
  for (const { name, type } of snapshot.schema.fields) {
    if (typeof type !== 'string' || !snapshot.metadata.partitionColumns.includes(name)) continue;
    try {
      partitionColumn(type, file.partitionValues[name] ?? null, 1);
    } catch (error) {
      throw dataFileError(snapshot, file, error);
    }
  }
}

/** False when no file has deleted rows. */
async function createDeleted(
  session: DuckDbSession,
  snapshot: Snapshot,
  files: readonly AddFile[],
  id: number,
): Promise<boolean> {
  if (files.every((file) => file.deletionVector === null)) return false;
  await session.run(`CREATE OR REPLACE TABLE _sluice.deleted_${id} (file BIGINT, row BIGINT)`);
  for (const [at, file] of files.entries())
    if (file.deletionVector !== null)
      await session.appendRows('_sluice', `deleted_${id}`, at, await vectorRows(snapshot, file.deletionVector));
  return true;
}

async function mustConvert(
  snapshot: Snapshot,
  fields: readonly StructField[],
  files: readonly AddFile[],
): Promise<boolean> {
  const read = { type: 'struct' as const, fields };
  if (mappingMode(snapshot.metadata) !== 'none' || usesType(read, 'void') || usesType(read, 'variant')) return true;
  if (snapshot.schema.fields.some((field) => VIRTUAL.has(field.name.toLowerCase()))) return true;
  if (files.some(({ path }) => OLD_LZ4.test(path))) return true;
  // A count alone reads no column.
  if (fields.length === 0) return false;
  const wantsLists = fields.some((field) => hasList(field.type));
  const names = new Set(fields.map(({ name }) => name.toLowerCase()));
  // A writer keeps to its encodings: a few files tell, and to look into each costs as much as a small query.
  const looked = wantsLists ? files : [...files.slice(0, LOOKED_INTO), ...files.slice(LOOKED_INTO).slice(-LOOKED_INTO)];
  for (const file of looked) {
    const key = keyOfPath(file.path, snapshot.store.uri);
    if (key === null) {
      if (wantsLists) return true;
      continue;
    }
    const opened = await openParquet(storeSource(snapshot.store, key, Number(file.size))).catch((error: unknown) => {
      throw dataFileError(snapshot, file, error);
    });
    if (wantsLists && opened.root.children.some(hasOldList)) return true;
    if (splitsOtherThanFloats(opened, names)) return true;
  }
  return false;
}

const LOOKED_INTO = 4;

/** BYTE_STREAM_SPLIT of integers and byte arrays, which DuckDB does not decode. */
const splitsOtherThanFloats = ({ rowGroups }: ParquetFile, names: ReadonlySet<string>): boolean =>
  rowGroups[0]?.chunks.some(
    ({ meta }) =>
      meta.type !== 'FLOAT' &&
      meta.type !== 'DOUBLE' &&
      meta.encodings.includes('BYTE_STREAM_SPLIT') &&
      names.has(meta.path_in_schema[0]?.toLowerCase() ?? ''),
  ) === true;

function hasList(type: DeltaType): boolean {
  if (typeof type === 'string') return false;
  switch (type.type) {
    case 'array':
      return true;
    case 'map':
      return hasList(type.keyType) || hasList(type.valueType);
    case 'struct':
      return type.fields.some((field) => hasList(field.type));
  }
}

function hasOldList(node: FileNode): boolean {
  const isList = node.element.converted_type === 'LIST' || node.element.logical_type?.type === 'LIST';
  const repeated = node.children[0];
  if (isList && (repeated === undefined || repeated.children.length !== 1 || repeated.name === 'array')) return true;
  return node.children.some(hasOldList);
}

/** All rows as files of our own, in the session's folder. */
async function convert(
  snapshot: Snapshot,
  wanted: readonly StructField[],
  where: readonly Condition[],
  id: number,
  budget: DiskBudget,
): Promise<string[]> {
  // Rows have to be there even where no column of them is wanted.
  const fields = wanted.some((field) => field.type !== 'void') ? wanted : snapshot.schema.fields;
  const stored = { type: 'struct' as const, fields: fields.filter((field) => field.type !== 'void') };
  const paths: string[] = [];
  for await (const batch of scan(snapshot, { columns: stored.fields.map((field) => field.name), where })) {
    const plain = {
      type: 'struct' as const,
      fields: stored.fields.map((field) => ({ ...field, type: withoutVariant(field.type) })),
    };
    const bytes = await encodeParquet(plain, batch, { codec: 'uncompressed' });
    const path = join(budget.folder, `table-${id}`, `part-${paths.length}.parquet`);
    await keep(path, bytes, budget);
    paths.push(path);
  }
  if (paths.length > 0) return paths;
  const path = join(budget.folder, `table-${id}`, 'empty.parquet');
  const empty = stored.fields.map((field) => ({ ...field, type: withoutVariant(field.type) }));
  await keep(path, await emptyFile(empty), budget);
  return [path];
}

function emptyFile(fields: readonly StructField[]): Promise<Uint8Array> {
  const columns = fields.map((field) => nullColumn(field.type, 0));
  return encodeParquet({ type: 'struct', fields }, { rowCount: 0, names: fields.map((field) => field.name), columns });
}

function withoutVariant(type: DeltaType): DeltaType {
  const part = (name: string): StructField => ({ name, type: 'binary', nullable: true, metadata: {} });
  return type === 'variant' ? { type: 'struct', fields: [part('metadata'), part('value')] } : type;
}

/** Where DuckDB finds each file, in the files' order: in place on a local disk, else fetched. */
async function localPaths(
  snapshot: Snapshot,
  files: readonly AddFile[],
  id: number,
  budget: DiskBudget,
  wanted: ReadonlySet<string> | null,
): Promise<string[]> {
  const { store } = snapshot;
  const root = store.uri.startsWith('file:') ? fileURLToPath(store.uri) : null;
  const place = async (file: AddFile, at: number): Promise<string> => {
    const key = keyOfPath(file.path, store.uri);
    if (root !== null && key !== null) {
      await requireWhole(snapshot, file, key);
      return join(root, ...key.split('/'));
    }
    if (key === null && isAbsolutePath(file.path)) return outsidePath(file.path);
    const path = join(budget.folder, `table-${id}`, `part-${at}.parquet`);
    await fetchFile(snapshot, file, key ?? file.path, { path, budget, wanted });
    return path;
  };
  const paths: string[] = [];
  for (let from = 0; from < files.length; from += FETCHES) {
    const some = files.slice(from, from + FETCHES);
    paths.push(...(await Promise.all(some.map((file, i) => place(file, from + i)))));
  }
  for (const [at, file] of files.entries()) budget.files.set(paths[at] ?? '', { snapshot, file });
  return paths;
}

/** Looked for first: DuckDB would only say that a pattern matches nothing. */
async function requireWhole(snapshot: Snapshot, file: AddFile, key: string): Promise<void> {
  const found = await snapshot.store.head(key).catch((error: unknown) => {
    throw dataFileError(snapshot, file, error);
  });
  if (found === null) throw dataFileError(snapshot, file, new StoreError('STORE_NOT_FOUND', key, 'no such object'));
  requireSize(snapshot, file, found.sizeBytes);
}

async function fetchFile(
  snapshot: Snapshot,
  file: AddFile,
  key: string,
  to: { readonly path: string; readonly budget: DiskBudget; readonly wanted: ReadonlySet<string> | null },
): Promise<void> {
  try {
    const source = storeSource(snapshot.store, key, Number(file.size));
    const wanted = await wantedBytes(source, to.wanted);
    if (wanted.bytes > to.budget.bytesLeft) throw tooLarge();
    to.budget.bytesLeft -= wanted.bytes;
    await fetchTo(to.path, wanted);
  } catch (error) {
    throw dataFileError(snapshot, file, error);
  }
}

function requireSize(snapshot: Snapshot, file: AddFile, bytes: number): void {
  if (BigInt(bytes) !== file.size)
    throw new TableError(
      'DATA_FILE_CORRUPT',
      { table: snapshot.store.uri, version: snapshot.version, file: file.path },
      `a data file has ${bytes} bytes, the log says ${file.size}; run fsck`,
    );
}

/** The error that a query ended with, as one of the data file that it names; itself where it names none. */
export function blamedFile(error: unknown, { files }: DiskBudget): unknown {
  if (!(error instanceof SqlError)) return error;
  for (const [path, { snapshot, file }] of files)
    if (error.message.includes(path))
      return new TableError(
        'DATA_FILE_CORRUPT',
        { table: snapshot.store.uri, version: snapshot.version, file: file.path },
        'a data file cannot be read; run fsck',
        { cause: error },
      );
  return error;
}

function outsidePath(path: string): string {
  if (path.startsWith('file:')) return fileURLToPath(path.replace(/^file:\/*/, 'file:///'));
  if (path.startsWith('/')) return decodeURIComponent(path);
  throw new SqlError('SQL_INVALID', 'a file of the table lies in another store, which this query cannot reach');
}

const tooLarge = (): SqlError =>
  new SqlError(
    'SQL_TOO_LARGE',
    'the files to fetch for this query exceed the bound on local disk; name fewer columns or tables',
  );

async function keep(path: string, bytes: Uint8Array, budget: DiskBudget): Promise<void> {
  if (bytes.byteLength > budget.bytesLeft) throw tooLarge();
  budget.bytesLeft -= bytes.byteLength;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, bytes);
}
