/** Page compression codecs (parquet-format, Compression.md). Every decoder checks its bounds: a corrupt page must not pass. */
import * as zlib from 'node:zlib';
import { decompress as zstdDecompress } from 'fzstd';

/** Thrown by decoders below a page; the page reader adds the file's name. */
export class PageFault extends Error {
  readonly unsupported: boolean;
  constructor(message: string, unsupported = false) {
    super(message);
    this.name = 'PageFault';
    this.unsupported = unsupported;
  }
}

export function decompress(codec: string, input: Uint8Array, sizeBytes: number): Uint8Array {
  const output = decompressAny(codec, input, sizeBytes);
  if (output.byteLength !== sizeBytes)
    throw new PageFault(`a ${codec} page gave ${output.byteLength} bytes, its header says ${sizeBytes}`);
  return output;
}

function decompressAny(codec: string, input: Uint8Array, sizeBytes: number): Uint8Array {
  switch (codec) {
    case 'UNCOMPRESSED':
      return input;
    case 'SNAPPY':
      return snappyDecompress(input, sizeBytes);
    case 'GZIP':
      return zlib.gunzipSync(input);
    case 'ZSTD':
      return sizeBytes === 0 ? new Uint8Array(0) : zstdPage(input, sizeBytes);
    case 'BROTLI':
      return zlib.brotliDecompressSync(input);
    case 'LZ4_RAW':
      return lz4Block(input, new Uint8Array(sizeBytes));
    case 'LZ4':
      return lz4Hadoop(input, sizeBytes);
    default:
      throw new PageFault(`compression ${codec} is not supported`, true);
  }
}

type Zstd = (input: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array;
/** Node 22.15 and later have it built in, at several times the speed; Node 20 has not. */
const nativeZstd = (zlib as { readonly zstdDecompressSync?: Zstd }).zstdDecompressSync;

function zstdPage(input: Uint8Array, sizeBytes: number): Uint8Array {
  if (nativeZstd === undefined) return zstdDecompress(input, new Uint8Array(sizeBytes));
  return nativeZstd(input, { maxOutputLength: sizeBytes });
}

/** Copies `length` bytes within `out` from `from` to `to`, byte by byte in effect: a match may overlap its own output. */
function copyMatch(out: Uint8Array, from: number, to: number, length: number): void {
  const distance = to - from;
  if (length <= 24) for (let i = 0; i < length; i++) out[to + i] = out[from + i] as number;
  else if (distance >= length) out.copyWithin(to, from, from + length);
  else if (distance === 1) out.fill(out[from] as number, to, to + length);
  // What repeats is there once; each copy makes it twice as long.
  else
    for (let done = 0, part = distance; done < length; done += part, part = Math.min(distance + done, length - done))
      out.copyWithin(to + done, from, from + Math.min(part, length - done));
}

function copyLiteral(input: Uint8Array, from: number, out: Uint8Array, to: number, length: number): void {
  if (from + length > input.length || to + length > out.length) throw new PageFault('a literal runs past its page');
  if (length > 32) out.set(input.subarray(from, from + length), to);
  else for (let i = 0; i < length; i++) out[to + i] = input[from + i] as number;
}

/** Snappy raw format: https://github.com/google/snappy/blob/main/format_description.txt */
export function snappyDecompress(input: Uint8Array, sizeBytes: number): Uint8Array {
  let pos = 0;
  let size = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = input[pos++];
    if (byte === undefined || shift > 28) throw new PageFault('a snappy page has no length');
    size += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) break;
  }
  if (size !== sizeBytes) throw new PageFault(`a snappy page holds ${size} bytes, its header says ${sizeBytes}`);
  const out = new Uint8Array(size);
  let at = 0;
  while (pos < input.length) {
    const tag = input[pos++] ?? 0;
    const kind = tag & 3;
    let length = tag >> 2;
    if (kind === 0) {
      if (length >= 60) {
        const extra = length - 59;
        length = littleEndian(input, pos, extra);
        pos += extra;
      }
      length += 1;
      copyLiteral(input, pos, out, at, length);
      pos += length;
      at += length;
      continue;
    }
    let offset: number;
    // The two usual kinds without a call.
    if (kind === 1) {
      offset = ((tag >> 5) << 8) | (input[pos++] ?? 0);
      length = (length & 7) + 4;
    } else if (kind === 2) {
      offset = (input[pos] ?? 0) | ((input[pos + 1] ?? 0) << 8);
      length += 1;
      pos += 2;
    } else {
      offset = littleEndian(input, pos, 4);
      length += 1;
      pos += 4;
    }
    if (pos > input.length) throw new PageFault('a compressed page ends early');
    if (offset === 0 || offset > at || at + length > size) throw new PageFault('a snappy copy points outside its page');
    copyMatch(out, at - offset, at, length);
    at += length;
  }
  if (at !== size) throw new PageFault('a snappy page ends early');
  return out;
}

function littleEndian(input: Uint8Array, pos: number, width: number): number {
  if (pos + width > input.length) throw new PageFault('a compressed page ends early');
  let value = 0;
  for (let i = width - 1; i >= 0; i--) value = value * 256 + (input[pos + i] ?? 0);
  return value;
}

/** LZ4 block format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md */
export function lz4Block(input: Uint8Array, out: Uint8Array): Uint8Array {
  let pos = 0;
  let at = 0;
  const lengthFrom = (nibble: number): number => {
    let length = nibble;
    if (nibble === 15) {
      let byte: number;
      do {
        byte = littleEndian(input, pos++, 1);
        length += byte;
      } while (byte === 255);
    }
    return length;
  };
  while (pos < input.length) {
    const token = input[pos++] ?? 0;
    const literal = lengthFrom(token >> 4);
    copyLiteral(input, pos, out, at, literal);
    pos += literal;
    at += literal;
    if (pos >= input.length) break;
    const offset = littleEndian(input, pos, 2);
    pos += 2;
    const length = lengthFrom(token & 15) + 4;
    if (offset === 0 || offset > at || at + length > out.length)
      throw new PageFault('an LZ4 match points outside its page');
    copyMatch(out, at - offset, at, length);
    at += length;
  }
  return out.subarray(0, at);
}

/** The deprecated LZ4 codec: Hadoop frames (two big-endian lengths, then a block), or a bare block from some writers. */
function lz4Hadoop(input: Uint8Array, sizeBytes: number): Uint8Array {
  const view = new DataView(input.buffer, input.byteOffset, input.byteLength);
  const out = new Uint8Array(sizeBytes);
  let pos = 0;
  let at = 0;
  while (pos + 8 <= input.length) {
    const plain = view.getUint32(pos);
    const packed = view.getUint32(pos + 4);
    if (at + plain > sizeBytes || pos + 8 + packed > input.length) return lz4Block(input, out);
    const block = lz4Block(input.subarray(pos + 8, pos + 8 + packed), out.subarray(at, at + plain));
    if (block.byteLength !== plain) return lz4Block(input, out);
    at += plain;
    pos += 8 + packed;
  }
  return at === sizeBytes && pos === input.length ? out : lz4Block(input, out);
}
