/**
 * A batch whose buffers stand one behind the other in a single one, which another thread reads where it lies: one copy, and
 * nothing of the batch it was made from is given away. A message would copy a view's whole buffer, and most views are of pools.
 * Memory that moves there and back would count each time as newly taken, and V8 collects all garbage for some 20 MB of that.
 */
import type { ColumnBatch, ColumnVector } from './column.ts';

export interface PackedBatch {
  readonly batch: ColumnBatch;
  /** What the other thread sees. Not to be written to before it is done. */
  readonly buffer: SharedArrayBuffer;
}

/** Batches of one table ask for memory in the same sizes: pieces of every size would hold it in tatters. */
const STEP_BYTES = 1024 * 1024;
/** Arrow's recommended alignment is 64; the widest word of a column has 8. */
const ALIGN_BYTES = 8;

/** @param room memory of an earlier batch, taken where it is large enough */
export function packBatch(
  { rowCount, names, columns }: ColumnBatch,
  room: SharedArrayBuffer | null = null,
): PackedBatch {
  const bytes = batchBytes({ columns });
  const buffer =
    room !== null && room.byteLength >= bytes
      ? room
      : new SharedArrayBuffer(bytes < STEP_BYTES ? bytes : Math.ceil(bytes / STEP_BYTES) * STEP_BYTES);
  let at = 0;
  /** Copies a view's bytes; where they stand now. */
  const place = (view: ArrayBufferView): number => {
    const from = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    const placed = at;
    new Uint8Array(buffer, placed, from.length).set(from);
    at += aligned(from.length);
    return placed;
  };
  const bits = (view: Uint8Array): Uint8Array => new Uint8Array(buffer, place(view), view.length);
  const offsets = (view: Int32Array): Int32Array => new Int32Array(buffer, place(view), view.length);
  const words = (view: BigInt64Array): BigInt64Array => new BigInt64Array(buffer, place(view), view.length);
  const pack = (column: ColumnVector): ColumnVector => {
    const validity = column.validity === null ? null : bits(column.validity);
    switch (column.kind) {
      case 'boolean':
        return { ...column, validity, values: bits(column.values) };
      case 'int32':
        return { ...column, validity, values: offsets(column.values) };
      case 'int64':
      case 'decimal':
        return { ...column, validity, values: words(column.values) };
      case 'float32':
        return { ...column, validity, values: new Float32Array(buffer, place(column.values), column.values.length) };
      case 'float64':
        return { ...column, validity, values: new Float64Array(buffer, place(column.values), column.values.length) };
      case 'utf8':
      case 'binary':
        return { ...column, validity, offsets: offsets(column.offsets), data: bits(column.data) };
      case 'list':
        return { ...column, validity, offsets: offsets(column.offsets), child: pack(column.child) };
      case 'struct':
        return { ...column, validity, children: column.children.map(pack) };
      case 'map':
        return {
          ...column,
          validity,
          offsets: offsets(column.offsets),
          keys: pack(column.keys),
          items: pack(column.items),
        };
    }
  };
  return { batch: { rowCount, names, columns: columns.map(pack) }, buffer };
}

/** Bytes that a batch takes when it is packed. */
export function batchBytes({ columns }: Pick<ColumnBatch, 'columns'>): number {
  return columns.reduce((sum, column) => sum + packedBytes(column), 0);
}

/** Rows like the batch's that so many bytes have room for, on average; one at least. */
export function rowsWithin(batch: Pick<ColumnBatch, 'columns' | 'rowCount'>, bytesMax: number): number {
  return Math.max(1, Math.floor(bytesMax / Math.max(1, batchBytes(batch) / Math.max(1, batch.rowCount))));
}

function packedBytes(column: ColumnVector): number {
  return aligned(column.validity?.byteLength ?? 0) + valueBytes(column);
}

function valueBytes(column: ColumnVector): number {
  switch (column.kind) {
    case 'utf8':
    case 'binary':
      return aligned(column.offsets.byteLength) + aligned(column.data.byteLength);
    case 'list':
      return aligned(column.offsets.byteLength) + packedBytes(column.child);
    case 'map':
      return aligned(column.offsets.byteLength) + packedBytes(column.keys) + packedBytes(column.items);
    case 'struct':
      return column.children.reduce((sum, child) => sum + packedBytes(child), 0);
    case 'boolean':
    case 'int32':
    case 'int64':
    case 'float32':
    case 'float64':
    case 'decimal':
      return aligned(column.values.byteLength);
  }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGN_BYTES) * ALIGN_BYTES;
}
