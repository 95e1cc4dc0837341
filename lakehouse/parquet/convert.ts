/**
 * A leaf's physical values as a column of the table's type, with the widenings that the Delta protocol allows ("Type
 * Widening"): integers to wider integers, decimals and double, float to double, decimals to roomier ones, date to
 * timestamp_ntz. Anything that could change a value is refused.
 */
import type { SchemaElement } from 'hyparquet';
import type { ColumnVector, DecimalColumn, Int64Column } from '../table/column.ts';
import type { PrimitiveName } from '../table/schema.ts';
import { decimalOf } from './stored-fields.ts';
import { PageFault } from './codec.ts';
import { valueCount, type LeafValues } from './leaf-values.ts';

/** Thrown when the file's column cannot be read as the table's type; the caller adds file and column. */
export class TypeFault extends Error {
  constructor(element: SchemaElement, type: PrimitiveName) {
    const logical = element.logical_type?.type ?? element.converted_type;
    super(`${element.type ?? 'group'}${logical === undefined ? '' : ` (${logical})`} cannot be read as ${type}`);
    this.name = 'TypeFault';
  }
}

/** A column without NULLs, one row a present value. */
export function convertValues(values: LeafValues, element: SchemaElement, type: PrimitiveName): ColumnVector {
  const base = { length: valueCount(values), validity: null };
  const decimal = decimalOf(type);
  if (decimal !== null) return decimalColumn(values, element, type, decimal);
  switch (type) {
    case 'boolean':
      if (values.kind !== 'boolean') break;
      return { ...base, kind: 'boolean', values: packBits(values.values) };
    case 'byte':
    case 'short':
    case 'integer':
      if (values.kind !== 'int32' || isDecimal(element) || isUnsigned32(element)) break;
      return { ...base, kind: 'int32', values: values.values };
    case 'date':
      if (values.kind !== 'int32') break;
      return { ...base, kind: 'int32', values: values.values };
    case 'long':
      return longColumn(values, element, type);
    case 'timestamp':
    case 'timestamp_ntz':
      return timestampColumn(values, element, type);
    case 'float':
      if (values.kind !== 'float32') break;
      return { ...base, kind: 'float32', values: values.values };
    case 'double':
      if (values.kind === 'float64') return { ...base, kind: 'float64', values: values.values };
      if (values.kind === 'float32' || (values.kind === 'int32' && !isDecimal(element) && !isUnsigned32(element)))
        return { ...base, kind: 'float64', values: Float64Array.from(values.values) };
      break;
    case 'string':
    case 'binary':
      if (values.kind !== 'bytes' || isDecimal(element)) break;
      return { ...base, kind: type === 'string' ? 'utf8' : 'binary', offsets: values.offsets, data: values.data };
    default:
      break;
  }
  throw new TypeFault(element, type);
}

function isDecimal(element: SchemaElement): boolean {
  return element.converted_type === 'DECIMAL' || element.logical_type?.type === 'DECIMAL';
}

function isUnsigned(element: SchemaElement, bits: 32 | 64): boolean {
  const logical = element.logical_type;
  return (
    element.converted_type === `UINT_${bits}` ||
    (logical?.type === 'INTEGER' && !logical.isSigned && logical.bitWidth === bits)
  );
}

const isUnsigned32 = (element: SchemaElement): boolean => isUnsigned(element, 32);

function packBits(bytes: Uint8Array): Uint8Array {
  const bits = new Uint8Array((bytes.length + 7) >> 3);
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  return bits;
}

function longColumn(values: LeafValues, element: SchemaElement, type: PrimitiveName): Int64Column {
  if (isDecimal(element)) throw new TypeFault(element, type);
  const base = { kind: 'int64' as const, length: valueCount(values), validity: null };
  if (values.kind === 'int64' && element.type === 'INT64') {
    // The upper half of the unsigned ones is beyond a long.
    if (isUnsigned(element, 64) && values.values.some((value) => value < 0n)) throw new TypeFault(element, type);
    return { ...base, values: values.values };
  }
  if (values.kind !== 'int32') throw new TypeFault(element, type);
  return { ...base, values: widen(values.values, isUnsigned32(element)) };
}

function widen(values: Int32Array, unsigned: boolean): BigInt64Array {
  const out = new BigInt64Array(values.length);
  const halves = new Int32Array(out.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? 0;
    halves[2 * i] = value;
    halves[2 * i + 1] = unsigned ? 0 : value >> 31;
  }
  return out;
}

const MICROS_PER_DAY = 86_400_000_000n;

function timestampColumn(values: LeafValues, element: SchemaElement, type: PrimitiveName): Int64Column {
  const base = { kind: 'int64' as const, length: valueCount(values), validity: null };
  if (values.kind === 'int32' && type === 'timestamp_ntz') {
    if (element.converted_type !== 'DATE' && element.logical_type?.type !== 'DATE') throw new TypeFault(element, type);
    const out = new BigInt64Array(values.values.length);
    for (let i = 0; i < out.length; i++) out[i] = BigInt(values.values[i] ?? 0) * MICROS_PER_DAY;
    return { ...base, values: out };
  }
  if (values.kind !== 'int64') throw new TypeFault(element, type);
  if (element.type === 'INT96') return { ...base, values: values.values };
  switch (timestampUnit(element)) {
    case 'MICROS':
      return { ...base, values: values.values };
    case 'MILLIS':
      return { ...base, values: scaled(values.values, (value) => value * 1000n) };
    case 'NANOS':
      return {
        ...base,
        values: scaled(values.values, (value) => (value - (((value % 1000n) + 1000n) % 1000n)) / 1000n),
      };
    default:
      throw new TypeFault(element, type);
  }
}

