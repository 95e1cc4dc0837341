/** Value encodings (parquet-format, Encodings.md). */
import { PageFault } from './codec.ts';

export interface ByteCursor {
  readonly bytes: Uint8Array;
  pos: number;
}

function varint(cursor: ByteCursor): number {
  let value = 0;
  for (let factor = 1; factor <= 2 ** 42; factor *= 128) {
    const byte = cursor.bytes[cursor.pos++];
    if (byte === undefined) throw new PageFault('a varint runs past its page');
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return value;
  }
  throw new PageFault('a varint is too long');
}

function bigVarint(cursor: ByteCursor): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = cursor.bytes[cursor.pos++];
    if (byte === undefined) throw new PageFault('a varint runs past its page');
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw new PageFault('a varint is too long');
}

const unZigZag = (value: bigint): bigint => (value >> 1n) ^ -(value & 1n);

/** `count` values of the RLE / bit-packed hybrid, filled into `out`. Moves the cursor behind the last run read. */
export function readHybrid(cursor: ByteCursor, bitWidth: number, count: number, out: Uint8Array | Int32Array): void {
  if (bitWidth === 0) {
    out.fill(0, 0, count);
    return;
  }
  if (bitWidth > 32) throw new PageFault(`a bit width of ${bitWidth}`);
  const valueBytes = (bitWidth + 7) >> 3;
  let filled = 0;
  while (filled < count) {
    const header = varint(cursor);
    if (header % 2 === 0) {
      const run = Math.min(header / 2, count - filled);
      if (cursor.pos + valueBytes > cursor.bytes.length || run === 0)
        throw new PageFault('a run is empty or cut short');
      let value = 0;
      for (let i = 0; i < valueBytes; i++) value |= (cursor.bytes[cursor.pos + i] ?? 0) << (8 * i);
      cursor.pos += valueBytes;
      out.fill(value, filled, filled + run);
      filled += run;
    } else {
      const groups = (header - 1) / 2;
      const run = Math.min(groups * 8, count - filled);
      // Some writers cut the last group's padding, so only the bytes of wanted values must be there.
      if (groups === 0 || cursor.pos + Math.ceil((run * bitWidth) / 8) > cursor.bytes.length)
        throw new PageFault('a bit-packed run is empty or cut short');
      unpackBits(cursor.bytes, cursor.pos, bitWidth, run, out, filled);
      cursor.pos += groups * bitWidth;
      filled += run;
    }
  }
}

function unpackBits(
  bytes: Uint8Array,
  start: number,
  width: number,
  count: number,
  out: Uint8Array | Int32Array,
  outStart: number,
): void {
  let pos = start;
  if (width === 8) {
    for (let i = 0; i < count; i++) out[outStart + i] = bytes[pos++] ?? 0;
    return;
  }
  if (width > 24) {
    for (let i = 0; i < count; i++) out[outStart + i] = Number(bitsAt(bytes, start * 8 + i * width, width));
    return;
  }
  const mask = (1 << width) - 1;
  let buffer = 0;
  let held = 0;
  for (let i = 0; i < count; i++) {
    while (held < width) {
      buffer |= (bytes[pos++] ?? 0) << held;
      held += 8;
    }
    out[outStart + i] = buffer & mask;
    buffer >>>= width;
    held -= width;
  }
}

/** `width` bits (up to 64) from bit `bit`, least significant first. */
function bitsAt(bytes: Uint8Array, bit: number, width: number): bigint {
  let value = 0n;
  const first = Math.floor(bit / 8);
  const last = Math.floor((bit + width - 1) / 8);
  for (let i = last; i >= first; i--) value = (value << 8n) | BigInt(bytes[i] ?? 0);
  return BigInt.asUintN(width, value >> BigInt(bit % 8));
}

/** DELTA_BINARY_PACKED. Returns 64-bit values; INT32 callers narrow them (arithmetic wraps as the format says). */
export function readDelta(cursor: ByteCursor, limit: number): BigInt64Array {
  const blockSize = varint(cursor);
  const miniblocks = varint(cursor);
  const total = varint(cursor);
  let value = unZigZag(bigVarint(cursor));
  if (total > limit || miniblocks === 0 || blockSize % miniblocks !== 0) throw new PageFault('a delta header is wrong');
  const perMiniblock = blockSize / miniblocks;
  if (total > 1 && perMiniblock === 0) throw new PageFault('a delta header is wrong');
  const out = new BigInt64Array(total);
  if (total > 0) out[0] = value;
  let filled = 1;
  while (filled < total) {
    const minDelta = unZigZag(bigVarint(cursor));
    const widths = cursor.bytes.subarray(cursor.pos, cursor.pos + miniblocks);
    if (widths.length < miniblocks) throw new PageFault('a delta block is cut short');
    cursor.pos += miniblocks;
    for (let m = 0; m < miniblocks && filled < total; m++) {
      const width = widths[m] ?? 0;
      const run = Math.min(perMiniblock, total - filled);
      if (width > 64 || cursor.pos + Math.ceil((run * width) / 8) > cursor.bytes.length)
        throw new PageFault('a delta miniblock is cut short');
      for (let i = 0; i < run; i++) {
        const delta = width === 0 ? 0n : bitsAt(cursor.bytes, cursor.pos * 8 + i * width, width);
        value = BigInt.asIntN(64, value + minDelta + delta);
        out[filled++] = value;
      }
      cursor.pos += Math.ceil((perMiniblock * width) / 8);
    }
  }
  return out;
}

