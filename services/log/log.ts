/**
 * PORT of the event log. Two adapters, `kafka-log.ts` and `embedded-log.ts`; one conformance suite
 * (test/conformance/register-log-suite.ts). The log is a set of topics of numbered partitions of records with rising
 * offsets (gaps allowed: Kafka's control records take offsets). The port reads *ranges*; it never commits a group's
 * offsets for reading (a consumer-group mirror exists for lag exporters only).
 */
import type { JoinGroup } from './membership.ts';
import type { LogOffset } from './position.ts';

export interface OutgoingRecord {
  readonly topic: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** Bytes of the `sluice` header (event.ts), or null on control records. */
  readonly header: Buffer | null;
  /** Explicit partition (TRUNCATE goes to every one); otherwise murmur2 of the key, as Kafka's default partitioner. */
  readonly partition?: number;
  /**
   * The value is a block of so many rows (row-block.ts), each of which takes an offset: for writers that say `rowBlocks`, and
   * with `partition` set. Key and header are null.
   */
  readonly rows?: number;
  /** Of a block of rows: what stands behind the value, which is its beginning. */
  readonly rest?: readonly Buffer[];
}

/** Next offset a partition, after an append. */
export type NextOffsets = Map<string, Map<number, LogOffset>>;

export interface LogWriter {
  /**
   * Appends in one log transaction: all records, then the control records that `controls` builds from the data records'
   * assigned next offsets (the mark, the reader's state). Resolves when durable (acks=all of a committed transaction, or
   * fsync); a read_committed reader then sees all of it or none. One append at a time: a second call waits.
   * @throws LogError FENCED when another writer took over with the same identity; DISK_FULL; TOO_LARGE; UNAVAILABLE after
   *   the adapter's own retries. Then open a new writer and read the state back before appending again: when a commit got
   *   no answer its outcome is only known once the next writer has settled it.
   */
  append(
    records: readonly OutgoingRecord[],
    controls?: (next: NextOffsets) => readonly OutgoingRecord[],
  ): Promise<NextOffsets>;
  /** Largest record value accepted, bytes; larger rows go by claim check. */
  readonly recordBytesMax: number;
  /** Partitions of a topic as the append in hand lays its records out; absent = the log's topics never grow. */
  readonly partitionsOf?: (topic: string) => number | null;
  /** Blocks of rows are taken. */
  readonly rowBlocks?: boolean;
  close(): Promise<void>;
}

/** Records of one partition, in offset order; arrays of equal length. */
export interface LogBatch {
  readonly topic: string;
  readonly partition: number;
  readonly offsets: BigInt64Array;
  readonly keys: readonly (Buffer | null)[];
  readonly values: readonly (Buffer | null)[];
  /** `sluice` header bytes, or null where a record has none (topics written by Debezium). */
  readonly headers: readonly (Buffer | null)[];
  /** Log append or create time, ms. */
  readonly timestampsMs: Float64Array;
  /** Where to read on: past the last record and any control records behind it. */
  readonly nextOffset: LogOffset;
  readonly bytes: number;
  /** A block of rows, for a reader that asked for them: then the lists above are empty. */
  readonly block?: RowBlockSlice;
}

/** Rows from <= row < to of a block (row-block.ts); row 0 stands at offset `base`. The bytes hold until the next batch is asked for. */
export interface RowBlockSlice {
  readonly bytes: Buffer;
  readonly base: LogOffset;
  readonly from: number;
  readonly to: number;
}

export interface PartitionBounds {
  readonly earliest: LogOffset;
  /** Next offset to be written (last stable offset with transactions). */
  readonly end: LogOffset;
}

export interface BoundsHow {
  /** Partitions as they are now, not as this client last saw them: a topic may have got more. */
  readonly fresh?: boolean;
}

export interface LogReader {
  /** Records with from <= offset < to of one partition, committed ones only, in batches of at most `batchBytesMax`. */
  read(
    topic: string,
    partition: number,
    from: LogOffset,
    to: LogOffset,
    options?: {
      readonly batchBytesMax?: number;
      readonly signal?: AbortSignal;
      /** Blocks of rows come as such, in batches of their own; otherwise as the records that they stand for. */
      readonly rowBlocks?: boolean;
    },
  ): AsyncIterable<LogBatch>;
  /** Follows a partition from an offset for ever (until the signal), batches as they become durable. */
  follow(
    topic: string,
    partition: number,
    from: LogOffset,
    options: { readonly signal: AbortSignal; readonly batchBytesMax?: number },
  ): AsyncIterable<LogBatch>;
  bounds(topic: string, how?: BoundsHow): Promise<ReadonlyMap<number, PartitionBounds>>;
  /** Earliest offset whose timestamp is at or after `timestampMs`, a partition; the end where there is none. */
  offsetsAt(topic: string, timestampMs: number): Promise<ReadonlyMap<number, LogOffset>>;
  close(): Promise<void>;
}

export interface TopicSettings {
  readonly partitions: number;
  readonly replicationFactor: number;
  /** -1 = for ever. */
  readonly retentionMs: number;
  readonly compacted: boolean;
}

export interface LogAdmin {
  /** Identity that changes when the log is wiped or recreated (stored in the log itself). */
  logId(): Promise<string>;
  topics(): Promise<readonly string[]>;
  /**
   * Identity of each topic, which changes when it is deleted and made again under its name. Absent: there is no such topic.
   * Null: this log does not tell (brokers before 2.8).
   */
  topicIds(topics: readonly string[]): Promise<ReadonlyMap<string, string | null>>;
  /** Creates what is absent; never alters what exists, but for the retention of the embedded log, which is set nowhere else. */
  ensureTopics(topics: Readonly<Record<string, TopicSettings>>): Promise<void>;
  deleteTopics(topics: readonly string[]): Promise<void>;
  /** Embedded log: records below these offsets may go (retention never passes what the lake has committed). Kafka: no-op. */
  releaseUpTo(topic: string, offsets: ReadonlyMap<number, LogOffset>): Promise<void>;
  /** Mirror of committed offsets to a consumer group, for lag exporters only. Embedded log: no-op. */
  mirrorGroup(group: string, topic: string, offsets: ReadonlyMap<number, LogOffset>): Promise<void>;
  close(): Promise<void>;
}

/** A log as a whole, as main.ts builds it. `writer` fences every older writer of the same identity before it resolves. */
export interface EventLog {
  readonly reader: LogReader;
  readonly admin: LogAdmin;
  writer(identity: string): Promise<LogWriter>;
  /** Membership among the processes that share the log; null where the log is one process's own (membership.ts). */
  readonly join?: JoinGroup | null;
  close(): Promise<void>;
}

export type LogErrorCode =
  | 'LOG_UNAVAILABLE'
  | 'LOG_FENCED'
  | 'LOG_AUTHENTICATION'
  | 'LOG_ACCESS_DENIED'
  | 'LOG_TOPIC_MISSING'
  | 'LOG_TOPIC_REFUSED'
  | 'LOG_OFFSET_OUT_OF_RANGE'
  | 'LOG_RECORD_TOO_LARGE'
  | 'LOG_DISK_FULL'
  | 'LOG_CORRUPT'
  | 'LOG_FORMAT_NEWER';

export class LogError extends Error {
  readonly code: LogErrorCode;
  readonly retriable: boolean;
  constructor(code: LogErrorCode, message: string, options?: { cause?: unknown; retriable?: boolean }) {
    super(message, options);
    this.name = 'LogError';
    this.code = code;
    this.retriable = options?.retriable ?? code === 'LOG_UNAVAILABLE';
  }
}
