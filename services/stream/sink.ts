/**
 * PORT BatchSink: what every micro-batch goes to, Structured Streaming's foreachBatch. The merge sink, the files, console
 * and Kafka sinks and users' own functions are all written on it.
 *
 * The engine is at-least-once: after a crash the same batch id comes again with the same rows (same offsets, contract and
 * clock), so a sink makes itself exactly-once by remembering the last `queryId` + batch id together with its own write.
 */
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import type { LogOffset } from '../log/position.ts';

/** What happened to the row. Snapshot rows and fills come as `read`. */
export type RowOp = 'insert' | 'update' | 'delete' | 'read';
/** RowOp as stored in `StreamBatch.ops`. */
export const ROW_OPS = ['insert', 'update', 'delete', 'read'] as const satisfies readonly RowOp[];

/** A typed cell: int64 as bigint, decimals, dates and timestamps as exact text, binary as bytes. */
export type RowValue = null | boolean | number | bigint | string | Uint8Array | readonly RowValue[];

export interface StreamRow {
  readonly op: RowOp;
  /** Source position; only it orders rows. */
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
  /** By column name. A column that the event did not carry (unchanged TOAST) is not there: absent is not NULL. */
  readonly values: Readonly<Record<string, RowValue>>;
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}

/** Offsets from <= o < to of one partition. */
export interface OffsetRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: LogOffset;
  readonly to: LogOffset;
}

/** A place in the source's order. */
export interface RowPlace {
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
}

export function isBefore(a: RowPlace, b: RowPlace): boolean {
  if (a.epoch !== b.epoch) return a.epoch < b.epoch;
  if (a.lsn !== b.lsn) return a.lsn < b.lsn;
  return a.ord < b.ord;
}

export interface StreamBatch {
  /** Identity of the query's checkpoint; batch ids mean nothing without it. */
  readonly queryId: string;
  readonly queryName: string;
  readonly schemaName: string;
  readonly tableName: string;
  readonly ranges: readonly OffsetRange[];
  /** The batch's written-down clock, ms since 1970; the same on a re-run. */
  readonly timestampMs: number;
  readonly rowCount: number;
  readonly schema: StructType;
  readonly keyColumns: readonly string[];
  /** One column a schema field. Rows stand in log order: in each key's commit order. */
  readonly columns: readonly ColumnVector[];
  /** Per column: bit set = not carried by the event; null when every row carries it. */
  readonly absent: readonly (Uint8Array | null)[];
  /** Index into ROW_OPS, a row each. */
  readonly ops: Uint8Array;
  readonly epochs: Int32Array;
  readonly lsns: BigUint64Array;
  readonly ords: Int32Array;
  /** Newest TRUNCATE of the batch: whatever is older than it, in the sink and in the batch, goes. Null = none. */
  readonly truncate: RowPlace | null;
  /** Rows as objects, made one at a time: for sinks that are not columnar. */
  rows(): Iterable<StreamRow>;
}

/** Resolves when the batch is durable. Throwing stops the query; the batch comes again. */
export type BatchSink<B extends StreamBatch = StreamBatch> = (batch: B, batchId: bigint) => Promise<void>;
