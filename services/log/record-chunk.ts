/**
 * How the embedded log keeps records: chunks of consecutive offsets of one partition, each with its own checksum.
 * Big-endian:
 *   u8 format (1) | u8 0 | u16 0 | u32 CRC-32 of all that follows | u32 length of the whole chunk | u32 count |
 *   u64 base offset | f64 append time, ms | count × { i32 key bytes (-1 = null) | i32 value bytes | i32 header bytes } |
 *   count × { key | value | header }
 * Format 2 has the same head, and behind it one block of `count` rows (row-block.ts).
 */
import { crc32 } from 'node:zlib';
import type { LogBatch, OutgoingRecord } from './log.ts';
import type { LogOffset } from './position.ts';
import { openRowBlock, rowBlockRecords } from './row-block.ts';

export const CHUNK_FORMAT = 1;
export const BLOCK_CHUNK_FORMAT = 2;
const HEAD_BYTES = 32;
const LENGTHS_BYTES = 12;
const COPY_BYTES_MIN = 48;

/** Bytes that a record takes in a chunk. */
export function recordBytes(record: OutgoingRecord): number {
  return LENGTHS_BYTES + (record.key?.length ?? 0) + (record.value?.length ?? 0) + (record.header?.length ?? 0);
}

export function encodeChunk(
  records: readonly OutgoingRecord[],
  from: number,
  to: number,
  base: bigint,
  timestampMs: number,
): Buffer {
  let length = HEAD_BYTES;
  for (let i = from; i < to; i++) length += recordBytes(records[i] as OutgoingRecord);
  const out = Buffer.allocUnsafe(length);
  out.writeUInt32BE(CHUNK_FORMAT << 24, 0);
  out.writeUInt32BE(length, 8);
  out.writeUInt32BE(to - from, 12);
  out.writeBigUInt64BE(base, 16);
  out.writeDoubleBE(timestampMs, 24);
  let lengthsAt = HEAD_BYTES;
  let at = HEAD_BYTES + (to - from) * LENGTHS_BYTES;
  for (let i = from; i < to; i++) {
    const { key, value, header } = records[i] as OutgoingRecord;
    lengthsAt = out.writeInt32BE(key === null ? -1 : key.length, lengthsAt);
    lengthsAt = out.writeInt32BE(value === null ? -1 : value.length, lengthsAt);
    lengthsAt = out.writeInt32BE(header === null ? -1 : header.length, lengthsAt);
    if (key !== null) at = put(out, at, key);
    if (value !== null) at = put(out, at, value);
    if (header !== null) at = put(out, at, header);
  }
  out.writeUInt32BE(crc32(out.subarray(8)), 4);
  return out;
}

/** Keys and headers are short: a loop beats the call. */
function put(out: Buffer, at: number, bytes: Buffer): number {
  const { length } = bytes;
  if (length > COPY_BYTES_MIN) bytes.copy(out, at);
  else for (let i = 0; i < length; i++) out[at + i] = bytes[i] as number;
  return at + length;
}

/** Head and parts of the block: they are written one behind the other. */
export function encodeBlockChunk(
  block: readonly Buffer[],
  rows: number,
  base: bigint,
  timestampMs: number,
): readonly Buffer[] {
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head.writeUInt32BE(BLOCK_CHUNK_FORMAT << 24, 0);
  head.writeUInt32BE(
    block.reduce((sum, part) => sum + part.length, HEAD_BYTES),
    8,
  );
  head.writeUInt32BE(rows, 12);
  head.writeBigUInt64BE(base, 16);
  head.writeDoubleBE(timestampMs, 24);
  let crc = crc32(head.subarray(8));
  for (const part of block) crc = crc32(part, crc);
  head.writeUInt32BE(crc, 4);
  return [head, ...block];
}

/** The block of rows that a chunk holds; null when it holds records. */
export function blockOf(chunk: Buffer): Buffer | null {
  return chunk[0] === BLOCK_CHUNK_FORMAT ? chunk.subarray(HEAD_BYTES) : null;
}

/** The format when it is newer than what is known here, else null. */
export function newerChunk(chunk: Buffer): number | null {
  const format = chunk[0] ?? 0;
  return format > BLOCK_CHUNK_FORMAT ? format : null;
}

