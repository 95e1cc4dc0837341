/**
 * The codecs in which brokers or other writers keep record batches: gzip and (where Node has it) zstd by the platform, snappy
 * and LZ4 here. We write none; reading them lets topics of others, and brokers that recompress, be a source.
 */
import * as zlib from 'node:zlib';

/** @throws Error naming the method when it cannot be read; RangeError on damaged bytes */
export function decompress(bytes: Buffer, method: number): Buffer {
  switch (method) {
    case 1:
      return zlib.gunzipSync(bytes);
    case 2:
      return snappy(bytes);
    case 3:
      return lz4Frame(bytes);
    case 4:
      return zstd(bytes);
    default:
      throw new Error(`compression method ${method} is not known`);
  }
}

/** Node 22.15 and later. */
function zstd(bytes: Buffer): Buffer {
  const unpack: unknown = Reflect.get(zlib, 'zstdDecompressSync');
  if (typeof unpack !== 'function') {
    throw new Error("zstd needs Node 22.15 or later; or set the topic's compression.type to another method");
  }
  return Buffer.from(Reflect.apply(unpack, zlib, [bytes]) as Uint8Array);
}

const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0]);

/** Java's framing (magic, two versions, then blocks with their length) or one bare block. */
function snappy(bytes: Buffer): Buffer {
  if (XERIAL.compare(bytes, 0, XERIAL.length) !== 0) return snappyBlock(bytes);
  const parts: Buffer[] = [];
  for (let at = 16; at + 4 <= bytes.length;) {
    const length = bytes.readInt32BE(at);
    parts.push(snappyBlock(bytes.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return Buffer.concat(parts);
}

/** Snappy format description: a varint of the plain length, then literals and copies. */
function snappyBlock(bytes: Buffer): Buffer {
  let at = 0;
  let length = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = byteAt(bytes, at++);
    length += (byte & 127) * 2 ** shift;
    if (byte < 128) break;
  }
  const out = Buffer.allocUnsafe(length);
  let to = 0;
  while (at < bytes.length) {
    const tag = byteAt(bytes, at++);
    const kind = tag & 3;
    let count = (tag >> 2) + 1;
    let back: number;
    if (kind === 0) {
      if (count > 60) {
        const width = count - 60;
        count = bytes.readUIntLE(at, width) + 1;
        at += width;
      }
      if (to + count > length || at + count > bytes.length) throw damaged('snappy');
      bytes.copy(out, to, at, at + count);
      at += count;
      to += count;
      continue;
    }
    if (kind === 1) {
      count = ((tag >> 2) & 7) + 4;
      back = ((tag >> 5) << 8) | byteAt(bytes, at++);
    } else {
      const width = kind === 2 ? 2 : 4;
      back = bytes.readUIntLE(at, width);
      at += width;
    }
    if (back === 0 || back > to || to + count > length) throw damaged('snappy');
    to = copyBack(out, to, back, count);
  }
  if (to !== length) throw damaged('snappy');
  return out;
}

/** Source and target may overlap: that repeats a pattern. */
function copyBack(out: Buffer, to: number, back: number, count: number): number {
  let at = to;
  for (let from = to - back; at < to + count;) out[at++] = out[from++] as number;
  return at;
}

const LZ4_MAGIC = 0x184d2204;

/** LZ4 frame format 1.6: frames of blocks that may refer to what came before them in their frame. */
function lz4Frame(bytes: Buffer): Buffer {
  const sink = { out: Buffer.allocUnsafe(Math.max(1024, bytes.length * 4)), to: 0 };
  let at = 0;
  while (at < bytes.length) {
    if (bytes.readUInt32LE(at) !== LZ4_MAGIC) throw damaged('lz4');
    const flags = byteAt(bytes, at + 4);
    at += 7 + ((flags & 8) === 0 ? 0 : 8) + ((flags & 1) === 0 ? 0 : 4);
    for (;;) {
      const size = bytes.readUInt32LE(at);
      at += 4;
      if (size === 0) break;
      const end = at + (size & 0x7fff_ffff);
      if (end > bytes.length) throw damaged('lz4');
      if (size > 0x7fff_ffff) {
        room(sink, end - at);
        sink.to += bytes.copy(sink.out, sink.to, at, end);
      } else lz4Block(bytes, at, end, sink);
      at = end + ((flags & 16) === 0 ? 0 : 4);
    }
    if ((flags & 4) !== 0) at += 4;
  }
  return sink.out.subarray(0, sink.to);
}

interface Sink {
  out: Buffer;
  to: number;
}

function lz4Block(bytes: Buffer, start: number, end: number, sink: Sink): void {
  let at = start;
  while (at < end) {
    const token = byteAt(bytes, at++);
    let literals = token >> 4;
    if (literals === 15) {
      let more: number;
      do literals += more = byteAt(bytes, at++);
      while (more === 255);
    }
    if (at + literals > end) throw damaged('lz4');
    room(sink, literals);
    sink.to += bytes.copy(sink.out, sink.to, at, at + literals);
    at += literals;
    // The last sequence has literals only.
    if (at >= end) return;
    const back = bytes.readUInt16LE(at);
    at += 2;
    let count = (token & 15) + 4;
    if (count === 19) {
      let more: number;
      do count += more = byteAt(bytes, at++);
      while (more === 255);
    }
    if (back === 0 || back > sink.to) throw damaged('lz4');
    room(sink, count);
    sink.to = copyBack(sink.out, sink.to, back, count);
  }
}

function room(sink: Sink, need: number): void {
  if (sink.to + need <= sink.out.length) return;
  const larger = Buffer.allocUnsafe(Math.max(sink.out.length * 2, sink.to + need));
  sink.out.copy(larger, 0, 0, sink.to);
  sink.out = larger;
}

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new RangeError('the compressed bytes end too early');
  return byte;
}

function damaged(method: string): RangeError {
  return new RangeError(`the ${method} bytes are damaged`);
}
