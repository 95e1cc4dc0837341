/** One page's levels and values (parquet-format: "Data Pages", PageHeader in parquet.thrift). */
import { PageFault, decompress } from './codec.ts';
import {
  joinByteStreams,
  readDelta,
  readDeltaLengthStrings,
  readDeltaStrings,
  readHybrid,
  type ByteCursor,
} from './encodings.ts';
import type { FileNode } from './footer.ts';
import { pickPlain, plainValues } from './plain.ts';
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

/**
 * @param dictionary asked only when the page needs it
 * @param picks entries to keep, ascending, for a leaf in no list; null: all
 */
export function readDataPage(
  header: PageHeader,
  body: Uint8Array,
  codec: string,
  node: FileNode,
  dictionary: () => LeafValues | null,
  picks: Int32Array | null,
): DataPage {
  const count = header.valueCount;
  if (count < 0 || count > PAGE_ENTRIES_MAX) throw new PageFault(`a page of ${count} values`);
  const levels = header.v2 === null ? levelsV1(header, body, codec, node) : levelsV2(header, body, codec, node);
  const { defs, reps, cursor } = levels;
  if (picks !== null) return pickedPage(defs, cursor, header.encoding, node, dictionary, picks);
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
  const values = dataValues(header.encoding, cursor, present, node, dictionary, null);
  // Without lists, "all present" needs no levels: the common case costs nothing further on.
  return { count, rowCount, maxDef: node.maxDef, defs: present === count && reps === null ? null : defs, reps, values };
}

function pickedPage(
  defs: Uint8Array | null,
  cursor: ByteCursor,
  encoding: number,
  node: FileNode,
  dictionary: () => LeafValues | null,
  picks: Int32Array,
): DataPage {
  const { maxDef } = node;
  const base = { count: picks.length, rowCount: picks.length, maxDef, reps: null };
  // Most columns hold no NULL, though they may: then an entry is a value.
  if (defs === null || isAll(defs, maxDef)) {
    const needed = (picks.at(-1) ?? -1) + 1;
    return { ...base, defs: null, values: dataValues(encoding, cursor, needed, node, dictionary, picks) };
  }
  const kept = new Uint8Array(picks.length);
  const dense = new Int32Array(picks.length);
  let present = 0;
  let found = 0;
  let entry = 0;
  for (let i = 0; i < picks.length; i++) {
    const wanted = picks[i] ?? 0;
    while (entry < wanted) if (defs[entry++] === maxDef) present++;
    kept[i] = defs[entry] ?? 0;
    if (kept[i] === maxDef) dense[found++] = present;
  }
  const needed = found === 0 ? 0 : (dense[found - 1] ?? 0) + 1;
  const values = dataValues(encoding, cursor, needed, node, dictionary, dense.subarray(0, found));
  return { ...base, defs: found === picks.length ? null : kept, values };
}

function isAll(levels: Uint8Array, level: number): boolean {
  for (let i = 0; i < levels.length; i++) if (levels[i] !== level) return false;
  return true;
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

/** @param count values to decode; with `picks`, up to the last picked one */
function dataValues(
  encoding: number,
  cursor: ByteCursor,
  count: number,
  node: FileNode,
  dictionary: () => LeafValues | null,
  picks: Int32Array | null,
): LeafValues {
  if (count === 0) return emptyValues(node);
  if (encoding === 0) return picks === null ? plainValues(cursor, count, node) : pickPlain(cursor, picks, node);
  if (encoding === 2 || encoding === 8) {
    const values = dictionary();
    if (values === null) throw new PageFault('a page needs a dictionary that its chunk lacks');
    const width = cursor.bytes[cursor.pos++] ?? 0;
    const indices = new Int32Array(count);
    readHybrid(cursor, width, count, indices);
    if (picks === null) return gatherValues(values, indices);
    const picked = new Int32Array(picks.length);
    for (let i = 0; i < picks.length; i++) picked[i] = indices[picks[i] as number] as number;
    return gatherValues(values, picked);
  }
  const values = otherValues(encoding, cursor, count, node, picks !== null);
  return picks === null ? values : gatherValues(values, picks);
}

/** @param partly the page may hold more values than `count` */
function otherValues(encoding: number, cursor: ByteCursor, count: number, node: FileNode, partly: boolean): LeafValues {
  switch (encoding) {
    case 3:
      return rleBooleans(cursor, count, node);
    case 5:
      return deltaNumbers(cursor, count, node, partly);
    case 6:
      return exactly(count, partly, { kind: 'bytes', ...readDeltaLengthStrings(cursor, limitOf(count, partly)) });
    case 7:
      return exactly(count, partly, { kind: 'bytes', ...readDeltaStrings(cursor, limitOf(count, partly)) });
    case 9:
      if (partly) throw new PageFault('byte streams need all their values', true);
      return splitValues(cursor, count, node);
    default:
      throw new PageFault(`encoding ${encoding} is not supported`, true);
  }
}

const limitOf = (count: number, partly: boolean): number => (partly ? PAGE_ENTRIES_MAX : count);

function exactly(
  count: number,
  partly: boolean,
  values: { kind: 'bytes'; offsets: Int32Array; data: Uint8Array },
): LeafValues {
  if (partly ? values.offsets.length <= count : values.offsets.length !== count + 1)
    throw new PageFault('a page holds another number of strings than it says');
  return values;
}

function rleBooleans(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  if (node.element.type !== 'BOOLEAN') throw new PageFault('RLE values of another type than boolean', true);
  const values = new Uint8Array(count);
  cursor.pos += 4;
  readHybrid(cursor, 1, count, values);
  return { kind: 'boolean', values };
}

function deltaNumbers(cursor: ByteCursor, count: number, node: FileNode, partly: boolean): LeafValues {
  const values = readDelta(cursor, limitOf(count, partly));
  if (partly ? values.length < count : values.length !== count)
    throw new PageFault('a page holds another number of values than it says');
  if (node.element.type === 'INT64') return { kind: 'int64', values };
  if (node.element.type !== 'INT32') throw new PageFault('delta values of another type than an integer', true);
  const narrow = new Int32Array(values.length);
  for (let i = 0; i < values.length; i++) narrow[i] = Number(BigInt.asIntN(32, values[i] ?? 0n));
  return { kind: 'int32', values: narrow };
}

function splitValues(cursor: ByteCursor, count: number, node: FileNode): LeafValues {
  const widths: Readonly<Record<string, number>> = { INT32: 4, FLOAT: 4, INT64: 8, DOUBLE: 8 };
  const width = widths[node.element.type ?? ''] ?? node.element.type_length;
  if (width === undefined) throw new PageFault('byte streams of strings', true);
  const bytes = joinByteStreams(cursor.bytes.subarray(cursor.pos), width, count);
  return plainValues({ bytes, pos: 0 }, count, node);
}
