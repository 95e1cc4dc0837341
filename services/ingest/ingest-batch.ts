/** The ingest query's batch: a StreamBatch with what the merge sink needs beyond rows. */
import type { Violation } from '../../contracts/engine/gate.ts';
import type { Mark } from '../log/event.ts';
import type { StreamBatch } from '../stream/sink.ts';
import type { KeyCell } from './key-cell.ts';
import type { TablePlan } from './table-plan.ts';

/** A log record as it was read. */
export interface RawRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly header: Buffer | null;
}

/** Why an event is parked when no rule of the contract says so. Stands in for a violation's rule id. */
export const PARK_RULES = {
  /** An absent column has no base row. */
  missingBase: 'base:missing',
  /** The base of an absent column is a parked event. */
  parkedBase: 'base:parked',
  /** The record is not JSON, no envelope, or has no key. */
  decode: 'decode',
} as const;

/** An event that does not go into the table, with everything needed to run it again. */
export interface ParkedEvent {
  readonly record: RawRecord;
  /** Debezium's letter; null when the record could not be decoded. */
  readonly op: string | null;
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
  readonly shapeVersion: number;
  readonly committedAtMicros: bigint;
  /** Null where even the key could not be read. */
  readonly key: KeyCell | null;
  /** Columns that the event did not carry. */
  readonly absentColumns: readonly string[];
  readonly violations: readonly Violation[];
}

/** A parked event whose key a newer complete event of this batch made right again. */
export interface HealedEvent {
  readonly id: string;
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
}

/** Counts of the decode step; the ledger adds those of fold and merge. */
export interface DecodeCounts {
  /** Records of the planned ranges. */
  read: number;
  /** Records that awaited a base in earlier batches and were taken up again. */
  carriedIn: number;
  /** Tombstones, truncates, logical messages. */
  noop: number;
  dropped: number;
  /** Rows written although a rule with action `warn` failed. */
  warned: number;
  /** Cells written as NULL because the contract says so of what the lake cannot hold. */
  nulled: number;
  bytes: number;
}

export interface IngestBatch extends StreamBatch {
  /** EventKind a row. */
  readonly kinds: Uint8Array;
  readonly keyIds: Int32Array;
  readonly keyCount: number;
  readonly otherKeyIds: Int32Array;
  /** Key by number. */
  readonly keys: readonly KeyCell[];
  /** Raw records of the rows that lack a column: the only ones that may have to wait or be parked after the merge's look. */
  readonly partialRecords: ReadonlyMap<number, RawRecord>;
  readonly shapeVersions: Int32Array;
  readonly committedAt: BigInt64Array;
  readonly parked: readonly ParkedEvent[];
  readonly healed: readonly HealedEvent[];
  readonly counts: Readonly<DecodeCounts>;
  /** Violations by rule id and action. */
  readonly violations: ReadonlyMap<string, number>;
  readonly contract: { readonly id: string; readonly version: string; readonly hash: string };
  readonly tablePlan: TablePlan;
  /** Where the batch ends; null on a topic without marks. */
  readonly mark: Mark | null;
  /** Called when the batch is committed: nobody reads its columns any more. */
  readonly release: () => void;
}
