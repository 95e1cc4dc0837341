/** One page's levels and values (parquet-format: "Data Pages", PageHeader in parquet.thrift). */
import { PageFault, decompress } from './codec.ts';
import {
  joinByteStreams,
  readDelta,
  readDeltaLengthStrings,
  readDeltaStrings,
  readHybrid,
  readPlainStrings,
  type ByteCursor,
} from './encodings.ts';
import type { FileNode } from './footer.ts';
import { emptyValues, gatherValues, type LeafValues } from './leaf-values.ts';

export interface PageHeader {
  readonly kind: 'data' | 'dictionary' | 'other';
  readonly plainBytes: number;
  readonly compressedBytes: number;
  readonly crc: number | null;
  /** Level entries, NULLs included. */
  readonly valueCount: number;
  /** Known only in data page v2. */
  readonly rowCount: number | null;
  readonly encoding: number;
  /** False: levels in the deprecated BIT_PACKED encoding, which some writers also name where there are no levels. */
  readonly defRle: boolean;
  readonly repRle: boolean;
  readonly v2: { readonly defBytes: number; readonly repBytes: number; readonly compressed: boolean } | null;
}

export interface DataPage {
  readonly count: number;
  readonly rowCount: number;
  readonly maxDef: number;
  readonly defs: Uint8Array | null;
  readonly reps: Uint8Array | null;
  readonly values: LeafValues;
}

/** A page of more entries than this is taken for damage, not data. */
const PAGE_ENTRIES_MAX = 0x7fffff00;

export function readDictionary(header: PageHeader, body: Uint8Array, codec: string, node: FileNode): LeafValues {
  if (header.encoding !== 0 && header.encoding !== 2) throw new PageFault('a dictionary page is not PLAIN', true);
  const bytes = decompress(codec, body, header.plainBytes);
  return plainValues({ bytes, pos: 0 }, header.valueCount, node);
}

export function readDataPage(
  header: PageHeader,
  body: Uint8Array,
  codec: string,
  node: FileNode,
  dictionary: LeafValues | null,
): DataPage {
  const count = header.valueCount;
  if (count < 0 || count > PAGE_ENTRIES_MAX) throw new PageFault(`a page of ${count} values`);
  const { defs, reps, cursor } =
    header.v2 === null ? levelsV1(header, body, codec, node) : levelsV2(header, body, codec, node);
  let present = count;
  if (defs !== null) {
    present = 0;
    for (let i = 0; i < count; i++) {
      const def = defs[i] ?? 0;
      if (def > node.maxDef) throw new PageFault('a definition level is too high');
      if (def === node.maxDef) present++;
    }
  }
  let rowCount = count;
  if (reps !== null) {
    rowCount = 0;
    for (let i = 0; i < count; i++) if (reps[i] === 0) rowCount++;
  }
  const values = dataValues(header.encoding, cursor, present, node, dictionary);
  // Without lists, "all present" needs no levels: the common case costs nothing further on.
  return { count, rowCount, maxDef: node.maxDef, defs: present === count && reps === null ? null : defs, reps, values };
}

interface Levels {
  readonly defs: Uint8Array | null;
  readonly reps: Uint8Array | null;
  readonly cursor: ByteCursor;
}

const bitsFor = (max: number): number => 32 - Math.clz32(max);

function levelsV1(header: PageHeader, body: Uint8Array, codec: string, node: FileNode): Levels {
  const bytes = decompress(codec, body, header.plainBytes);
  const cursor = { bytes, pos: 0 };
  const read = (max: number, rle: boolean): Uint8Array | null => {
    if (max === 0) return null;
    if (!rle) throw new PageFault('levels in the deprecated BIT_PACKED encoding', true);
    if (cursor.pos + 4 > bytes.length) throw new PageFault('a page ends within its levels');
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(cursor.pos, true);
    const start = cursor.pos + 4;
    if (start + length > bytes.length) throw new PageFault('levels run past their page');
    const out = new Uint8Array(header.valueCount);
    readHybrid({ bytes: bytes.subarray(start, start + length), pos: 0 }, bitsFor(max), header.valueCount, out);
    cursor.pos = start + length;
    return out;
  };
  const reps = read(node.maxRep, header.repRle);
  const defs = read(node.maxDef, header.defRle);
  return { defs, reps, cursor };
}