/** What is wrong with these bytes as the chunk at `base`, or null when nothing is. */
export function chunkFault(chunk: Buffer, base: bigint): string | null {
  if (chunk.length < HEAD_BYTES) return `it is cut off after ${chunk.length} bytes`;
  if (chunk[0] !== CHUNK_FORMAT && chunk[0] !== BLOCK_CHUNK_FORMAT)
    return `it has format ${chunk[0] ?? 0}, which was never written`;
  if (chunk.readUInt32BE(8) !== chunk.length) return 'its length is not the one written';
  if (chunk.readUInt32BE(4) !== crc32(chunk.subarray(8))) return 'its checksum does not match';
  if (chunk.readBigUInt64BE(16) !== base) return 'it holds other offsets';
  return null;
}

/** Records gathered from chunks into one batch; arrays of equal length. */
export interface BatchBuilder {
  readonly offsets: bigint[];
  readonly keys: (Buffer | null)[];
  readonly values: (Buffer | null)[];
  readonly headers: (Buffer | null)[];
  readonly timestampsMs: number[];
  bytes: number;
}

export function createBatchBuilder(): BatchBuilder {
  return { offsets: [], keys: [], values: [], headers: [], timestampsMs: [], bytes: 0 };
}

/** Adds the chunk's records with from <= offset < to. The batch's buffers are slices of the chunk. */
export function addChunk(batch: BatchBuilder, chunk: Buffer, from: bigint, to: bigint): void {
  const block = blockOf(chunk);
  if (block !== null) {
    addRows(batch, chunk, block, from, to);
    return;
  }
  const count = chunk.readUInt32BE(12);
  const base = chunk.readBigUInt64BE(16);
  const timestampMs = chunk.readDoubleBE(24);
  let lengthsAt = HEAD_BYTES;
  let at = HEAD_BYTES + count * LENGTHS_BYTES;
  for (let i = 0; i < count; i++, lengthsAt += LENGTHS_BYTES) {
    const keyBytes = chunk.readInt32BE(lengthsAt);
    const valueBytes = chunk.readInt32BE(lengthsAt + 4);
    const headerBytes = chunk.readInt32BE(lengthsAt + 8);
    const valueAt = at + (keyBytes < 0 ? 0 : keyBytes);
    const headerAt = valueAt + (valueBytes < 0 ? 0 : valueBytes);
    const end = headerAt + (headerBytes < 0 ? 0 : headerBytes);
    const offset = base + BigInt(i);
    if (offset >= from && offset < to) {
      batch.offsets.push(offset);
      batch.keys.push(keyBytes < 0 ? null : chunk.subarray(at, valueAt));
      batch.values.push(valueBytes < 0 ? null : chunk.subarray(valueAt, headerAt));
      batch.headers.push(headerBytes < 0 ? null : chunk.subarray(headerAt, end));
      batch.timestampsMs.push(timestampMs);
      batch.bytes += end - at;
    }
    at = end;
  }
}

/** The rows of a block as the records that they stand for. */
function addRows(batch: BatchBuilder, chunk: Buffer, bytes: Buffer, from: bigint, to: bigint): void {
  const base = chunk.readBigUInt64BE(16);
  const timestampMs = chunk.readDoubleBE(24);
  const block = openRowBlock(bytes);
  const record = rowBlockRecords(block);
  const first = from > base ? Number(from - base) : 0;
  const last = to - base < BigInt(block.rows) ? Number(to - base) : block.rows;
  for (let row = first; row < last; row++) {
    const { key, value, header } = record(row);
    batch.offsets.push(base + BigInt(row));
    batch.keys.push(key);
    batch.values.push(value);
    batch.headers.push(header);
    batch.timestampsMs.push(timestampMs);
    batch.bytes += (key?.length ?? 0) + value.length + header.length;
  }
}

export function buildBatch(batch: BatchBuilder, topic: string, partition: number, nextOffset: LogOffset): LogBatch {
  return {
    topic,
    partition,
    offsets: BigInt64Array.from(batch.offsets),
    keys: batch.keys,
    values: batch.values,
    headers: batch.headers,
    timestampsMs: Float64Array.from(batch.timestampsMs),
    nextOffset,
    bytes: batch.bytes,
  };
}