function timestampUnit(element: SchemaElement): string | null {
  if (element.logical_type?.type === 'TIMESTAMP') return element.logical_type.unit;
  if (element.converted_type === 'TIMESTAMP_MICROS') return 'MICROS';
  return element.converted_type === 'TIMESTAMP_MILLIS' ? 'MILLIS' : null;
}

function scaled(values: BigInt64Array, by: (value: bigint) => bigint): BigInt64Array {
  const out = new BigInt64Array(values.length);
  for (let i = 0; i < values.length; i++) out[i] = by(values[i] ?? 0n);
  return out;
}

function decimalColumn(
  values: LeafValues,
  element: SchemaElement,
  type: PrimitiveName,
  { precision, scale }: { precision: number; scale: number },
): DecimalColumn {
  const from = sourceDecimal(values, element);
  if (from === null || from.scale > scale || from.precision - from.scale > precision - scale)
    throw new TypeFault(element, type);
  const words = unscaledWords(values, isUnsigned(element, values.kind === 'int32' ? 32 : 64));
  if (words === null) throw new TypeFault(element, type);
  if (scale > from.scale) rescale(words, 10n ** BigInt(scale - from.scale));
  return { kind: 'decimal', precision, scale, length: words.length / 2, validity: null, values: words };
}

/** Precision and scale that the file says; plain integers count by the digits they may hold. */
function sourceDecimal(values: LeafValues, element: SchemaElement): { precision: number; scale: number } | null {
  if (element.logical_type?.type === 'DECIMAL')
    return { precision: element.logical_type.precision, scale: element.logical_type.scale };
  if (element.converted_type === 'DECIMAL') return { precision: element.precision ?? 0, scale: element.scale ?? 0 };
  if (element.logical_type !== undefined && element.logical_type.type !== 'INTEGER') return null;
  if (values.kind === 'int32') {
    const digits: Readonly<Record<string, number>> = { INT_8: 3, INT_16: 5 };
    return { precision: digits[element.converted_type ?? ''] ?? 10, scale: 0 };
  }
  if (values.kind !== 'int64' || element.type !== 'INT64') return null;
  return { precision: isUnsigned(element, 64) ? 20 : 19, scale: 0 };
}

/** Two 64-bit words a value, low first; null for a physical type that holds no decimals. */
function unscaledWords(values: LeafValues, unsigned: boolean): BigInt64Array | null {
  const count = valueCount(values);
  const words = new BigInt64Array(count * 2);
  const halves = new Int32Array(words.buffer);
  switch (values.kind) {
    case 'int32':
      for (let i = 0; i < count; i++) {
        const value = values.values[i] ?? 0;
        halves[4 * i] = value;
        halves.fill(unsigned ? 0 : value >> 31, 4 * i + 1, 4 * i + 4);
      }
      return words;
    case 'int64': {
      const from = new Int32Array(values.values.buffer, values.values.byteOffset, count * 2);
      for (let i = 0; i < count; i++) {
        const high = from[2 * i + 1] ?? 0;
        halves[4 * i] = from[2 * i] ?? 0;
        halves[4 * i + 1] = high;
        halves[4 * i + 2] = halves[4 * i + 3] = unsigned ? 0 : high >> 31;
      }
      return words;
    }
    case 'bytes':
      bigEndianWords(values.offsets, values.data, new Uint8Array(words.buffer));
      return words;
    default:
      return null;
  }
}

function bigEndianWords(offsets: Int32Array, data: Uint8Array, out: Uint8Array): void {
  for (let i = 0; i + 1 < offsets.length; i++) {
    const start = offsets[i] ?? 0;
    const end = offsets[i + 1] ?? 0;
    const fill = start < end && (data[start] ?? 0) >= 0x80 ? 0xff : 0;
    for (let k = 0; k < 16; k++) out[i * 16 + k] = end - 1 - k >= start ? (data[end - 1 - k] ?? 0) : fill;
    for (let at = start; at < end - 16; at++)
      if (data[at] !== fill) throw new PageFault('a decimal is wider than 128 bits');
    if (end - start > 16 && ((out[i * 16 + 15] ?? 0) >= 0x80 ? 0xff : 0) !== fill)
      throw new PageFault('a decimal is wider than 128 bits');
  }
}

function rescale(words: BigInt64Array, factor: bigint): void {
  for (let i = 0; i < words.length; i += 2) {
    const value = ((words[i + 1] ?? 0n) << 64n) | BigInt.asUintN(64, words[i] ?? 0n);
    const product = value * factor;
    words[i] = BigInt.asIntN(64, product);
    words[i + 1] = BigInt.asIntN(64, product >> 64n);
  }
}
