/** Row messages of a bag to records: an update is the going of one row and the coming of another, in one place of the order. */
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import type { EventOp } from '../log/event.ts';
import type { Tuple } from '../log/tuple.ts';
import { bagKey, completeFromOld } from './bag-rows.ts';
import type { TransactionInWork } from './change-events.ts';
import type { DeleteMessage, InsertMessage, UpdateMessage } from './pgoutput/messages.ts';
import { ReaderError } from './reader-error.ts';
import type { TableRoute } from './table-route.ts';

export interface BagEventPorts {
  /** False for what the log has already. */
  readonly isNew: (work: TransactionInWork, ord: number) => boolean;
  readonly write: (
    work: TransactionInWork,
    route: TableRoute,
    change: { readonly op: EventOp; readonly ord: number; readonly after: Tuple | null; readonly before: Tuple | null },
    key: Buffer,
  ) => void;
}

export interface BagEvents {
  insert(work: TransactionInWork, route: TableRoute, shape: ShapeEncoder, ord: number, message: InsertMessage): void;
  update(work: TransactionInWork, route: TableRoute, shape: ShapeEncoder, ord: number, message: UpdateMessage): void;
  remove(work: TransactionInWork, route: TableRoute, shape: ShapeEncoder, ord: number, message: DeleteMessage): void;
}

export function createBagEvents({ isNew, write }: BagEventPorts): BagEvents {
  const come = (work: TransactionInWork, route: TableRoute, ord: number, after: Tuple, key: Buffer): void => {
    if (isNew(work, ord)) write(work, route, { op: 'c', ord, after, before: null }, key);
  };
  const go = (work: TransactionInWork, route: TableRoute, ord: number, before: Tuple, key: Buffer): void => {
    if (!isNew(work, ord)) return;
    if (route.bag === null) write(work, route, { op: 'd', ord, after: null, before }, key);
    else route.bag.defer(key);
  };
  const loaded = (work: TransactionInWork, route: TableRoute): boolean => route.bag?.sees(work.xid) === true;
  return {
    insert(work, route, shape, ord, { after }) {
      if (!loaded(work, route)) come(work, route, ord, after, bagKey(shape, after));
    },
    update(work, route, shape, ord, { after, before, beforeKind }) {
      if (loaded(work, route)) return;
      if (beforeKind !== 'row') throw withoutOldRow(route);
      completeFromOld(shape, after, before);
      const from = bagKey(shape, before);
      const to = bagKey(shape, after);
      if (from.equals(to)) {
        if (isNew(work, ord)) write(work, route, { op: 'u', ord, after, before }, to);
        return;
      }
      go(work, route, ord, before, from);
      come(work, route, ord + 1, after, to);
    },
    remove(work, route, shape, ord, { before, beforeKind }) {
      if (loaded(work, route)) return;
      if (beforeKind !== 'row') throw withoutOldRow(route);
      go(work, route, ord, before, bagKey(shape, before));
    },
  };
}

function withoutOldRow({ schema, table }: TableRoute): ReaderError {
  return new ReaderError(
    'TABLE_NO_KEY',
    `a change of ${schema}.${table} came without its old row, and the table has no key`,
    { remedy: `ALTER TABLE "${schema}"."${table}" REPLICA IDENTITY FULL; then sluice repair ${schema}.${table}` },
  );
}