function levelsV2(header: PageHeader, body: Uint8Array, codec: string, node: FileNode): Levels {
  const { defBytes, repBytes, compressed } = header.v2 ?? { defBytes: 0, repBytes: 0, compressed: true };
  if (defBytes < 0 || repBytes < 0 || defBytes + repBytes > body.length)
    throw new PageFault('levels run past their page');
  const read = (max: number, start: number, length: number): Uint8Array | null => {
    if (max === 0) return null;
    const out = new Uint8Array(header.valueCount);
    readHybrid({ bytes: body.subarray(start, start + length), pos: 0 }, bitsFor(max), header.valueCount, out);
    return out;
  };
  const reps = read(node.maxRep, 0, repBytes);
  const defs = read(node.maxDef, repBytes, defBytes);
  const rest = body.subarray(repBytes + defBytes);
  const plain = header.plainBytes - repBytes - defBytes;
  const bytes = compressed && rest.length > 0 ? decompress(codec, rest, plain) : rest;
  return { defs, reps, cursor: { bytes, pos: 0 } };
}

function dataValues(
  encoding: number,
  cursor: ByteCursor,
  count: number,
  node: FileNode,
  dictionary: LeafValues | null,
): LeafValues {
  if (count === 0) return emptyValues(node);
  switch (encoding) {
    case 0:
      return plainValues(cursor, count, node);
    case 2:
    case 8: {
      if (dictionary === null) throw new PageFault('a page needs a dictionary that its chunk lacks');
      const width = cursor.bytes[cursor.pos++] ?? 0;
      const indices = new Int32Array(count);
      readHybrid(cursor, width, count, indices);
      return gatherValues(dictionary, indices);
    }
    case 3:
      return rleBooleans(cursor, count, node);
    case 5:
      return deltaNumbers(cursor, count, node);
    case 6:
      return exactly(count, { kind: 'bytes', ...readDeltaLengthStrings(cursor, count) });
    case 7:
      return exactly(count, { kind: 'bytes', ...readDeltaStrings(cursor, count) });
    case 9:
      return splitValues(cursor, count, node);
    default:
      throw new PageFault(`encoding ${encoding} is not supported`, true);
  }
}

function exactly(count: number, values: { kind: 'bytes'; offsets: Int32Array; data: Uint8Array }): LeafValues {
  if (values.offsets.length !== count + 1) throw new PageFault('a page holds another number of strings than it says');
  return values;
}

function rleBooleans(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  if (node.element.type !== 'BOOLEAN') throw new PageFault('RLE values of another type than boolean', true);
  const values = new Uint8Array(count);
  cursor.pos += 4;
  readHybrid(cursor, 1, count, values);
  return { kind: 'boolean', values };
}

function deltaNumbers(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  const values = readDelta(cursor, count);
  if (values.length !== count) throw new PageFault('a page holds another number of values than it says');
  if (node.element.type === 'INT64') return { kind: 'int64', values };
  if (node.element.type !== 'INT32') throw new PageFault('delta values of another type than an integer', true);
  const narrow = new Int32Array(count);
  for (let i = 0; i < count; i++) narrow[i] = Number(BigInt.asIntN(32, values[i] ?? 0n));
  return { kind: 'int32', values: narrow };
}

function splitValues(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  const widths: Readonly<Record<string, number>> = { INT32: 4, FLOAT: 4, INT64: 8, DOUBLE: 8 };
  const width = widths[node.element.type ?? ''] ?? node.element.type_length;
  if (width === undefined) throw new PageFault('byte streams of strings', true);
  const bytes = joinByteStreams(cursor.bytes.subarray(cursor.pos), width, count);
  return plainValues({ bytes, pos: 0 }, count, node);
}

/** `count` fixed-width values as an aligned copy. */
function fixed(cursor: ByteCursor, count: number, width: number): ArrayBuffer {
  const end = cursor.pos + count * width;
  if (count < 0 || end > cursor.bytes.length) throw new PageFault('a page ends within its values');
  const copy = new Uint8Array(count * width);
  copy.set(cursor.bytes.subarray(cursor.pos, end));
  cursor.pos = end;
  return copy.buffer;
}

function plainValues(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
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
