/**
 * Loads a bag (bag-rows.ts). Its rows have no key by which a chunk could leave out what the stream brought meanwhile, so all of
 * them come from one snapshot:
 *   1. `clear` mark: what the lake has of the table goes. The stream stands still at the mark while the snapshot is taken, a few
 *      milliseconds: it must see every transaction that the log has; whatever commits later comes behind the mark.
 *   2. the rows, by one cursor, each portion written when the stream reaches a mark of its own.
 *   3. the deletes that waited (bag-load.ts), and the table streams.
 * The snapshot ends with its session: after a kill the load begins anew, with the clear mark.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { rowEventAt, type MutableRowEvent, type RowEvent } from '../log/row-event.ts';
import { CellKind } from '../log/tuple.ts';
import { bagKey } from './bag-rows.ts';
import { createBagLoad, type BagLoad } from './bag-load.ts';
import { firstFetch, nextFetch } from './fetch-rows.ts';
import { addRecord } from './outgoing-batch.ts';
import { ReaderError } from './reader-error.ts';
import { clearTable, type ClearPorts, type MarkPlace } from './snapshot-clear.ts';
import { ownRows, type TablePlan } from './snapshot-plan.ts';
import { workAtMark } from './mark-work.ts';
import { beginChunk, createChunkTuple, fillTuple, relfilenodeOf } from './snapshot-read.ts';
import type { PostgresSource, SourceSession } from './source.ts';
import { quoteIdent } from './sql-text.ts';
import { takesEvents } from './table-route.ts';
import { isVisible, type UnseenTransactions, type VisibleSet } from './visibility.ts';

export interface BagPorts extends ClearPorts {
  readonly source: PostgresSource;
  readonly unseen: UnseenTransactions;
  readonly chunkRows: number;
  readonly chunkBytesMax: number;
  /** Rows whose deletes may wait for the end of the load. */
  readonly recordedEventsMax: number;
  readonly failpoint: (name: string) => Promise<void> | void;
}

type Outcome = 'ok' | 'again';

/** Deletes of one mark. */
const DELETES_PER_MARK = 20_000;
const SNAPSHOT_TRIES = 20;
const SNAPSHOT_WAIT_MS = 20;
const AGAIN_MS = 200;

/** Loads until it is done; false when the reader stopped, or the table was planned anew, in between. */
export async function loadWholeBag(
  ports: BagPorts,
  session: SourceSession,
  first: TablePlan,
  planAgain: () => Promise<TablePlan>,
): Promise<boolean> {
  for (let plan = first; ports.isCurrent(); plan = await planAgain()) {
    refuseHidden(plan);
    if ((await loadBag(ports, session, plan)) === 'done') return true;
  }
  return false;
}

/** `again`: it has to be planned and loaded anew. @throws ReaderError TABLE_NO_KEY when too many deletes came meanwhile */
async function loadBag(ports: BagPorts, session: SourceSession, plan: TablePlan): Promise<'done' | 'again'> {
  const { route } = plan;
  const marks = await ports.source.session('snapshot marks');
  let load: BagLoad | null = null;
  try {
    await marks.query('SET synchronous_commit = local');
    load = await begin(ports, session, marks, plan);
    if (load === null) return await later(ports);
    await session.query(`DECLARE bag NO SCROLL CURSOR FOR ${rowsSql(plan)}`);
    // Behind the DECLARE, which holds a lock: a heap that was rewritten since would show other rows than the snapshot's.
    for (const heap of plan.heaps)
      if ((await relfilenodeOf(session, heap.oid)) !== heap.relfilenode) return await later(ports);
    const fetched = { rows: 0, bytes: 0, widest: 0 };
    for (let more = true; more;) {
      const rows = await fetchRows(ports, session, fetched);
      more = rows.more;
      await ports.failpoint('during-snapshot-chunk');
      if ((await writeRows(ports, marks, plan, load, rows)) === 'again') return await later(ports);
    }
    for (let rest = true; rest;) {
      const written = await writeDeletes(ports, marks, plan, load);
      if (written === 'again') return await later(ports);
      rest = written === 'more';
    }
    return 'done';
  } finally {
    if (route.bag === load) route.bag = null;
    await session.query('ROLLBACK').catch(() => undefined);
    await marks.close();
  }
}

