/** Columns with NULLs from present values and a validity bitmap, and columns that are NULL throughout. */
import type { ColumnVector } from '../table/column.ts';
import type { DeltaType } from '../table/schema.ts';
import { decimalOf } from './stored-fields.ts';

/**
 * Row i of the result is the next unused row of `dense` where bit i of `validity` is set, else NULL. `dense` has no NULLs
 * and is of a primitive kind.
 */
export function spreadValues(dense: ColumnVector, validity: Uint8Array, length: number): ColumnVector {
  switch (dense.kind) {
    case 'int32':
      return { ...dense, length, validity, values: spreadNumbers(dense.values, new Int32Array(length), validity) };
    case 'float32':
      return { ...dense, length, validity, values: spreadNumbers(dense.values, new Float32Array(length), validity) };
    case 'float64':
      return { ...dense, length, validity, values: spreadNumbers(dense.values, new Float64Array(length), validity) };
    case 'int64':
      return { ...dense, length, validity, values: spreadWords(dense.values, 2, validity, length) };
    case 'decimal':
      return { ...dense, length, validity, values: spreadWords(dense.values, 4, validity, length) };
    case 'boolean':
      return { ...dense, length, validity, values: spreadBits(dense.values, validity, length) };
    case 'utf8':
    case 'binary': {
      const offsets = new Int32Array(length + 1);
      let next = 0;
      for (let i = 0; i < length; i++) {
        if (isSet(validity, i)) next++;
        offsets[i + 1] = dense.offsets[next] ?? 0;
      }
      return { ...dense, length, validity, offsets };
    }
    default:
      throw new TypeError(`a ${dense.kind} column is not spread`);
  }
}

const isSet = (bits: Uint8Array, i: number): boolean => ((bits[i >> 3] ?? 0) & (1 << (i & 7))) !== 0;

function spreadNumbers<T extends Int32Array | Float32Array | Float64Array>(from: T, out: T, validity: Uint8Array): T {
  let next = 0;
  for (let i = 0; i < out.length; i++) if (isSet(validity, i)) out[i] = from[next++] ?? 0;
  return out;
}

function spreadWords(from: BigInt64Array, halvesPerRow: number, validity: Uint8Array, length: number): BigInt64Array {
  const out = new Int32Array(length * halvesPerRow);
  const source = new Int32Array(from.buffer, from.byteOffset, from.length * 2);
  let next = 0;
  for (let i = 0; i < length; i++) {
    if (!isSet(validity, i)) continue;
    for (let k = 0; k < halvesPerRow; k++) out[i * halvesPerRow + k] = source[next + k] ?? 0;
    next += halvesPerRow;
  }
  return new BigInt64Array(out.buffer);
}

function spreadBits(from: Uint8Array, validity: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array((length + 7) >> 3);
  let next = 0;
  for (let i = 0; i < length; i++) {
    if (!isSet(validity, i)) continue;
    if (isSet(from, next)) out[i >> 3] = (out[i >> 3] ?? 0) | (1 << (i & 7));
    next++;
  }
  return out;
}

/** `length` rows of NULL; what a column that a file does not have reads as. */
export function nullColumn(type: DeltaType, length: number): ColumnVector {
  const base = { length, validity: new Uint8Array((length + 7) >> 3) };
  if (typeof type === 'object') {
    const offsets = new Int32Array(length + 1);
    switch (type.type) {
      case 'array':
        return { ...base, kind: 'list', offsets, child: nullColumn(type.elementType, 0) };
      case 'map':
        return {
          ...base,
          kind: 'map',
          offsets,
          keys: nullColumn(type.keyType, 0),
          items: nullColumn(type.valueType, 0),
        };
      case 'struct':
        return {
          ...base,
          kind: 'struct',
          names: type.fields.map((field) => field.name),
          children: type.fields.map((field) => nullColumn(field.type, length)),
        };
    }
  }
  const decimal = decimalOf(type);
  if (decimal !== null) return { ...base, kind: 'decimal', ...decimal, values: new BigInt64Array(length * 2) };
  switch (type) {
    case 'long':
    case 'timestamp':
    case 'timestamp_ntz':
      return { ...base, kind: 'int64', values: new BigInt64Array(length) };
    case 'integer':
    case 'short':
    case 'byte':
    case 'date':
      return { ...base, kind: 'int32', values: new Int32Array(length) };
    case 'float':
      return { ...base, kind: 'float32', values: new Float32Array(length) };
    case 'double':
      return { ...base, kind: 'float64', values: new Float64Array(length) };
    case 'boolean':
    case 'void':
      return { ...base, kind: 'boolean', values: new Uint8Array((length + 7) >> 3) };
    case 'variant':
      return {
        ...base,
        kind: 'struct',
        names: ['metadata', 'value'],
        children: [nullColumn('binary', length), nullColumn('binary', length)],
      };
    default:
      return {
        ...base,
        kind: type === 'string' ? 'utf8' : 'binary',
        offsets: new Int32Array(length + 1),
        data: new Uint8Array(0),
      };
  }
}
