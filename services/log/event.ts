/**
 * The event language between reader and stream: table shapes, operations, the record header, and the mark.
 * The envelope itself (Debezium JSON) is written by `envelope-encode.ts` and read by `envelope-decode.ts`.
 */
import type { Lsn, LogOffset } from './position.ts';

/** Format versions of what is persisted in the log. Newer is refused by name, older is read. */
export const ENVELOPE_FORMAT = 1;
export const MARK_FORMAT = 1;
export const READER_STATE_FORMAT = 1;

/** Debezium's operation letters: create, update, delete, read (snapshot; a fill row is an `r` with RecordFlags.fill), truncate. */
export type EventOp = 'c' | 'u' | 'd' | 'r' | 't';

export interface ColumnShape {
  readonly name: string;
  readonly typeOid: number;
  readonly typeModifier: number;
  /** PostgreSQL's own text, as format_type gives it: `numeric(12,2)`, `text[]`, `public.order_status`. */
  readonly pgType: string;
  /** For enums the labels; for domains the base type's format_type; for arrays the element's; else null. */
  readonly baseType: string | null;
  readonly kind: 'base' | 'enum' | 'domain' | 'array' | 'composite' | 'range';
  readonly enumLabels: readonly string[] | null;
  readonly notNull: boolean;
  /** Position in the key, from 1; 0 = not part of it. */
  readonly keyPosition: number;
  /** What a privacy action put in the values' place before they came into the log; absent = they are the source's own. */
  readonly replaced?: Replaced;
}

/** A hash names its key by `keyId`, so that another key is another shape. A dropped column is in no record. */
export type Replaced = 'mask' | 'null' | 'drop' | `hash:${string}`;

/** A table as one RELATION message (and the catalog) describes it. Immutable; `version` rises with every change. */
export interface TableShape {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  /** Unique within the pipeline's log: carried by every record header of this table. From 1. */
  readonly version: number;
  readonly columns: readonly ColumnShape[];
}

/**
 * Header `sluice` of every data record, so that order and operation are known without reading the JSON. Big-endian:
 *   u8 format (1) | u8 op (ASCII) | u8 flags | u8 reserved | u32 epoch | u64 lsn | u32 ord | u32 shape version | i64 commit time, µs since 1970 UTC
 */
export const RECORD_HEADER = 'sluice';
export const RECORD_HEADER_BYTES = 32;
export const RecordFlags = {
  /** The value is a claim check: JSON {"sluiceClaim": {key, bytes, sha256}}; the envelope lies in the lake under that key. */
  claimCheck: 1,
  /** A fill row: only columns that no event of the chunk's window carried. */
  fill: 2,
  /** One half of a key change: the envelope has `otherKey`. Set by the encoder. */
  otherKey: 4,
} as const;

export interface RecordHeader {
  readonly op: EventOp;
  readonly flags: number;
  readonly epoch: number;
  readonly lsn: Lsn;
  readonly ord: number;
  readonly shapeVersion: number;
  readonly committedAtMicros: bigint;
}

export function encodeRecordHeader(header: RecordHeader): Buffer {
  const out = Buffer.allocUnsafe(RECORD_HEADER_BYTES);
  out.writeUInt8(ENVELOPE_FORMAT, 0);
  out.writeUInt8(header.op.charCodeAt(0), 1);
  out.writeUInt8(header.flags, 2);
  out.writeUInt8(0, 3);
  out.writeUInt32BE(header.epoch, 4);
  out.writeBigUInt64BE(header.lsn, 8);
  out.writeUInt32BE(header.ord, 16);
  out.writeUInt32BE(header.shapeVersion, 20);
  out.writeBigInt64BE(header.committedAtMicros, 24);
  return out;
}

/**
 * Mark on `<name>.__progress`: every event up to (epoch, lsn, ord) lies below `nextOffsets`. Written in the same log
 * transaction as those events, every 50,000 records at the latest, and every 10 s when idle. Batches end only at marks.
 */
export interface Mark {
  readonly formatVersion: number;
  /** Rises by one a mark, across restarts. */
  readonly sequence: number;
  readonly epoch: number;
  /** Identity of the log; another one means TOPIC_RESET. */
  readonly logId: string;
  /** Commit LSN of the last transaction whose events (up to `ord`) are included. */
  readonly lsn: Lsn;
  readonly ord: number;
  /** What may be confirmed to PostgreSQL once this mark is durable: COMMIT's end LSN, or a keepalive's position. */
  readonly confirmLsn: Lsn;
  /** True inside a source transaction: no consistent cut over all tables here. */
  readonly open: boolean;
  /** Next offset of each partition of each data topic: those changed since the last mark, or all of them when `full`. */
  readonly nextOffsets: Readonly<Record<string, Readonly<Record<number, LogOffset>>>>;
  readonly full: boolean;
  /** Topics whose offsets began anew with this mark's records: each was deleted and made again. Absent = none. */
  readonly resets?: readonly string[];
  /**
   * Topics whose records go to another number of partitions from this mark's records on: a key's later records may stand in
   * another partition than its earlier ones. Absent = none.
   */
  readonly grew?: readonly string[];
  /** Cumulative value bytes written to data topics, for lag in bytes. */
  readonly bytes: bigint;
  /** Tables (schema.table) whose snapshot is not complete at this mark. */
  readonly snapshotting: readonly string[];
  /** Tables that the reader has stopped or let go: what the source does to them does not come any more. Absent = none. */
  readonly standing?: readonly string[];
  /** Source clock at the newest included commit, µs since 1970 UTC; lag is measured in the source's clock. */
  readonly sourceTimeMicros: bigint;
  /** Wall clock of the reader, ms. */
  readonly atMs: number;
}