async function later(ports: BagPorts): Promise<'again'> {
  if (ports.isCurrent()) await sleep(AGAIN_MS);
  return 'again';
}

/** The snapshot, taken while the stream stands at the clear mark. Null when it does not see all that the log has. */
async function begin(
  ports: BagPorts,
  session: SourceSession,
  marks: SourceSession,
  plan: TablePlan,
): Promise<BagLoad | null> {
  const { route } = plan;
  const none: BagLoad | null = null;
  return clearTable<BagLoad | null>(
    ports,
    marks,
    plan,
    {
      async ready() {
        const taken = await snapshotOfAll(ports, session).catch(() => null);
        return taken === null || !takesEvents(route.state) ? null : createBagLoad(taken, ports.recordedEventsMax);
      },
      cleared(load) {
        route.bag = load;
        route.state = { ...route.state, rows: 0 };
      },
    },
    none,
  );
}

/** A commit is in the WAL before others see it: for a moment, or until a synchronous standby has answered (case 48). */
async function snapshotOfAll(ports: BagPorts, session: SourceSession): Promise<VisibleSet | null> {
  for (let tries = 0; tries < SNAPSHOT_TRIES && ports.isCurrent(); tries++) {
    // As known before the server takes the snapshot: another session may be told of a newer one first.
    const appended = [...ports.unseen.xids];
    const snapshot = await beginChunk(session);
    if (appended.every((xid) => isVisible(xid, snapshot))) return snapshot;
    await session.query('ROLLBACK');
    await sleep(SNAPSHOT_WAIT_MS);
  }
  return null;
}

function rowsSql(plan: TablePlan): string {
  const { shape, rowFilter } = plan;
  const columns = shape.shape.columns.map(({ name }) => quoteIdent(name)).join(', ');
  const where = rowFilter === null ? '' : ` WHERE (${rowFilter})`;
  return `SELECT '(0,0)'${columns === '' ? '' : `, ${columns}`} FROM ${ownRows(plan)}${where}`;
}

interface BagRows {
  readonly buffers: readonly Buffer[];
  readonly starts: readonly number[];
  readonly more: boolean;
}

/** @param seen of the whole load so far; what is fetched here is added */
async function fetchRows(
  ports: BagPorts,
  session: SourceSession,
  seen: { rows: number; bytes: number; widest: number },
): Promise<BagRows> {
  const buffers: Buffer[] = [];
  const starts: number[] = [];
  let bytes = 0;
  for (;;) {
    const wanted =
      seen.rows === 0 ? firstFetch(null, ports.chunkBytesMax) : nextFetch(seen, ports.chunkBytesMax, bytes);
    const fetched = await session.rows(`FETCH ${wanted} FROM bag`, (buffer, start, end) => {
      const length = end - start;
      buffers.push(buffer);
      starts.push(start);
      bytes += length;
      seen.rows++;
      seen.bytes += length;
      seen.widest = Math.max(seen.widest, length);
    });
    if (fetched < wanted) return { buffers, starts, more: false };
    if (buffers.length >= ports.chunkRows || bytes >= ports.chunkBytesMax) return { buffers, starts, more: true };
  }
}

/** Writes at a mark's place, unless the load has become void by then. */
async function atMark<T extends string>(
  ports: BagPorts,
  marks: SourceSession,
  plan: TablePlan,
  load: BagLoad,
  write: (at: MarkPlace) => { readonly outcome: T; readonly lastOrd: number },
): Promise<T | 'again'> {
  const { route } = plan;
  const isValid = (): boolean =>
    ports.isCurrent() && route.bag === load && load.broken === null && takesEvents(route.state);
  return ports.emit<T | 'again'>(marks, 'high', (at, settle) =>
    workAtMark({ rows: 0, isValid, otherwise: 'again', write: () => write(at) }, settle, ports.waiting),
  );
}

