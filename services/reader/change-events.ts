/**
 * Row messages of one transaction after the other to records. The ordinal counts every row change, before any filter of
 * ours: 2n for the whole change or the delete half of a key change, 2n+1 for its insert half (DESIGN section 4).
 * What is already in the log (at or below the resumed position) is counted and not written again.
 */
import type { createEnvelopeEncoder, ShapeEncoder } from '../log/envelope-encode.ts';
import { rowEventAt } from '../log/row-event.ts';
import type { EventOp } from '../log/event.ts';
import type { Lsn } from '../log/position.ts';
import { CellKind, type Tuple } from '../log/tuple.ts';
import { createBagEvents } from './bag-events.ts';
import { isBag } from './bag-rows.ts';
import { addRecord, type ClaimStore, type OutgoingBatch } from './outgoing-batch.ts';
import type {
  BeginMessage,
  DeleteMessage,
  InsertMessage,
  TruncateMessage,
  UpdateMessage,
} from './pgoutput/messages.ts';
import type { RelationMessage } from './pgoutput/messages.ts';
import { ReaderError } from './reader-error.ts';
import { POSTGRES_EPOCH_MICROS } from './replication-stream.ts';
import { takesEvents, type TableRoute } from './table-route.ts';

/** `_sluice_ord` is a 32-bit integer in the lake. */
const ORD_MAX = 0x7fff_fffe;

export interface TransactionInWork {
  readonly xid: number;
  readonly lsn: Lsn;
  readonly committedAtMicros: bigint;
  /** Row changes so far. */
  changes: number;
  /** Events written so far, for Debezium's total_order. */
  written: number;
  /** Rises with every transaction of this process. */
  readonly serial: number;
}

export interface ChangeEvents {
  begin(message: BeginMessage): TransactionInWork;
  readonly transaction: TransactionInWork | null;
  end(): void;
  /** Null route = the table is published and not ours: counted, not written. */
  insert(message: InsertMessage, route: TableRoute | null): void;
  update(message: UpdateMessage, route: TableRoute | null): void;
  remove(message: DeleteMessage, route: TableRoute | null): void;
  truncate(message: TruncateMessage, routeOf: (relation: RelationMessage) => TableRoute | null): void;
  /** Ordinal of the last row change that was counted; -1 before the first. */
  lastOrd(): number;
}

export interface ChangeEventsOptions {
  readonly epoch: number;
  readonly encoder: ReturnType<typeof createEnvelopeEncoder>;
  readonly claims: ClaimStore;
  /** Where records go now; changes with every flush. */
  readonly batch: () => OutgoingBatch;
  readonly now: () => number;
  /** Last position in the log at start: events at or below are skipped. */
  readonly resume: { readonly lsn: Lsn; readonly ord: number };
}

