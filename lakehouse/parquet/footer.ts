/** The footer: schema tree with levels, row groups and chunks. Thrift parsing is hyparquet's; the tree is ours. */
import { parquetMetadata, type ColumnMetaData, type SchemaElement } from 'hyparquet';
import { withTail, type ByteSource } from './byte-source.ts';
import { ParquetError } from './parquet-error.ts';

/** A node of the file's schema. `maxDef` and `maxRep` are the levels at which it is present. */
export interface FileNode {
  readonly name: string;
  readonly element: SchemaElement;
  readonly children: readonly FileNode[];
  readonly maxDef: number;
  readonly maxRep: number;
  /** Column index of a leaf; of a group, that of its first leaf. */
  readonly firstLeaf: number;
}

export interface Chunk {
  readonly meta: ColumnMetaData;
  readonly start: number;
  readonly end: number;
  /** Byte range of the page offset index, when there is one. */
  readonly offsetIndex: { readonly start: number; readonly end: number } | null;
}

export interface RowGroup {
  /** Physical position of its first row in the file. */
  readonly rowStart: number;
  readonly rowCount: number;
  readonly chunks: readonly Chunk[];
}

export interface ParquetFile {
  readonly source: ByteSource;
  readonly rowCount: number;
  readonly root: FileNode;
  readonly leaves: readonly FileNode[];
  readonly rowGroups: readonly RowGroup[];
}

/** One request is enough for most footers, and for a whole small file. */
const TAIL_BYTES = 64 * 1024;

/** @throws ParquetError PARQUET_CORRUPT when the file is truncated or is no Parquet file; StoreError from the source */
export async function openParquet(source: ByteSource): Promise<ParquetFile> {
  if (source.sizeBytes < 12)
    throw new ParquetError('PARQUET_CORRUPT', source.name, `${source.sizeBytes} bytes are no Parquet file`);
  let tail = await source.read(Math.max(0, source.sizeBytes - TAIL_BYTES), source.sizeBytes);
  const length = footerLength(tail, source);
  if (length + 8 > tail.byteLength) tail = await source.read(source.sizeBytes - length - 8, source.sizeBytes);
  try {
    return fileOf(withTail(source, tail), tail);
  } catch (error) {
    if (error instanceof ParquetError) throw error;
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'the footer does not parse', { cause: error });
  }
}

function footerLength(tail: Uint8Array, source: ByteSource): number {
  const view = new DataView(tail.buffer, tail.byteOffset, tail.byteLength);
  const size = tail.byteLength;
  if (size < 8 || view.getUint32(size - 4, true) !== 0x31524150)
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'does not end as a Parquet file does (truncated?)');
  const length = view.getUint32(size - 8, true);
  if (length + 12 > source.sizeBytes)
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'its footer is longer than the file');
  return length;
}

function fileOf(source: ByteSource, tail: Uint8Array): ParquetFile {
  const metadata = parquetMetadata(tail, { geoparquet: false });
  const leaves: FileNode[] = [];
  const { node: root, next } = treeOf(metadata.schema, 0, 0, 0, leaves);
  if (next !== metadata.schema.length)
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'its schema is not one tree');
  const rowGroups: RowGroup[] = [];
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowCount = Number(group.num_rows);
    const chunks = group.columns.map((column) => chunkOf(column, source));
    if (chunks.length !== leaves.length)
      throw new ParquetError('PARQUET_CORRUPT', source.name, 'a row group lacks column chunks');
    rowGroups.push({ rowStart, rowCount, chunks });
    rowStart += rowCount;
  }
  if (rowStart !== Number(metadata.num_rows))
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'its row groups do not add up to its rows');
  return { source, rowCount: rowStart, root, leaves, rowGroups };
}

type HyparquetChunk = ReturnType<typeof parquetMetadata>['row_groups'][number]['columns'][number];

function chunkOf(column: HyparquetChunk, source: ByteSource): Chunk {
  const meta = column.meta_data;
  if (meta === undefined || column.file_path !== undefined)
    throw new ParquetError('PARQUET_UNSUPPORTED', source.name, 'a column chunk stands outside the file');
  const data = Number(meta.data_page_offset);
  const dictionary = Number(meta.dictionary_page_offset ?? 0n);
  const start = dictionary > 0 && dictionary < data ? dictionary : data;
  const end = start + Number(meta.total_compressed_size);
  if (start < 0 || end > source.sizeBytes)
    throw new ParquetError('PARQUET_CORRUPT', source.name, 'a column chunk runs past the end of the file');
  const at = Number(column.offset_index_offset ?? 0n);
  const length = column.offset_index_length ?? 0;
  const offsetIndex = at > 0 && length > 0 && at + length <= source.sizeBytes ? { start: at, end: at + length } : null;
  return { meta, start, end, offsetIndex };
}

function treeOf(
  elements: readonly SchemaElement[],
  at: number,
  parentDef: number,
  parentRep: number,
  leaves: FileNode[],
): { node: FileNode; next: number } {
  const element = elements[at];
  if (element === undefined) throw new RangeError('the schema ends early');
  const repetition = at === 0 ? 'REQUIRED' : (element.repetition_type ?? 'REQUIRED');
  const maxDef = parentDef + (repetition === 'REQUIRED' ? 0 : 1);
  const maxRep = parentRep + (repetition === 'REPEATED' ? 1 : 0);
  const firstLeaf = leaves.length;
  const children: FileNode[] = [];
  const node: FileNode = { name: element.name, element, children, maxDef, maxRep, firstLeaf };
  let next = at + 1;
  if (element.type !== undefined) leaves.push(node);
  else
    for (let i = 0; i < (element.num_children ?? 0); i++) {
      const child = treeOf(elements, next, maxDef, maxRep, leaves);
      children.push(child.node);
      next = child.next;
    }
  return { node, next };
}
