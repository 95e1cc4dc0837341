/**
 * One mechanism for the first load, a new table, a backfill, a re-snapshot and the fetch of single keys (DESIGN section 4).
 *
 * A chunk, while streaming goes on:
 *   1. low mark: pg_logical_emit_message; wait until the stream has brought it, so that the window that must be remembered
 *      is short. The table's key recorder has been open since before.
 *   2. a REPEATABLE READ transaction: its snapshot, then the rows. If a transaction that was appended before the recorder
 *      opened is not visible in it (committed in the WAL, not yet to others: case 48), the chunk is read again.
 *   3. high mark. When the stream brings it, everything that the snapshot sees is in the log; the rows go there now, without
 *      the keys that invisible transactions touched (fill rows for those), and the chunk is done: one log transaction.
 * A kill at any point costs the chunks in hand. A heap that was rewritten between two chunks restarts its table.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { createEnvelopeEncoder, ShapeEncoder } from '../log/envelope-encode.ts';
import type { Lsn } from '../log/position.ts';
import { isBag } from './bag-rows.ts';
import { createKeyRecorder } from './key-recorder.ts';
import type { LogAppender } from './log-appender.ts';
import { MESSAGE_PREFIX, type WatermarkWork } from './message-pump.ts';
import type { ClaimStore } from './outgoing-batch.ts';
import { createShapeRetries } from './shape-retries.ts';
import { ReaderError } from './reader-error.ts';
import type { TidRange } from './reader-state.ts';
import { workAtMark } from './mark-work.ts';
import { loadWholeBag } from './snapshot-bag.ts';
import { snapshotsInUse, type RunningChunk } from './running-chunks.ts';
import { clearTable } from './snapshot-clear.ts';
import { emitChunk } from './snapshot-emit.ts';
import {
  nextChunk,
  chunkDone,
  fetchTask,
  rangeTask,
  type FetchWanted,
  restartPlan,
  stoppedBefore,
  type ChunkTask,
  type TablePlan,
} from './snapshot-plan.ts';
import { beginChunk, readChunk, type ChunkRows } from './snapshot-read.ts';
import type { PostgresSource, SourceSession } from './source.ts';
import { quoteLiteral } from './sql-text.ts';
import type { TableRoute } from './table-route.ts';
import { waitForXid } from './wait-for-xid.ts';
import { isVisible, type UnseenTransactions, type VisibleSet } from './visibility.ts';

export interface SnapshotPorts {
  readonly source: PostgresSource;
  readonly appender: LogAppender;
  readonly unseen: UnseenTransactions;
  readonly encoder: ReturnType<typeof createEnvelopeEncoder>;
  readonly claims: ClaimStore;
  readonly epoch: number;
  readonly clock: () => number;
  /** Differs in every run, so that another run's watermarks in the WAL mean nothing. */
  readonly runId: string;
  readonly parallel: number;
  readonly chunkRows: number;
  readonly chunkBytesMax: number;
  readonly recordedEventsMax: number;
  readonly failpoint: (name: string) => Promise<void> | void;
  /** Plans a table anew from the catalog: heaps, blocks, shape, row filter. */
  readonly plan: (session: SourceSession, route: TableRoute, fresh: boolean) => Promise<TablePlan>;
  /** The shape with what is replaced of it now: a contract may have changed since the rows were read. */
  readonly present: (shape: ShapeEncoder) => ShapeEncoder;
  /** The table cannot go on; the others do. */
  readonly failed: (route: TableRoute, error: ReaderError) => void;
  readonly finished: (route: TableRoute) => void;
}

export interface SnapshotRunner {
  /** Takes up the table's snapshot where its state left it. */
  begin(route: TableRoute): void;
  cancel(route: TableRoute): void;
  /** Holds the table's snapshot between two chunks, or sets it going again. */
  hold(route: TableRoute, hold: boolean): void;
  /** Reads the rows that `condition` selects (SQL over the table's columns), whole or some columns, as a chunk of their own; resolves with their number when they are in the log. */
  fetch(route: TableRoute, wanted: Partial<FetchWanted> & Pick<FetchWanted, 'condition'>): Promise<number>;
  watermark(content: string, at: { readonly lsn: Lsn; readonly committedAtMicros: bigint }): WatermarkWork;
  /** A snapshot of just now: forgets what every chunk sees. */
  seen(snapshot: VisibleSet): void;
  readonly active: boolean;
  /** Rejects when a worker ends for a reason that is no table's own. */
  readonly broken: Promise<never>;
  stop(): Promise<void>;
}

interface Fetch extends FetchWanted {
  readonly route: TableRoute;
  readonly settle: (rows: number, error: unknown) => void;
}

