/**
 * Kafka's record batches, format 2, bytes to bytes (Kafka docs, "Message Format", Record Batch). The client library builds
 * an object and several small buffers a record; here a batch is written once into one buffer, and read as slices of the
 * fetched bytes (docs/decisions/0004-kafka-records-by-hand.md has the rates).
 */
import { crc32c } from './crc32c.ts';
import { decompress } from './kafka-compression.ts';
import { RECORD_HEADER } from './event.ts';
import { LogError, type OutgoingRecord } from './log.ts';
import type { BatchBuilder } from './record-chunk.ts';

/** Bytes before the first record. */
const HEAD_BYTES = 61;
/** Most that lengths, deltas and the header's name add to a record. */
const RECORD_OVERHEAD_MAX = 48;
const MAGIC = 2;
const TRANSACTIONAL = 0x10;
const CONTROL = 0x20;
const HEADER_NAME = Buffer.from(RECORD_HEADER);

export interface ProducerStamp {
  readonly producerId: bigint;
  readonly producerEpoch: number;
}

/** Upper bound of a record's bytes in a batch. */
export function batchRecordBytes(record: OutgoingRecord): number {
  return RECORD_OVERHEAD_MAX + (record.key?.length ?? 0) + (record.value?.length ?? 0) + (record.header?.length ?? 0);
}

/** One transactional batch of records[from .. to). */
export function encodeRecordBatch(
  records: readonly OutgoingRecord[],
  from: number,
  to: number,
  stamp: ProducerStamp,
  baseSequence: number,
  timestampMs: number,
): Buffer {
  let room = HEAD_BYTES;
  for (let i = from; i < to; i++) room += batchRecordBytes(records[i] as OutgoingRecord);
  const out = Buffer.allocUnsafeSlow(room);
  let at = HEAD_BYTES;
  for (let i = from; i < to; i++) at = writeRecord(out, at, records[i] as OutgoingRecord, i - from);
  const timestamp = BigInt(timestampMs);
  out.writeBigInt64BE(0n, 0);
  out.writeInt32BE(at - 12, 8);
  out.writeInt32BE(-1, 12);
  out.writeInt8(MAGIC, 16);
  out.writeInt16BE(TRANSACTIONAL, 21);
  out.writeInt32BE(to - from - 1, 23);
  out.writeBigInt64BE(timestamp, 27);
  out.writeBigInt64BE(timestamp, 35);
  out.writeBigInt64BE(stamp.producerId, 43);
  out.writeInt16BE(stamp.producerEpoch, 51);
  out.writeInt32BE(baseSequence, 53);
  out.writeInt32BE(to - from, 57);
  out.writeUInt32BE(crc32c(out, 21, at), 17);
  return out.subarray(0, at);
}

function writeRecord(out: Buffer, start: number, record: OutgoingRecord, index: number): number {
  const { key, value, header } = record;
  const length =
    2 + // attributes and timestamp delta
    varintBytes(index) +
    fieldBytes(key) +
    fieldBytes(value) +
    (header === null ? 1 : 1 + 1 + HEADER_NAME.length + fieldBytes(header));
  let at = writeVarint(out, start, length);
  out[at++] = 0;
  out[at++] = 0;
  at = writeVarint(out, at, index);
  at = writeField(out, at, key);
  at = writeField(out, at, value);
  if (header === null) {
    out[at++] = 0;
    return at;
  }
  out[at++] = 2; // one header
  at = writeField(out, at, HEADER_NAME);
  return writeField(out, at, header);
}

function fieldBytes(field: Buffer | null): number {
  return field === null ? 1 : varintBytes(field.length) + field.length;
}

function writeField(out: Buffer, start: number, field: Buffer | null): number {
  if (field === null) {
    out[start] = 1; // -1
    return start + 1;
  }
  const at = writeVarint(out, start, field.length);
  // Keys and headers are short: a loop beats the call.
  if (field.length > 64) field.copy(out, at);
  else for (let i = 0; i < field.length; i++) out[at + i] = field[i] as number;
  return at + field.length;
}

/** Zigzag varint of a number that is not negative. */
function writeVarint(out: Buffer, start: number, value: number): number {
  let rest = value * 2;
  let at = start;
  while (rest > 127) {
    out[at++] = (rest & 127) | 128;
    rest = Math.floor(rest / 128);
  }
  out[at++] = rest;
  return at;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value * 2; rest > 127; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

/** What a fetch says of aborted transactions: records of this producer from this offset on, up to its abort marker. */
export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: bigint;
}

/**
 * Adds the committed records with from <= offset < to to the batch. Returns where to fetch on: past the last whole batch,
 * control records included, or `from` when there was none.
 */
