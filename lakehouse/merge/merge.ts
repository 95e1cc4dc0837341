/**
 * The merge writer's language: one batch of folded rows (at most one row a key) goes into one table version.
 *
 * Two steps, because the rows that find no base must be parked (quarantine commits first) before the table commits:
 *   1. `prepare` resolves every key through the index and says what each row will do;
 *   2. `commit` writes data, deletion vectors, fences and change files, then the one log entry, by conditional put.
 * After a lost race `commit` re-resolves every key against the winner's files; a union of vectors is only the result.
 */
import type { ColumnVector } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';

/** What a folded row asks for. */
export const MergeOp = { upsert: 0, delete: 1 } as const;

/**
 * What becomes of deletes and replaced rows.
 * `merge`: the table holds one row a living key.
 * `soft-delete`: deleted rows stay, with `_sluice_deleted` true; they are their own fences.
 * `append`: every event becomes a row, nothing is looked up or replaced; `_sluice_deleted` marks deletes (a row with NULL
 * keys stands for a TRUNCATE), `_sluice_absent` names the columns that an event did not carry.
 */
export type MergeMode = 'merge' | 'soft-delete' | 'append';

/** Position of an event in the source's history; only it orders events. */
export interface RowPosition {
  readonly epoch: number;
  /** Unsigned 64-bit. */
  readonly lsn: bigint;
  readonly ord: number;
}

export interface MergeBatch {
  readonly rowCount: number;
  /** The table schema this batch is written with; fields beyond the table's current ones are added in the same commit. */
  readonly schema: StructType;
  /** One column a schema field, same order. Key columns are never NULL. On delete rows only key columns carry values. */
  readonly columns: readonly ColumnVector[];
  /** Key field names, in key order. */
  readonly keyColumns: readonly string[];
  /** MergeOp a row. */
  readonly ops: Uint8Array;
  /**
   * Per column: a bitmap (bit set = the event did not carry this column, keep the base row's value), or null when every
   * row carries it. Absent is not NULL.
   */
  readonly absent: readonly (Uint8Array | null)[];
  /**
   * Row of this batch whose key's row in the *table* gives this row's absent columns: the old key of a key change. -1 = its
   * own key's. Absent: all their own.
   */
  readonly baseRow?: Int32Array;
  /** Positions, a row each; they are also what `_sluice_epoch`, `_sluice_lsn` and `_sluice_ord` hold. */
  readonly epoch: Int32Array;
  readonly lsn: BigUint64Array;
  readonly ord: Int32Array;
  /** `hashKeys` (lakehouse/index/key-hash.ts) of the key columns, where the caller has them already. */
  readonly keyHashes?: Uint32Array;
  /** Rows of the table older than this position go, before the batch's rows apply. */
  readonly truncate: RowPosition | null;
}

/** What a prepared row came to. */
export const RowOutcome = {
  insert: 0,
  update: 1,
  delete: 2,
  /** A row or fence of the table is newer (or the same event again). */
  stale: 3,
  /** Delete of an absent key. */
  noop: 4,
  /** An absent column has no base row: not written; the caller parks it (or waits, while a snapshot runs). */
  missingBase: 5,
} as const;

export interface PreparedMerge {
  readonly batch: MergeBatch;
  /** RowOutcome a row. */
  readonly outcomes: Uint8Array;
  /** Version of the table that the outcomes were resolved against. */
  readonly tableVersion: bigint;
}

export interface MergeCommit {
  /** `txn` actions of this commit: batch id, offsets, resolved LSN. Versions below 2^53. */
  readonly txns: readonly { readonly appId: string; readonly version: bigint }[];
  /**
   * Asked of every version that the commit would be built on: whether its transactions still leave this one its place. An
   * owner that was paused, and wakes after another took over, is stopped by it. @throws MERGE_TXN_CONFLICT when false
   */
  readonly follows?: (txnVersion: (appId: string) => bigint | null) => boolean;
  /** Goes into commitInfo.operationParameters and tags; text values only, no row data. */
  readonly info: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch, from the batch's written-down clock, so that a re-run gives the same rows. */
  readonly timestampMs: number;
}

export interface MergeResult {
  /** Null when nothing was to do and no commit was made. */
  readonly version: bigint | null;
  readonly outcomes: Uint8Array;
  readonly rows: Readonly<Record<keyof typeof RowOutcome, number>> & { readonly truncated: number };
  readonly bytesWritten: number;
  readonly filesAdded: number;
  readonly filesRemoved: number;
  readonly vectorsWritten: number;
  /** Commit attempts that lost a race before this one won. */
  readonly conflicts: number;
}

/** PORT: a table that takes merges. One owner a table; see lakehouse/merge/merge-writer.ts for the adapter. */
export interface MergeTable {
  prepare(batch: MergeBatch): Promise<PreparedMerge>;
  commit(prepared: PreparedMerge, commit: MergeCommit): Promise<MergeResult>;
  /** Version of the newest `txn` with this appId, or null. */
  txnVersion(appId: string): Promise<bigint | null>;
  close(): Promise<void>;
}
