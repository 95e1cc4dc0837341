/**
 * Columns in memory: the shape that decode fills, fold gathers, merge writes and scan returns. The physical layout is
 * Arrow's, so that handing a column to the Parquet encoder copies nothing (Arrow columnar format, "Physical Memory Layout").
 *
 * `validity` is Arrow's bitmap (bit i of byte i>>3, least significant first; 1 = value present), or null when no row is NULL.
 */
export type ColumnVector =
  | BooleanColumn
  | Int32Column
  | Int64Column
  | Float32Column
  | Float64Column
  | DecimalColumn
  | BytesColumn
  | ListColumn
  | StructColumn
  | MapColumn;

interface Base {
  readonly length: number;
  readonly validity: Uint8Array | null;
}
/** One bit a row, like `validity`. */
export interface BooleanColumn extends Base {
  readonly kind: 'boolean';
  readonly values: Uint8Array;
}
/** `byte`, `short`, `integer`, and `date` (days since 1970-01-01, proleptic Gregorian). */
export interface Int32Column extends Base {
  readonly kind: 'int32';
  readonly values: Int32Array;
}
/** `long`, and `timestamp` / `timestamp_ntz` (microseconds since 1970-01-01T00:00:00, UTC for the former). */
export interface Int64Column extends Base {
  readonly kind: 'int64';
  readonly values: BigInt64Array;
}
export interface Float32Column extends Base {
  readonly kind: 'float32';
  readonly values: Float32Array;
}
export interface Float64Column extends Base {
  readonly kind: 'float64';
  readonly values: Float64Array;
}
/** Unscaled two's-complement 128-bit values, two 64-bit words a row: low word first (Arrow Decimal128). */
export interface DecimalColumn extends Base {
  readonly kind: 'decimal';
  readonly precision: number;
  readonly scale: number;
  readonly values: BigInt64Array;
}
/** UTF-8 text (`string`) or raw bytes (`binary`): row i is data[offsets[i] .. offsets[i+1]). */
export interface BytesColumn extends Base {
  readonly kind: 'utf8' | 'binary';
  readonly offsets: Int32Array;
  readonly data: Uint8Array;
}
/** Row i holds child rows offsets[i] .. offsets[i+1]. */
export interface ListColumn extends Base {
  readonly kind: 'list';
  readonly offsets: Int32Array;
  readonly child: ColumnVector;
}
export interface StructColumn extends Base {
  readonly kind: 'struct';
  readonly names: readonly string[];
  readonly children: readonly ColumnVector[];
}
/** Row i holds entries offsets[i] .. offsets[i+1] of `keys` and `items`. */
export interface MapColumn extends Base {
  readonly kind: 'map';
  readonly offsets: Int32Array;
  readonly keys: ColumnVector;
  readonly items: ColumnVector;
}

/** Columns of equal length; `names[i]` names `columns[i]`. */
export interface ColumnBatch {
  readonly rowCount: number;
  readonly names: readonly string[];
  readonly columns: readonly ColumnVector[];
}

export function isNull(column: ColumnVector, row: number): boolean {
  const bits = column.validity;
  return bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) === 0;
}
