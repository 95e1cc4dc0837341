/** Orders for rewritten rows: by columns, or along a Z-curve through several, so that files cover small ranges of each. */
import { isNull, type ColumnBatch, type ColumnVector } from '../table/column.ts';

export interface RowOrder {
  readonly kind: 'sort' | 'z-order';
  readonly columns: readonly string[];
}

/** Bits a column gives to a Z-value: four columns fill two 32-bit words. */
const Z_BITS = 16;
const Z_COLUMNS_MAX = 4;

/** @throws RangeError when a column is missing or of a kind that has no order */
export function orderRows(batch: ColumnBatch, order: RowOrder): Uint32Array {
  const columns = order.columns.map((name) => {
    const column = batch.columns[batch.names.indexOf(name)];
    if (column === undefined) throw new RangeError(`the table has no column ${name} to order by`);
    return column;
  });
  if (columns.length === 0) throw new RangeError('an order names no column');
  if (order.kind === 'z-order' && columns.length > Z_COLUMNS_MAX)
    throw new RangeError(`a Z-order takes ${Z_COLUMNS_MAX} columns at most`);
  return order.kind === 'sort' ? sorted(columns, batch.rowCount) : alongCurve(columns, batch.rowCount);
}

function sorted(columns: readonly ColumnVector[], rowCount: number): Uint32Array {
  const compare = columns.map(comparator);
  return rowNumbers(rowCount).sort((a, b) => {
    for (const one of compare) {
      const difference = one(a, b);
      if (difference !== 0) return difference;
    }
    // File order stays among equals.
    return a - b;
  });
}

const rowNumbers = (rowCount: number): Uint32Array => Uint32Array.from({ length: rowCount }, (_, row) => row);

/** NULLs first; NaN last. */
function comparator(column: ColumnVector): (a: number, b: number) => number {
  const values = valueComparator(column);
  return (a, b) => {
    const nullA = isNull(column, a);
    const nullB = isNull(column, b);
    if (nullA || nullB) return nullA === nullB ? 0 : nullA ? -1 : 1;
    return values(a, b);
  };
}

function valueComparator(column: ColumnVector): (a: number, b: number) => number {
  switch (column.kind) {
    case 'boolean': {
      const bit = (row: number): number => ((column.values[row >> 3] ?? 0) >> (row & 7)) & 1;
      return (a, b) => bit(a) - bit(b);
    }
    case 'int32':
      return (a, b) => (column.values[a] ?? 0) - (column.values[b] ?? 0);
    case 'float32':
    case 'float64':
      return (a, b) => {
        const x = column.values[a] ?? 0;
        const y = column.values[b] ?? 0;
        if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
        return x < y ? -1 : x > y ? 1 : 0;
      };
    case 'int64':
      return (a, b) => compareBig(column.values[a] ?? 0n, column.values[b] ?? 0n);
    case 'decimal':
      return (a, b) =>
        compareBig(column.values[a * 2 + 1] ?? 0n, column.values[b * 2 + 1] ?? 0n) ||
        compareBig(BigInt.asUintN(64, column.values[a * 2] ?? 0n), BigInt.asUintN(64, column.values[b * 2] ?? 0n));
    case 'utf8':
    case 'binary': {
      const data = Buffer.from(column.data.buffer, column.data.byteOffset, column.data.byteLength);
      const { offsets } = column;
      return (a, b) => data.compare(data, offsets[b], offsets[b + 1], offsets[a], offsets[a + 1]);
    }
    case 'list':
    case 'struct':
    case 'map':
      throw new RangeError(`a ${column.kind} column has no order`);
  }
}

const compareBig = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0);

/** Interleaves each row's rank in every column, most significant bits first: ranks, so that skewed values spread evenly. */
function alongCurve(columns: readonly ColumnVector[], rowCount: number): Uint32Array {
  const high = new Uint32Array(rowCount);
  const low = new Uint32Array(rowCount);
  const ranks = columns.map((column) => ranksOf(column, rowCount));
  for (let row = 0; row < rowCount; row++) {
    let bits = 0;
    for (let bit = Z_BITS - 1; bit >= 0; bit--)
      for (const rank of ranks) {
        const value = ((rank[row] ?? 0) >>> bit) & 1;
        if (bits < 32) high[row] = (high[row] ?? 0) | (value << (31 - bits));
        else low[row] = (low[row] ?? 0) | (value << (63 - bits));
        bits++;
      }
  }
  return rowNumbers(rowCount).sort((a, b) => (high[a] ?? 0) - (high[b] ?? 0) || (low[a] ?? 0) - (low[b] ?? 0) || a - b);
}

function ranksOf(column: ColumnVector, rowCount: number): Uint16Array {
  const compare = comparator(column);
  const order = rowNumbers(rowCount).sort((a, b) => compare(a, b) || a - b);
  const ranks = new Uint16Array(rowCount);
  let distinct = 0;
  const rank = new Uint32Array(rowCount);
  for (let i = 0; i < rowCount; i++) {
    const row = order[i] ?? 0;
    if (i > 0 && compare(order[i - 1] ?? 0, row) !== 0) distinct++;
    rank[row] = distinct;
  }
  const scale = distinct === 0 ? 0 : (2 ** Z_BITS - 1) / distinct;
  for (let row = 0; row < rowCount; row++) ranks[row] = Math.floor((rank[row] ?? 0) * scale);
  return ranks;
}
