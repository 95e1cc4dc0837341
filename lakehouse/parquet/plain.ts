/** The PLAIN encoding (parquet-format, Encodings.md), of all values or of picked ones. */
import { PageFault } from './codec.ts';
import { copyBytes, readPlainStrings, type ByteCursor } from './encodings.ts';
import type { FileNode } from './footer.ts';
import { gatherValues, type LeafValues } from './leaf-values.ts';

/** `count` fixed-width values as an aligned copy. */
function fixed(cursor: ByteCursor, count: number, width: number): ArrayBuffer {
  const end = cursor.pos + count * width;
  if (count < 0 || end > cursor.bytes.length) throw new PageFault('a page ends within its values');
  const copy = new Uint8Array(count * width);
  copy.set(cursor.bytes.subarray(cursor.pos, end));
  cursor.pos = end;
  return copy.buffer;
}

export function plainValues(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  switch (node.element.type) {
    case 'BOOLEAN': {
      const values = new Uint8Array(count);
      if (cursor.pos + Math.ceil(count / 8) > cursor.bytes.length) throw new PageFault('a page ends within its values');
      for (let i = 0; i < count; i++) values[i] = ((cursor.bytes[cursor.pos + (i >> 3)] ?? 0) >> (i & 7)) & 1;
      return { kind: 'boolean', values };
    }
    case 'INT32':
      return { kind: 'int32', values: new Int32Array(fixed(cursor, count, 4)) };
    case 'INT64':
      return { kind: 'int64', values: new BigInt64Array(fixed(cursor, count, 8)) };
    case 'INT96':
      return { kind: 'int64', values: int96Micros(fixed(cursor, count, 12), count) };
    case 'FLOAT':
      return { kind: 'float32', values: new Float32Array(fixed(cursor, count, 4)) };
    case 'DOUBLE':
      return { kind: 'float64', values: new Float64Array(fixed(cursor, count, 8)) };
    case 'BYTE_ARRAY':
      return { kind: 'bytes', ...readPlainStrings(cursor, count) };
    default: {
      const width = node.element.type_length ?? 0;
      const data = new Uint8Array(fixed(cursor, count, width));
      const offsets = new Int32Array(count + 1);
      for (let i = 1; i <= count; i++) offsets[i] = i * width;
      return { kind: 'bytes', offsets, data };
    }
  }
}

/** Values `picks` (ascending) of the page's values: only those bytes are looked at, but for string lengths. */
export function pickPlain(cursor: ByteCursor, picks: Int32Array, node: FileNode): LeafValues {
  const last = picks.length === 0 ? -1 : (picks[picks.length - 1] ?? 0);
  const { type } = node.element;
  if (type === 'BYTE_ARRAY') return pickStrings(cursor, picks);
  const width = FIXED_BYTES[type ?? ''] ?? node.element.type_length ?? 0;
  // Bits, and numbers few and far between: one copy of the page and a gather beat a copy of bytes a value.
  if (type === 'BOOLEAN' || (picks.length * DENSE_ROWS < last && type !== 'INT96' && type !== 'FIXED_LEN_BYTE_ARRAY'))
    return gatherValues(plainValues(cursor, last + 1, node), picks);
  if (cursor.pos + (last + 1) * width > cursor.bytes.length) throw new PageFault('a page ends within its values');
  const bytes = new Uint8Array(picks.length * width);
  let at = 0;
  for (let i = 0; i < picks.length;) {
    const first = picks[i] as number;
    let end = first + 1;
    while (++i < picks.length && picks[i] === end) end++;
    // Between the rows that a deletion vector hides, values go as one.
    at = copyBytes(cursor.bytes, cursor.pos + first * width, cursor.pos + end * width, bytes, at);
  }
  return plainValues({ bytes, pos: 0 }, picks.length, node);
}

const FIXED_BYTES: Readonly<Record<string, number>> = { INT32: 4, INT64: 8, INT96: 12, FLOAT: 4, DOUBLE: 8 };
/** Rows a pick above which the picks are single ones. */
const DENSE_ROWS = 4;

function pickStrings(cursor: ByteCursor, picks: Int32Array): LeafValues {
  const { bytes } = cursor;
  const starts = new Int32Array(picks.length);
  const offsets = new Int32Array(picks.length + 1);
  let pos = cursor.pos;
  let size = 0;
  let value = 0;
  for (let i = 0; i < picks.length; i++) {
    for (const wanted = picks[i] ?? 0; ; value++) {
      if (pos + 4 > bytes.length) throw new PageFault('a string length is cut short');
      const length =
        (bytes[pos] ?? 0) |
        ((bytes[pos + 1] ?? 0) << 8) |
        ((bytes[pos + 2] ?? 0) << 16) |
        ((bytes[pos + 3] ?? 0) << 24);
      if (length < 0 || pos + 4 + length > bytes.length) throw new PageFault('a string runs past its page');
      const start = pos + 4;
      pos = start + length;
      if (value !== wanted) continue;
      value++;
      starts[i] = start;
      size += length;
      break;
    }
    offsets[i + 1] = size;
  }
  const data = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < picks.length; i++) {
    const from = starts[i] ?? 0;
    at = copyBytes(bytes, from, from + (offsets[i + 1] ?? 0) - (offsets[i] ?? 0), data, at);
  }
  return { kind: 'bytes', offsets, data };
}

/**
 * INT96 timestamps (nanoseconds of the day, Julian day), exact to the microsecond for any day: 2440588 is 1970-01-01.
 * Readers that go through 64-bit nanoseconds wrap outside 1677..2262.
 */
function int96Micros(buffer: ArrayBuffer, count: number): BigInt64Array {
  const view = new DataView(buffer);
  const out = new BigInt64Array(count);
  for (let i = 0; i < count; i++) {
    const nanos = view.getBigInt64(i * 12, true);
    const day = view.getInt32(i * 12 + 8, true) - 2_440_588;
    const floored = nanos >= 0n ? nanos / 1000n : (nanos - 999n) / 1000n;
    out[i] = BigInt(day) * 86_400_000_000n + floored;
  }
  return out;
}