/** Byte strings: string i is data[offsets[i] .. offsets[i+1]). */
export interface ByteStrings {
  readonly offsets: Int32Array;
  readonly data: Uint8Array;
}

/** PLAIN BYTE_ARRAY: a 4-byte length before each. */
export function readPlainStrings(cursor: ByteCursor, count: number): ByteStrings {
  const { bytes } = cursor;
  const starts = new Int32Array(count);
  const offsets = new Int32Array(count + 1);
  let pos = cursor.pos;
  let size = 0;
  for (let i = 0; i < count; i++) {
    if (pos + 4 > bytes.length) throw new PageFault('a string length is cut short');
    const length =
      (bytes[pos] ?? 0) | ((bytes[pos + 1] ?? 0) << 8) | ((bytes[pos + 2] ?? 0) << 16) | ((bytes[pos + 3] ?? 0) << 24);
    pos += 4;
    if (length < 0 || pos + length > bytes.length) throw new PageFault('a string runs past its page');
    starts[i] = pos;
    pos += length;
    size += length;
    offsets[i + 1] = size;
  }
  cursor.pos = pos;
  const data = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < count; i++) {
    const from = starts[i] ?? 0;
    const to = (offsets[i + 1] ?? 0) - (offsets[i] ?? 0) + from;
    at = copyBytes(bytes, from, to, data, at);
  }
  return { offsets, data };
}

/** Copies bytes [from, to) to `out` at `at`; returns the end. Short copies by loop: `set` costs a view each. */
export function copyBytes(bytes: Uint8Array, from: number, to: number, out: Uint8Array, at: number): number {
  if (to - from > 48) {
    out.set(bytes.subarray(from, to), at);
    return at + (to - from);
  }
  let end = at;
  for (let i = from; i < to; i++) out[end++] = bytes[i] ?? 0;
  return end;
}

/** DELTA_LENGTH_BYTE_ARRAY: lengths, then all bytes. */
export function readDeltaLengthStrings(cursor: ByteCursor, limit: number): ByteStrings {
  const lengths = readDelta(cursor, limit);
  const offsets = new Int32Array(lengths.length + 1);
  let size = 0;
  for (let i = 0; i < lengths.length; i++) {
    const length = Number(lengths[i]);
    if (length < 0 || cursor.pos + size + length > cursor.bytes.length)
      throw new PageFault('a string runs past its page');
    size += length;
    offsets[i + 1] = size;
  }
  const data = cursor.bytes.subarray(cursor.pos, cursor.pos + size);
  cursor.pos += size;
  return { offsets, data };
}

/** DELTA_BYTE_ARRAY: each string is a prefix of the one before and a suffix. */
export function readDeltaStrings(cursor: ByteCursor, limit: number): ByteStrings {
  const prefixes = readDelta(cursor, limit);
  const suffixes = readDeltaLengthStrings(cursor, limit);
  if (suffixes.offsets.length !== prefixes.length + 1) throw new PageFault('prefixes and suffixes differ in number');
  const offsets = new Int32Array(prefixes.length + 1);
  let size = 0;
  for (let i = 0; i < prefixes.length; i++) {
    const prefix = Number(prefixes[i]);
    const before = (offsets[i] ?? 0) - (i > 0 ? (offsets[i - 1] ?? 0) : 0);
    if (prefix < 0 || prefix > before) throw new PageFault('a prefix is longer than the string before');
    size += prefix + (suffixes.offsets[i + 1] ?? 0) - (suffixes.offsets[i] ?? 0);
    if (size > 0x7fffffff) throw new PageFault('strings of one page exceed 2 GiB');
    offsets[i + 1] = size;
  }
  const data = new Uint8Array(size);
  for (let i = 0; i < prefixes.length; i++) {
    const before = i > 0 ? (offsets[i - 1] ?? 0) : 0;
    const at = offsets[i] ?? 0;
    const prefix = Number(prefixes[i]);
    data.copyWithin(at, before, before + prefix);
    copyBytes(suffixes.data, suffixes.offsets[i] ?? 0, suffixes.offsets[i + 1] ?? 0, data, at + prefix);
  }
  return { offsets, data };
}

/** BYTE_STREAM_SPLIT: byte k of every value stands together; undone into PLAIN order. */
export function joinByteStreams(bytes: Uint8Array, width: number, count: number): Uint8Array {
  if (bytes.length < width * count) throw new PageFault('byte streams are cut short');
  const out = new Uint8Array(width * count);
  for (let k = 0; k < width; k++) for (let i = 0; i < count; i++) out[i * width + k] = bytes[k * count + i] ?? 0;
  return out;
}