function eventAt(ports: BagPorts, op: 'r' | 'd', { lsn, committedAtMicros }: MarkPlace): MutableRowEvent {
  const event = rowEventAt(op, { epoch: ports.epoch, lsn, committedAtMicros, atMs: ports.clock() });
  event.beforeIs = 'row';
  return event;
}

async function writeRows(
  ports: BagPorts,
  marks: SourceSession,
  plan: TablePlan,
  load: BagLoad,
  rows: BagRows,
): Promise<Outcome> {
  const { route, shape } = plan;
  const columns = shape.columns.length;
  const done = await atMark<'ok'>(ports, marks, plan, load, (at) => {
    const tuple = createChunkTuple(columns);
    const event = eventAt(ports, 'r', at);
    let ord = 0;
    for (let i = 0; i < rows.buffers.length; i++) {
      fillTuple(tuple, rows.buffers[i] as Buffer, rows.starts[i] as number, columns);
      const key = bagKey(shape, tuple);
      if (load.absorb(key)) continue;
      event.after = tuple;
      event.ord = ord;
      addBagRecord(ports, plan, event, key);
      ord += 2;
    }
    const written = ord / 2;
    route.snapshotRows += BigInt(written);
    route.state = { ...route.state, rows: route.state.rows + written };
    return { outcome: 'ok', lastOrd: Math.max(0, ord - 2) };
  });
  refuseOverflow(plan, load);
  return done;
}

function addBagRecord(ports: BagPorts, { route, shape }: TablePlan, event: RowEvent, key: Buffer): void {
  const { epoch, lsn, ord } = event;
  const encoded = { ...ports.encoder.encode(shape, event), key };
  addRecord(ports.appender.batch, encoded, { topic: route.topic, partition: null, epoch, lsn, ord }, ports.claims);
}

/** Some of the deletes that waited; with the last of them the table streams, in the same log transaction. */
async function writeDeletes(
  ports: BagPorts,
  marks: SourceSession,
  plan: TablePlan,
  load: BagLoad,
): Promise<'last' | 'more' | 'again'> {
  const { route, shape } = plan;
  const done = await atMark<'last' | 'more'>(ports, marks, plan, load, (at) => {
    const event = eventAt(ports, 'd', at);
    // The row is in the record's key; of its columns nothing was kept.
    const nothing = createChunkTuple(shape.columns.length);
    nothing.kinds.fill(CellKind.unchanged);
    event.before = nothing;
    let ord = 0;
    for (const key of load.take(DELETES_PER_MARK)) {
      event.ord = ord;
      addBagRecord(ports, plan, event, key);
      ord += 2;
    }
    const lastOrd = Math.max(0, ord - 2);
    if (load.waiting > 0) return { outcome: 'more', lastOrd };
    route.bag = null;
    route.state = { ...route.state, phase: 'streaming', heaps: [], waitForXid: null };
    ports.appender.noteTable(route.state);
    return { outcome: 'last', lastOrd };
  });
  refuseOverflow(plan, load);
  return done;
}

function refuseOverflow({ route }: TablePlan, load: BagLoad): void {
  if (load.broken !== 'too-many-deletes') return;
  throw new ReaderError(
    'TABLE_NO_KEY',
    `more rows of ${route.schema}.${route.table} were deleted while it was read than can be remembered, and it has no key to read it by parts`,
    { remedy: `sluice repair ${route.schema}.${route.table} at a quieter time, or add a primary key` },
  );
}

/** The hash of a row gives away what it was made of to whoever tries values. */
function refuseHidden({ route, shape }: TablePlan): void {
  const hidden = shape.shape.columns.filter(({ replaced }) => replaced !== undefined).map(({ name }) => name);
  if (hidden.length === 0) return;
  throw new ReaderError(
    'TABLE_NO_KEY',
    `${route.schema}.${route.table} has no key, so the log would hold hashes of its rows, and ${hidden.join(', ')} is kept out of the log`,
    { remedy: 'add a primary key, or set piiStage: before-lake' },
  );
}