type Arrival = (at: { readonly lsn: Lsn; readonly committedAtMicros: bigint }) => WatermarkWork;

const RETRY_MS = 50;
const RETRY_MS_MAX = 2_000;

export function createSnapshotRunner(ports: SnapshotPorts): SnapshotRunner {
  const plans = new Map<TableRoute, TablePlan>();
  /** Tables to be planned; the object marks who does it now. */
  const planning = new Map<TableRoute, object | null>();
  const fetches: Fetch[] = [];
  /** Taken from `fetches`, and not done. */
  const fetching = new Set<Fetch>();
  const held = new Set<TableRoute>();
  const shapeRetries = createShapeRetries();
  const arrivals = new Map<string, Arrival>();
  const running = new Set<RunningChunk>();
  /** Chunks whose high mark has come and whose rows are not written yet: the append before them may fail. */
  const unwritten = new Set<() => void>();
  const workers = new Set<Promise<void>>();
  /** Of the workers, those that will look for work again: one that found none may take a while to end its session. */
  let looking = 0;
  let stopped = false;
  let token = 0;
  let fail: (error: unknown) => void = () => undefined;
  const broken = new Promise<never>((_resolve, reject) => void (fail = reject));
  broken.catch(() => undefined);

  const openRecorder = (route: TableRoute): void => {
    route.recorder ??= createKeyRecorder(() => ports.unseen.xids, ports.recordedEventsMax);
  };
  /** Transactions whose keys were not recorded, and that a snapshot of now may not see. */
  const unrecorded = (route: TableRoute): readonly number[] =>
    [...(route.recorder?.unseenAtOpen ?? [])].filter((xid) => ports.unseen.xids.has(xid));
  const isFetched = (route: TableRoute): boolean => [...fetches, ...fetching].some((fetch) => fetch.route === route);
  const closeRecorder = (route: TableRoute): void => {
    if (!plans.has(route) && !planning.has(route) && !isFetched(route)) route.recorder = null;
  };

  /** Writes a watermark and resolves with what its arrival in the stream led to. */
  const emit = async <T>(
    session: SourceSession,
    kind: string,
    arrive: (at: Parameters<Arrival>[0], settle: (value: T) => void) => WatermarkWork,
  ): Promise<T> => {
    // Behind `stop` no watermark arrives any more.
    if (stopped) throw stoppedBefore();
    token++;
    const content = `${kind}:${ports.runId}:${token}`;
    const arrived = new Promise<T>((resolve) => {
      arrivals.set(content, (at) => arrive(at, resolve));
    });
    await session.query(
      `SELECT pg_logical_emit_message(true, ${quoteLiteral(MESSAGE_PREFIX)}, ${quoteLiteral(content)})`,
    );
    return arrived;
  };

  const readOnce = async (
    session: SourceSession,
    route: TableRoute,
    task: ChunkTask,
    chunk: RunningChunk,
  ): Promise<'done' | 'again' | 'restart'> => {
    const { recorder, shapeChanges } = route;
    const generation = recorder?.generation;
    const isValid = (): boolean =>
      !stopped &&
      task.isCurrent() &&
      recorder !== null &&
      route.recorder === recorder &&
      recorder.generation === generation &&
      (route.shapeChanges === shapeChanges || route.encoder?.shape.version === ports.present(task.shape).shape.version);
    await emit<null>(session, 'low', (_at, settle) => {
      settle(null);
      return null;
    });
    if (stopped) return 'again';
    // By what is known before the server takes the snapshot: another session may be told of a newer one first.
    const notRecorded = unrecorded(route);
    chunk.beginning = true;
    const snapshot = await beginChunk(session);
    chunk.snapshot = snapshot;
    chunk.beginning = false;
    if (notRecorded.some((xid) => !isVisible(xid, snapshot))) {
      await session.query('ROLLBACK');
      return 'again';
    }
    const rows = await readChunk(session, task.query, snapshot);
    await ports.failpoint('during-snapshot-chunk');
    if (task.query.only && rows.relfilenode !== task.relfilenode) return 'restart';
    // Another chunk's failure may give the table up, and with it the keys that changed.
    return emit<'done' | 'again'>(session, 'high', (at, settle) =>
      workAtMark<'done' | 'again'>(
        {
          rows: rows.rows.rows + rows.absent.rows,
          isValid,
          otherwise: 'again',
          write: () => ({ outcome: 'done', lastOrd: writeChunk(route, task, rows, at) }),
        },
        settle,
        unwritten,
      ),
    );
  };

  const writeChunk = (route: TableRoute, task: ChunkTask, rows: ChunkRows, at: Parameters<Arrival>[0]): number => {
    const emitted = emitChunk(rows, {
      encoder: ports.encoder,
      shape: ports.present(task.shape),
      topic: route.topic,
      epoch: ports.epoch,
      claims: ports.claims,
      batch: ports.appender.batch,
      at,
      atMs: ports.clock(),
      recorder: route.recorder,
      rowBlocks: ports.appender.rowBlocks && route.partitions === 1,
      ...(task.taken === undefined ? {} : { taken: task.taken }),
    });
    route.snapshotRows += BigInt(emitted.rows);
    task.written(emitted.rows + emitted.removed, rows.stoppedBehind);
    return emitted.lastOrd;
  };

  /** Reads a task until it is done. */
  const runTask = async (session: SourceSession, route: TableRoute, task: ChunkTask): Promise<'done' | 'restart'> => {
    for (let waitMs = RETRY_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MS_MAX)) {
      const chunk: RunningChunk = { snapshot: null, beginning: false };
      running.add(chunk);
      try {
        const result = await readOnce(session, route, task, chunk);
        if (result !== 'again') return result;
      } finally {
        running.delete(chunk);
      }
      if (stopped || !task.isCurrent()) return 'done';
      await sleep(waitMs);
    }
  };

  const chunkTask = (plan: TablePlan, heapIndex: number, range: TidRange): ChunkTask =>
    rangeTask(plan, heapIndex, range, {
      rowsMax: ports.chunkRows * 2,
      bytesMax: ports.chunkBytesMax,
      isCurrent: () => plans.get(plan.route) === plan,
      written(rows, stoppedBehind) {
        const complete = chunkDone(plan, heapIndex, range, rows, stoppedBehind);
        ports.appender.noteTable(plan.route.state);
        if (!complete) return;
        plans.delete(plan.route);
        closeRecorder(plan.route);
        ports.finished(plan.route);
      },
    });

  const planTable = async (session: SourceSession, route: TableRoute, fresh: boolean): Promise<void> => {
    const turn = planning.get(route);
    // False once it is to be planned again: what this look at the catalog found may be what was altered.
    const isCurrent = (): boolean => !stopped && planning.get(route) === turn;
    await waitForXid(session, route.state.waitForXid, () => !isCurrent());
    if (!isCurrent()) return;
    openRecorder(route);
    const plan = await ports.plan(session, route, fresh);
    if (!isCurrent()) return;
    if (isBag(plan.shape)) {
      await loadWhole(session, plan, isCurrent);
      return;
    }
    if (route.state.clearFirst === true) {
      const ours = { ...ports, emit, waiting: unwritten, isCurrent };
      if ((await clearTable(ours, session, plan, { cleared: () => undefined }, true)) === null) return;
    }
    planning.delete(route);
    plans.set(route, plan);
    ports.appender.noteTable(route.state);
    // Workers that found nothing to do while the plan was made have ended.
    ensureWorkers();
  };

  /** A table without key: all of it from one snapshot (snapshot-bag.ts). */
  const loadWhole = async (session: SourceSession, first: TablePlan, isCurrent: () => boolean): Promise<void> => {
    const { route } = first;
    route.recorder = null;
    const bag = { ...ports, emit, waiting: unwritten, isCurrent };
    if (!(await loadWholeBag(bag, session, first, async () => ports.plan(session, route, true)))) return;
    planning.delete(route);
    ports.finished(route);
  };

  /** One piece of work; false when there is none for now, and then the worker no longer counts. */
  const step = async (session: SourceSession): Promise<boolean> => {
    const fetch = fetches.shift();
    if (fetch !== undefined) {
      fetching.add(fetch);
      try {
        openRecorder(fetch.route);
        const plan = await ports.plan(session, fetch.route, false);
        const written: number[] = [];
        await runTask(
          session,
          fetch.route,
          fetchTask(plan, fetch, (rows) => written.push(rows)),
        );
        // Stopped in between: nothing of it is in the log.
        if (written.length === 0) throw stoppedBefore();
        await ports.appender.settled();
        fetch.settle(written[0] ?? 0, null);
      } catch (error) {
        fetch.settle(0, error);
        await session.query('ROLLBACK').catch(() => undefined);
      } finally {
        fetching.delete(fetch);
        closeRecorder(fetch.route);
      }
      return true;
    }
    for (const [route, busy] of planning) {
      if (busy !== null) continue;
      const turn = {};
      planning.set(route, turn);
      await guarded(
        session,
        route,
        () => planning.get(route) === turn,
        () => planTable(session, route, route.state.heaps.length === 0),
      );
      return true;
    }
    for (const [route, plan] of plans) {
      const chunk = held.has(route) ? null : nextChunk(plan);
      if (chunk === null) continue;
      const isCurrent = (): boolean => plans.get(route) === plan;
      await guarded(session, route, isCurrent, async () => {
        const done = await runTask(session, route, chunkTask(plan, chunk.heap, chunk.range));
        if (done === 'restart' && isCurrent()) restart(route);
      });
      return true;
    }
    // At once: whoever brings work from here on sets a new worker to it.
    looking--;
    return false;
  };

  /** Reads the table again whole, in the shape that it has now. */
  const restart = (route: TableRoute): void => {
    plans.delete(route);
    restartPlan(route, ports.clock());
    planning.set(route, null);
    ensureWorkers();
  };

  /** What fails of a plan that is no longer the table's says nothing of the table. */
  const guarded = async (
    session: SourceSession,
    route: TableRoute,
    isCurrent: () => boolean,
    work: () => Promise<void>,
  ): Promise<void> => {
    try {
      await work();
    } catch (error) {
      await session.query('ROLLBACK').catch(() => undefined);
      if (stopped) return;
      const failure = error instanceof ReaderError ? error : null;
      if (failure !== null && !isCurrent()) {
        if (failure.retriable) throw failure;
        return;
      }
      if (failure !== null && shapeRetries.passes(route, failure)) {
        // Planned again from what is in the log.
        plans.delete(route);
        planning.set(route, null);
        throw failure;
      }
      // Altered between planning and reading; another worker that met the same may have been faster.
      if (failure !== null && shapeRetries.again(route, failure))
        return plans.has(route) ? restart(route) : void planning.set(route, null);
      plans.delete(route);
      planning.delete(route);
      closeRecorder(route);
      if (failure === null) throw error;
      ports.failed(route, failure);
    }
  };

  const worker = async (): Promise<void> => {
    let waitMs = RETRY_MS;
    while (!stopped) {
      let session: SourceSession | null = null;
      try {
        session = await ports.source.session('snapshot');
        // A commit of ours must not wait for a standby: the watermark is for our own stream.
        await session.query(
          'SET synchronous_commit = local; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0',
        );
        while (!stopped && (await step(session))) waitMs = RETRY_MS;
        return;
      } catch (error) {
        if (stopped) return;
        if (!(error instanceof ReaderError && error.retriable)) {
          looking--;
          fail(error);
          return;
        }
      } finally {
        await session?.close();
      }
      await sleep(waitMs);
      waitMs = Math.min(waitMs * 2, RETRY_MS_MAX);
    }
  };
  const ensureWorkers = (): void => {
    while (!stopped && looking < ports.parallel) {
      looking++;
      const run: Promise<void> = worker().finally(() => workers.delete(run));
      workers.add(run);
    }
  };

  return {
    broken,
    begin(route) {
      plans.delete(route);
      planning.set(route, null);
      ensureWorkers();
    },
    hold(route, hold) {
      if (hold) held.add(route);
      else if (held.delete(route)) ensureWorkers();
    },
    cancel(route) {
      held.delete(route);
      plans.delete(route);
      planning.delete(route);
      closeRecorder(route);
    },
    async fetch(route, { condition, absent = null, columns = null }) {
      if (stopped) throw stoppedBefore();
      const result = new Promise<number>((resolve, reject) => {
        const settle: Fetch['settle'] = (rows, error) => (error === null ? resolve(rows) : reject(error));
        fetches.push({ route, condition, absent, columns, settle });
      });
      ensureWorkers();
      return result;
    },
    watermark(content, at) {
      const arrive = arrivals.get(content);
      arrivals.delete(content);
      return arrive === undefined ? null : arrive(at);
    },
    seen(snapshot) {
      const snapshots = snapshotsInUse(running, snapshot);
      // What the older ones need is forgotten another time.
      if (snapshots === null) return;
      for (const route of new Set([...plans.keys(), ...[...fetches, ...fetching].map((fetch) => fetch.route)]))
        route.recorder?.prune(snapshots);
    },
    get active() {
      return plans.size > 0 || planning.size > 0 || fetches.length > 0;
    },
    async stop() {
      stopped = true;
      // Whoever waits for a watermark that will not come any more.
      for (const arrive of arrivals.values()) arrive({ lsn: 0n as Lsn, committedAtMicros: 0n });
      arrivals.clear();
      for (const giveUp of unwritten) giveUp();
      for (const fetch of fetches.splice(0)) fetch.settle(0, stoppedBefore());
      await Promise.allSettled(workers);
    },
  };
}
