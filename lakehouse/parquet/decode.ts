/**
 * Parquet bytes to ColumnBatch: a chosen subset of columns, of all rows or of chosen rows. Only the chunks, and with chosen
 * rows only the pages, that are needed are fetched and decoded.
 */
import type { ColumnBatch } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';
import { assemble } from './assemble.ts';
import type { ByteSource } from './byte-source.ts';
import { PageFault } from './codec.ts';
import { TypeFault } from './convert.ts';
import { openParquet, type ParquetFile, type RowGroup } from './footer.ts';
import { joinPages, readLeaves, type LeafData, type WantedRows } from './leaf.ts';
import { ParquetError } from './parquet-error.ts';
import { leavesOf, planColumns, type ColumnMappingMode, type ColumnPlan } from './plan.ts';
import { nullColumn } from './spread.ts';
import { StoreError } from '../store/store.ts';

export interface DecodeOptions {
  /** Physical row positions, ascending and without repeats; default all. */
  readonly rows?: ArrayLike<number>;
  /** How fields find their column in the file; default `none` (by name). */
  readonly columnMapping?: ColumnMappingMode;
}

/**
 * The fields of `schema`, in its order, for all or the chosen rows. What the file lacks is NULL; what `schema` lacks is not
 * read.
 * @throws ParquetError PARQUET_CORRUPT | PARQUET_UNSUPPORTED | PARQUET_TYPE_MISMATCH naming the file; StoreError
 */
export async function decodeParquet(
  source: ByteSource | ParquetFile,
  schema: StructType,
  options: DecodeOptions = {},
): Promise<ColumnBatch> {
  const file = 'rowGroups' in source ? source : await openParquet(source);
  const { rows } = options;
  if (rows !== undefined) checkRows(file, rows);
  const groups = file.rowGroups
    .map((group) => ({ group, wanted: wantedIn(group, rows) }))
    .filter(({ group, wanted }) => group.rowCount > 0 && (wanted === null || wanted.length > 0));
  return decodeGroups(file, schema, options.columnMapping ?? 'none', groups, rows?.length ?? file.rowCount);
}

/**
 * Row group by row group, so that a file of any size passes through bounded memory.
 * @param options.without physical positions to leave out, ascending: rows that a deletion vector hides
 */
export async function* decodeRowGroups(
  source: ByteSource | ParquetFile,
  schema: StructType,
  options: { readonly columnMapping?: ColumnMappingMode; readonly without?: ArrayLike<number> } = {},
): AsyncGenerator<{ readonly rowStart: number; readonly batch: ColumnBatch }> {
  const file = 'rowGroups' in source ? source : await openParquet(source);
  const mode = options.columnMapping ?? 'none';
  const without = options.without ?? [];
  let next = 0;
  for (const group of file.rowGroups) {
    const from = next;
    while (next < without.length && (without[next] ?? 0) < group.rowStart + group.rowCount) next++;
    const rowCount = group.rowCount - (next - from);
    if (rowCount <= 0) continue;
    const wanted = next === from ? null : othersIn(group, without, from);
    const batch = await decodeGroups(file, schema, mode, [{ group, wanted }], rowCount);
    yield { rowStart: group.rowStart, batch };
  }
}

/** Rows of a group that are not among `without[from..]`, relative to it. */
function othersIn(group: RowGroup, without: ArrayLike<number>, from: number): Int32Array {
  const out = new Int32Array(group.rowCount);
  let next = from;
  let n = 0;
  for (let row = 0; row < group.rowCount; row++) {
    if ((without[next] ?? -1) === group.rowStart + row) next++;
    else out[n++] = row;
  }
  return out.subarray(0, n);
}

async function decodeGroups(
  file: ParquetFile,
  schema: StructType,
  mode: ColumnMappingMode,
  groups: readonly { readonly group: RowGroup; readonly wanted: WantedRows }[],
  rowCount: number,
): Promise<ColumnBatch> {
  const plans = planColumns(file, schema, mode);
  const needed = new Set<number>();
  for (const plan of plans) if (plan.node !== null) leavesOf(plan.node, needed);
  const leaves = [...needed].flatMap((index) => {
    const node = file.leaves[index];
    return node === undefined ? [] : [{ index, node }];
  });
  try {
    const parts = new Map<number, LeafData[]>(leaves.map(({ index }) => [index, []]));
    for (const { group, wanted } of groups) {
      const read = await readLeaves(file.source, group, leaves, wanted);
      leaves.forEach(({ index }, i) => {
        const data = read[i];
        if (data !== undefined) parts.get(index)?.push(data);
      });
    }
    const data = new Map(leaves.map(({ index, node }) => [index, joinPages(parts.get(index) ?? [], node)]));
    return buildBatch(plans, data, rowCount);
  } catch (error) {
    throw asParquetError(file, error);
  }
}

function buildBatch(plans: readonly ColumnPlan[], data: ReadonlyMap<number, LeafData>, rowCount: number): ColumnBatch {
  const lookup = (leaf: number): LeafData => {
    const found = data.get(leaf);
    if (found === undefined) throw new PageFault('a column chunk was not read');
    return found;
  };
  const columns = plans.map((plan) => {
    if (plan.node === null) return nullColumn(plan.type, rowCount);
    try {
      const column = assemble(plan.node, lookup);
      if (column.length !== rowCount)
        throw new PageFault(`column ${plan.name} has ${column.length} of ${rowCount} rows`);
      return column;
    } catch (error) {
      if (error instanceof TypeFault) throw new TypeErrorAt(plan.name, error);
      throw error;
    }
  });
  return { rowCount, names: plans.map((plan) => plan.name), columns };
}

class TypeErrorAt extends Error {
  constructor(column: string, cause: TypeFault) {
    super(`column ${column}: ${cause.message}`, { cause });
  }
}

function asParquetError(file: ParquetFile, error: unknown): Error {
  const name = file.source.name;
  if (error instanceof ParquetError || error instanceof StoreError) return error;
  if (error instanceof TypeErrorAt)
    return new ParquetError('PARQUET_TYPE_MISMATCH', name, error.message, { cause: error });
  if (error instanceof PageFault)
    return new ParquetError(error.unsupported ? 'PARQUET_UNSUPPORTED' : 'PARQUET_CORRUPT', name, error.message, {
      cause: error,
    });
  return new ParquetError('PARQUET_CORRUPT', name, 'a page does not decode', { cause: error });
}

function checkRows(file: ParquetFile, rows: ArrayLike<number>): void {
  let before = -1;
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] ?? -1;
    if (row <= before || row >= file.rowCount)
      throw new RangeError(`${file.source.name}: row ${row} is out of order or past its ${file.rowCount} rows`);
    before = row;
  }
}

/** Chosen rows of one group, relative to it. */
function wantedIn(group: RowGroup, rows: ArrayLike<number> | undefined): WantedRows {
  if (rows === undefined) return null;
  let from = 0;
  while (from < rows.length && (rows[from] ?? 0) < group.rowStart) from++;
  let to = from;
  while (to < rows.length && (rows[to] ?? 0) < group.rowStart + group.rowCount) to++;
  if (to - from === group.rowCount) return null;
  const out = new Int32Array(to - from);
  for (let i = 0; i < out.length; i++) out[i] = (rows[from + i] ?? 0) - group.rowStart;
  return out;
}
