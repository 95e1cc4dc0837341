/** A row change as the encoder takes it: tuples and its place, nothing encoded yet. */
import type { EventOp } from './event.ts';
import type { Lsn } from './position.ts';
import type { Tuple } from './tuple.ts';

/** One change of one row. The reader may reuse one object: nothing of it is kept. */
export interface RowEvent {
  readonly op: EventOp;
  /** RecordFlags; `otherKey` is added by the encoder. */
  readonly flags: number;
  readonly epoch: number;
  readonly lsn: Lsn;
  readonly ord: number;
  readonly committedAtMicros: bigint;
  /** Source transaction id, unsigned 32-bit; 0 for snapshot rows. */
  readonly xid: number;
  /** Wall clock of the reader, ms since 1970. */
  readonly atMs: number;
  /** Null for delete and truncate. */
  readonly after: Tuple | null;
  /** Old key or old row as pgoutput sent it; null when it sent none. */
  readonly before: Tuple | null;
  /** What `before` is: pgoutput's `K` (key columns only) or `O` (the whole row, replica identity FULL). */
  readonly beforeIs: 'key' | 'row';
  /** On the two halves of a key change: a tuple whose key columns are the other half's key. */
  readonly otherKey: Tuple | null;
  /** Debezium's transaction block: place among all events of the transaction, and among those of this table, from 1. 0 = none. */
  readonly totalOrder: number;
  readonly collectionOrder: number;
}

/** A RowEvent that is filled anew for each row. */
export type MutableRowEvent = { -readonly [K in keyof RowEvent]: RowEvent[K] };

export interface RowEventPlace {
  readonly epoch: number;
  readonly lsn: Lsn;
  readonly committedAtMicros: bigint;
  readonly atMs: number;
}

/** An event at a place, without rows, of no source transaction, ordinal 0. */
export function rowEventAt(op: EventOp, { epoch, lsn, committedAtMicros, atMs }: RowEventPlace): MutableRowEvent {
  return {
    op,
    flags: 0,
    epoch,
    lsn,
    ord: 0,
    committedAtMicros,
    xid: 0,
    atMs,
    after: null,
    before: null,
    beforeIs: 'key',
    otherKey: null,
    totalOrder: 0,
    collectionOrder: 0,
  };
}
