/** The metadata columns that give each row its place in the source's order (DESIGN, invariant 1), and the two mode columns. */
import type { ColumnVector } from '../table/column.ts';
import type { StructField } from '../table/schema.ts';

export const EPOCH_COLUMN = '_sluice_epoch';
export const LSN_COLUMN = '_sluice_lsn';
export const ORD_COLUMN = '_sluice_ord';
/** Soft-delete and append modes: true on a row that stands for a delete. */
export const DELETED_COLUMN = '_sluice_deleted';
/** Append mode: names of the columns that the event did not carry, comma-separated; NULL when it carried all. */
export const ABSENT_COLUMN = '_sluice_absent';

const field = (name: string, type: StructField['type']): StructField => ({ name, type, nullable: true, metadata: {} });

export const POSITION_FIELDS: readonly StructField[] = [
  field(LSN_COLUMN, 'long'),
  field(ORD_COLUMN, 'integer'),
  field(EPOCH_COLUMN, 'integer'),
];
export const DELETED_FIELD: StructField = field(DELETED_COLUMN, 'boolean');
export const ABSENT_FIELD: StructField = field(ABSENT_COLUMN, 'string');

/** Positions of rows, in the arrays that they come in. LSNs as pairs of 32-bit words, low word first. */
export interface Positions {
  readonly epoch: Int32Array;
  readonly lsnWords: Uint32Array;
  readonly ord: Int32Array;
}

/** Positions from the metadata columns of stored rows; a NULL, or a missing column, is the oldest position of all. */
export function positionsOf(
  columns: {
    readonly epoch: ColumnVector | undefined;
    readonly lsn: ColumnVector | undefined;
    readonly ord: ColumnVector | undefined;
  },
  rowCount: number,
): Positions {
  return {
    epoch: numbers(columns.epoch, rowCount),
    ord: numbers(columns.ord, rowCount),
    lsnWords: words(columns.lsn, rowCount),
  };
}

function numbers(column: ColumnVector | undefined, rowCount: number): Int32Array {
  if (column === undefined || (column.kind !== 'int32' && column.kind !== 'int64')) return new Int32Array(rowCount);
  const out =
    column.kind === 'int32' && column.validity === null
      ? column.values.subarray(0, rowCount)
      : Int32Array.from({ length: rowCount }, (_, row) => Number(column.values[row] ?? 0));
  if (column.validity !== null) zeroNulls(out, 1, column.validity, rowCount);
  return out;
}

function words(column: ColumnVector | undefined, rowCount: number): Uint32Array {
  if (column === undefined || column.kind !== 'int64') return new Uint32Array(rowCount * 2);
  const view = new Uint32Array(column.values.buffer, column.values.byteOffset, rowCount * 2);
  if (column.validity === null) return view;
  const out = view.slice();
  zeroNulls(out, 2, column.validity, rowCount);
  return out;
}

function zeroNulls(out: Int32Array | Uint32Array, stride: number, validity: Uint8Array, rowCount: number): void {
  for (let row = 0; row < rowCount; row++)
    if (((validity[row >> 3] ?? 0) & (1 << (row & 7))) === 0)
      for (let word = 0; word < stride; word++) out[row * stride + word] = 0;
}
