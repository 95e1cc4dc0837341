/**
 * Records on their way to the log: one batch is one log transaction, and ends at a mark. Bounded in records and bytes.
 */
import { createHash } from 'node:crypto';
import { RecordFlags } from '../log/event.ts';
import type { EncodedRecord } from '../log/envelope-encode.ts';
import type { OutgoingRecord } from '../log/log.ts';
import { formatLsn } from '../log/position.ts';
import { ReaderError } from './reader-error.ts';

/** DESIGN section 4: marks come at least every 50,000 records. */
export const BATCH_RECORDS_MAX = 50_000;
export const BATCH_BYTES_MAX = 8 * 1024 * 1024;

/** Stores an envelope that is larger than a record may be, in the lake; resolves when it is durable. */
export type PutLarge = (key: string, bytes: Buffer) => Promise<void>;

export interface OutgoingBatch {
  readonly records: OutgoingRecord[];
  /** Offsets that they take: a block of rows takes many. */
  rows: number;
  /** Value bytes of data records. */
  bytes: number;
  /** Claim checks that must be durable before the batch is appended. */
  readonly claims: Promise<void>[];
}

export function createOutgoingBatch(): OutgoingBatch {
  return { records: [], rows: 0, bytes: 0, claims: [] };
}

export function isFull(batch: OutgoingBatch): boolean {
  return batch.rows >= BATCH_RECORDS_MAX || batch.bytes >= BATCH_BYTES_MAX;
}

export interface ClaimStore {
  readonly recordBytesMax: number;
  readonly put: PutLarge | null;
  /** `<name>`, the first part of the claims' keys. */
  readonly pipeline: string;
}

export interface RecordPlace {
  readonly topic: string;
  readonly partition: number | null;
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
}

export function addRecord(batch: OutgoingBatch, encoded: EncodedRecord, place: RecordPlace, claims: ClaimStore): void {
  let { value } = encoded;
  // A value that goes by claim check counts whole: it is held until it is stored, and again by whoever reads the record.
  batch.bytes += value.length;
  if (value.length > claims.recordBytesMax) value = claimCheck(batch, encoded, place, claims);
  batch.rows++;
  const { key, header } = encoded;
  const { topic, partition } = place;
  batch.records.push(partition === null ? { topic, key, value, header } : { topic, key, value, header, partition });
}

/** Rows of a chunk as one record (services/log/row-block.ts), for topics of one partition. */
export function addRowBlock(batch: OutgoingBatch, topic: string, block: readonly Buffer[], rows: number): void {
  const [value = null, ...rest] = block;
  batch.bytes += block.reduce((sum, part) => sum + part.length, 0);
  batch.rows += rows;
  batch.records.push({ topic, key: null, value, header: null, partition: 0, rows, rest });
}

/** The key names the event, so that a repetition after a crash writes the same object again. */
function claimCheck(batch: OutgoingBatch, encoded: EncodedRecord, place: RecordPlace, claims: ClaimStore): Buffer {
  const { value, header } = encoded;
  if (claims.put === null) {
    throw new ReaderError(
      'VALUE_TOO_LARGE',
      `an event of ${value.length} bytes at ${formatLsn(place.lsn)} for topic ${place.topic} is above the log's limit of ${claims.recordBytesMax} bytes, and no store for large values is set`,
      { remedy: 'run the reader with a lake, or raise the log’s message limit' },
    );
  }
  const lsn = place.lsn.toString(16).padStart(16, '0');
  const key = `_sluice/large/${claims.pipeline}/${place.epoch}-${lsn}-${place.ord}.json`;
  const sha256 = createHash('sha256').update(value).digest('hex');
  // Large values keep their chunk of the encoder alive until they are stored, and no longer.
  batch.claims.push(claims.put(key, value));
  header.writeUInt8(header.readUInt8(2) | RecordFlags.claimCheck, 2);
  return Buffer.from(JSON.stringify({ sluiceClaim: { key, bytes: value.length, sha256 } }));
}