export function createChangeEvents(options: ChangeEventsOptions): ChangeEvents {
  const { epoch, encoder, claims, resume } = options;
  let transaction: TransactionInWork | null = null;
  let serial = 0;
  /** Filled anew for each change: place and rows below are the first one's. */
  const event = rowEventAt('c', { epoch, lsn: 0n as Lsn, committedAtMicros: 0n, atMs: 0 });

  const inWork = (): TransactionInWork => {
    if (transaction === null) throw new ReaderError('PGOUTPUT_INVALID', 'a row change outside of a transaction');
    return transaction;
  };
  const nextOrd = (work: TransactionInWork): number => {
    const ord = work.changes * 2;
    work.changes++;
    if (ord > ORD_MAX) {
      throw new ReaderError('TRANSACTION_TOO_LARGE', 'a transaction has more than 1,073,741,823 row changes');
    }
    return ord;
  };
  const isNew = (work: TransactionInWork, ord: number): boolean =>
    work.lsn > resume.lsn || (work.lsn === resume.lsn && ord > resume.ord);

  /** Fills the reused event's place; the rows are set by the caller. */
  const place = (work: TransactionInWork, route: TableRoute, op: EventOp, ord: number): void => {
    if (route.collectionTransaction !== work.serial) {
      route.collectionTransaction = work.serial;
      route.collectionOrder = 0;
    }
    work.written++;
    route.collectionOrder++;
    event.op = op;
    event.lsn = work.lsn;
    event.ord = ord;
    event.committedAtMicros = work.committedAtMicros;
    event.xid = work.xid;
    event.atMs = options.now();
    event.totalOrder = work.written;
    event.collectionOrder = route.collectionOrder;
  };
  const write = (route: TableRoute, partition: number | null): Buffer | null => {
    const encoded = encoder.encode(encoderOf(route), event);
    const { lsn, ord } = event;
    addRecord(options.batch(), encoded, { topic: route.topic, partition, epoch, lsn, ord }, claims);
    route.events++;
    return encoded.key;
  };
  const rows = (after: Tuple | null, before: Tuple | null, beforeIs: 'key' | 'row', otherKey: Tuple | null): void => {
    event.after = after;
    event.before = before;
    event.beforeIs = beforeIs;
    event.otherKey = otherKey;
  };

  const bags = createBagEvents({
    isNew,
    write(work, route, { op, ord, after, before }, key) {
      place(work, route, op, ord);
      rows(after, before, 'row', null);
      const encoded = { ...encoder.encode(encoderOf(route), event), key };
      addRecord(options.batch(), encoded, { topic: route.topic, partition: null, epoch, lsn: work.lsn, ord }, claims);
      route.events++;
    },
  });

  const wanted = (route: TableRoute | null): route is TableRoute => route !== null && takesEvents(route.state);

  return {
    get transaction() {
      return transaction;
    },
    begin(message) {
      if (transaction !== null) throw new ReaderError('PGOUTPUT_INVALID', 'a transaction begins inside another');
      serial++;
      transaction = {
        xid: message.xid,
        lsn: message.finalLsn as Lsn,
        committedAtMicros: message.commitTime + POSTGRES_EPOCH_MICROS,
        changes: 0,
        written: 0,
        serial,
      };
      return transaction;
    },
    end() {
      transaction = null;
    },
    lastOrd: () => (transaction === null ? -1 : transaction.changes * 2 - 1),
    insert(message, route) {
      const work = inWork();
      const ord = nextOrd(work);
      if (!wanted(route) || !isNew(work, ord)) return;
      if (isBag(encoderOf(route))) {
        bags.insert(work, route, encoderOf(route), ord, message);
        return;
      }
      place(work, route, 'c', ord);
      rows(message.after, null, 'key', null);
      const key = write(route, null);
      if (route.recorder !== null && key !== null) {
        route.recorder.write(work.xid, key.toString('latin1'), unchangedColumns(encoderOf(route), message.after));
      }
    },
    update(message, route) {
      const work = inWork();
      const ord = nextOrd(work);
      if (!wanted(route)) return;
      const shape = encoderOf(route);
      if (isBag(shape)) {
        bags.update(work, route, shape, ord, message);
        return;
      }
      const before = message.beforeKind === 'none' ? null : message.before;
      const beforeIs = message.beforeKind === 'row' ? 'row' : 'key';
      if (before !== null) completeKey(shape, before, message.after);
      if (before !== null && keyChanged(shape, before, message.after)) {
        keyChange(work, route, ord, message.after, before, beforeIs);
        return;
      }
      if (!isNew(work, ord)) return;
      place(work, route, 'u', ord);
      rows(message.after, before, beforeIs, null);
      const key = write(route, null);
      if (route.recorder !== null && key !== null) {
        const unchanged = beforeIs === 'row' && before !== null ? [] : unchangedColumns(shape, message.after);
        route.recorder.write(work.xid, key.toString('latin1'), unchanged);
      }
    },
    remove(message, route) {
      const work = inWork();
      const ord = nextOrd(work);
      if (!wanted(route) || !isNew(work, ord)) return;
      if (isBag(encoderOf(route))) {
        bags.remove(work, route, encoderOf(route), ord, message);
        return;
      }
      place(work, route, 'd', ord);
      rows(null, message.before, message.beforeKind, null);
      const key = write(route, null);
      if (route.recorder !== null && key !== null) route.recorder.remove(work.xid, key.toString('latin1'));
    },
    truncate(message, routeOf) {
      const work = inWork();
      for (const relation of message.relations) {
        const ord = nextOrd(work);
        const route = routeOf(relation);
        if (!wanted(route) || !isNew(work, ord)) continue;
        // The snapshot's rows came after it.
        if (route.bag?.sees(work.xid) === true) continue;
        route.truncates++;
        route.bag?.truncated();
        place(work, route, 't', ord);
        rows(null, null, 'key', null);
        // An ordered barrier: every partition must see it behind its older and before its newer events.
        for (let partition = 0; partition < route.partitions; partition++) write(route, partition);
        route.recorder?.truncate(work.xid);
      }
    },
  };

  /** A delete and an insert in one place of the order; each names the other's key, so that unchanged TOAST travels. */
  function keyChange(
    work: TransactionInWork,
    route: TableRoute,
    ord: number,
    after: Tuple,
    before: Tuple,
    beforeIs: 'key' | 'row',
  ): void {
    let oldKey: Buffer | null = null;
    if (isNew(work, ord)) {
      place(work, route, 'd', ord);
      rows(null, before, beforeIs, after);
      oldKey = write(route, null);
    }
    if (!isNew(work, ord + 1)) return;
    place(work, route, 'c', ord + 1);
    rows(after, before, beforeIs, before);
    const newKey = write(route, null);
    if (route.recorder === null || oldKey === null || newKey === null) return;
    const shape = encoderOf(route);
    const unchanged = beforeIs === 'row' ? [] : unchangedColumns(shape, after);
    const from = oldKey.toString('latin1');
    route.recorder.move(work.xid, from, newKey.toString('latin1'), unchanged, keyCells(shape, after));
  }
}