export function addFetched(
  batch: BatchBuilder,
  bytes: Buffer,
  aborted: readonly AbortedTransaction[],
  from: bigint,
  to: bigint,
): bigint {
  const pending = [...aborted].sort((a, b) => (a.firstOffset < b.firstOffset ? -1 : 1));
  const aborting = new Set<bigint>();
  let next = from;
  for (let start = 0; start + HEAD_BYTES <= bytes.length;) {
    const end = start + 12 + bytes.readInt32BE(start + 8);
    // The last batch of a fetch may be cut off: it is fetched again.
    if (end > bytes.length || end <= start) break;
    const base = bytes.readBigInt64BE(start);
    const magic = bytes.readInt8(start + 16);
    if (magic !== MAGIC) {
      throw new LogError(
        'LOG_CORRUPT',
        `the batch at offset ${base} has format ${magic}; only format 2 is read (Kafka 0.11 and later)`,
      );
    }
    if (bytes.readUInt32BE(start + 17) !== crc32c(bytes, start + 21, end)) {
      throw new LogError('LOG_CORRUPT', `the batch at offset ${base} does not match its checksum`, { retriable: true });
    }
    const attributes = bytes.readInt16BE(start + 21);
    const last = base + BigInt(bytes.readInt32BE(start + 23));
    const producerId = bytes.readBigInt64BE(start + 43);
    while (pending[0] !== undefined && pending[0].firstOffset <= last) aborting.add(pending.shift()?.producerId ?? -1n);
    if ((attributes & CONTROL) !== 0) aborting.delete(producerId);
    else if ((attributes & TRANSACTIONAL) === 0 || !aborting.has(producerId)) {
      addBatch(batch, bytes, start, end, attributes, base, from, to);
    }
    next = last + 1n;
    start = end;
    if (next >= to) break;
  }
  return next;
}

function addBatch(
  batch: BatchBuilder,
  bytes: Buffer,
  start: number,
  end: number,
  attributes: number,
  base: bigint,
  from: bigint,
  to: bigint,
): void {
  const count = bytes.readInt32BE(start + 57);
  const records = { bytes, at: start + HEAD_BYTES };
  if ((attributes & 7) !== 0) {
    records.bytes = unpack(bytes.subarray(records.at, end), attributes & 7, base);
    records.at = 0;
  }
  const baseTime = Number(bytes.readBigInt64BE(start + 27));
  // Bit 3: the broker's append time stands for every record.
  const appendTime = (attributes & 8) === 0 ? null : Number(bytes.readBigInt64BE(start + 35));
  for (let i = 0; i < count; i++) addRecord(batch, records, base, baseTime, appendTime, from, to);
}

const METHODS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];

function unpack(bytes: Buffer, method: number, base: bigint): Buffer {
  try {
    return decompress(bytes, method);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new LogError(
      'LOG_CORRUPT',
      `the batch at offset ${base}, compressed with ${METHODS[method] ?? method}, cannot be read: ${why}`,
      { cause },
    );
  }
}

interface RecordCursor {
  bytes: Buffer;
  at: number;
}

function addRecord(
  batch: BatchBuilder,
  cursor: RecordCursor,
  base: bigint,
  baseTime: number,
  appendTime: number | null,
  from: bigint,
  to: bigint,
): void {
  const length = readVarint(cursor);
  const end = cursor.at + length;
  cursor.at++;
  const timeDelta = readVarint(cursor);
  const offset = base + BigInt(readVarint(cursor));
  if (offset < from || offset >= to) {
    cursor.at = end;
    return;
  }
  const key = readField(cursor);
  const value = readField(cursor);
  batch.offsets.push(offset);
  batch.keys.push(key);
  batch.values.push(value);
  batch.headers.push(readSluiceHeader(cursor));
  batch.timestampsMs.push(appendTime ?? baseTime + timeDelta);
  batch.bytes += length;
  cursor.at = end;
}

function readSluiceHeader(cursor: RecordCursor): Buffer | null {
  let found: Buffer | null = null;
  for (let count = readVarint(cursor); count > 0; count--) {
    const nameLength = readVarint(cursor);
    const nameAt = cursor.at;
    cursor.at += nameLength;
    const value = readField(cursor);
    if (nameLength === HEADER_NAME.length && HEADER_NAME.compare(cursor.bytes, nameAt, nameAt + nameLength) === 0) {
      found = value;
    }
  }
  return found;
}

function readField(cursor: RecordCursor): Buffer | null {
  const length = readVarint(cursor);
  if (length < 0) return null;
  const start = cursor.at;
  cursor.at = start + length;
  return cursor.bytes.subarray(start, cursor.at);
}

/** Zigzag varint, exact to 2^53 (time deltas are 64-bit there, but small). */
function readVarint(cursor: RecordCursor): number {
  const { bytes } = cursor;
  let { at } = cursor;
  let value = 0;
  let scale = 1;
  for (;;) {
    const byte = bytes[at++] as number;
    value += (byte & 127) * scale;
    if (byte < 128) break;
    scale *= 128;
  }
  cursor.at = at;
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}