function encoderOf(route: TableRoute): ShapeEncoder {
  if (route.encoder !== null) return route.encoder;
  throw new ReaderError('PGOUTPUT_INVALID', `a row of ${route.schema}.${route.table} before its RELATION`);
}

const NO_COLUMNS: readonly number[] = [];

function unchangedColumns(shape: ShapeEncoder, tuple: Tuple): readonly number[] {
  let found: number[] | null = null;
  for (let i = 0; i < shape.columns.length; i++) {
    if (tuple.kinds[i] === CellKind.unchanged && shape.isKey[i] !== 1) (found ??= []).push(i);
  }
  return found ?? NO_COLUMNS;
}

/** A long key column can come as unchanged TOAST; pgoutput then sends the old key too, in the same message. */
function completeKey(shape: ShapeEncoder, before: Tuple, after: Tuple): void {
  for (const index of shape.keyColumns) {
    if (after.kinds[index] !== CellKind.unchanged || before.bytes !== after.bytes) continue;
    after.kinds[index] = before.kinds[index] as number;
    after.starts[index] = before.starts[index] as number;
    after.ends[index] = before.ends[index] as number;
  }
}

/** The old key alone is no sign of a change (see completeKey): the values decide. */
export function keyChanged(shape: ShapeEncoder, before: Tuple, after: Tuple): boolean {
  for (const index of shape.keyColumns) {
    const kind = after.kinds[index];
    if (kind !== before.kinds[index]) return true;
    if (kind !== CellKind.text) continue;
    const from = before.starts[index] as number;
    const to = before.ends[index] as number;
    if (before.bytes.compare(after.bytes, after.starts[index], after.ends[index], from, to) !== 0) return true;
  }
  return false;
}

/** Copied: the message's chunk of the socket must not be kept for it. */
function keyCells(shape: ShapeEncoder, after: Tuple): readonly Buffer[] {
  return shape.keyColumns.map((index) => Buffer.from(after.bytes.subarray(after.starts[index], after.ends[index])));
}
