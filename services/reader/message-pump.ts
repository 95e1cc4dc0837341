/**
 * The reader's loop: messages of the stream to records, records to the log.
 *
 *   inbox → decode → (RELATION: look up types, once a shape) → change-events → batch → append → confirm
 *
 * It never waits inside a socket callback: the callback fills the inbox, the loop drains it at its own pace. A batch goes to
 * the log when it is full (then possibly inside a source transaction: an open mark), when the flush interval has passed, or
 * when an idle mark is due. If the append fails, the loop ends with its error and the reader starts again from the log's
 * own position; nothing was confirmed that is not there.
 */
import type { Lsn } from '../log/position.ts';
import { keepaliveCounts } from './acker.ts';
import type { ChangeEvents } from './change-events.ts';
import type { Cut, LogAppender } from './log-appender.ts';
import { isFull } from './outgoing-batch.ts';
import { createPgoutputDecoder } from './pgoutput/decode.ts';
import type { CommitMessage, LogicalMessage, RelationMessage, StreamCommitMessage } from './pgoutput/messages.ts';
import { ReaderError } from './reader-error.ts';
import { POSTGRES_EPOCH_MICROS } from './replication-stream.ts';
import type { StreamInbox } from './stream-inbox.ts';
import type { StreamedTransactions } from './streamed-transactions.ts';
import type { TableRoute } from './table-route.ts';
import type { UnseenTransactions } from './visibility.ts';

/** Prefix of our own messages in the WAL: watermarks and heartbeats. */
export const MESSAGE_PREFIX = 'sluice';
/** A transactional message with this prefix asks for a mark behind it at once, for those who wait for the lake to reach it. */
export const MARK_PREFIX = 'sluice.mark';

/** Tag of the end of a stream block. */
const STREAM_STOP = 0x45;

/**
 * Several workers make a cut at the first mark of a second only. When the source goes quiet, one more mark follows the last
 * change in another second, or the cut would wait for the next idle mark.
 */
const TRAIL_MS = 1_000;

export interface PumpPorts {
  readonly inbox: StreamInbox;
  readonly changes: ChangeEvents;
  readonly appender: LogAppender;
  readonly unseen: UnseenTransactions;
  /** The route for a RELATION, at once if it is known. Null = published, not ours. */
  readonly resolve: (relation: RelationMessage) => TableRoute | null | Promise<TableRoute | null>;
  /** A watermark of ours was committed at this place. `position` is free for the rows of a chunk. May wait. */
  readonly watermark: (content: string, at: { readonly lsn: Lsn; readonly committedAtMicros: bigint }) => WatermarkWork;
  /** Null when the server sends whole transactions only. */
  readonly streamed: StreamedTransactions | null;
  readonly clock: () => number;
  readonly flushIntervalMs: number;
  readonly idleMarkMs: number;
}

/**
 * What a watermark leads to: a chunk's rows, written at its place in the order. `ord` is the last ordinal written there. The
 * batch is flushed before and behind it, so that a chunk is one log transaction.
 */
export type WatermarkWork = {
  readonly rows: number;
  /** Asked first, while the stream stands at the mark; false = nothing is written. */
  ready?(): Promise<boolean>;
  write(): number;
} | null;

export interface MessagePump {
  /** Runs until `stop`, or rejects with what went wrong. */
  run(): Promise<void>;
  stop(): void;
  keepalive(walEnd: bigint, serverTimeMicros: bigint): void;
  /** Everything below is in the log or on its way to it. */
  readonly received: Lsn;
  readonly transactionOpen: boolean;
  /** Source clock at the newest message, µs since 1970. */
  readonly sourceTimeMicros: bigint;
}

interface PumpState {
  stopped: boolean;
  /** End of the last transaction that was taken in completely, or a keepalive's position. */
  confirmLsn: Lsn;
  lsn: Lsn;
  ord: number;
  open: boolean;
  sourceTimeMicros: bigint;
  watermarks: string[];
  /** A request for a mark, seen in the open transaction; and one whose transaction has committed. */
  markRequested: boolean;
  markWanted: boolean;
  /** The newest mark came with records: what ends a batch there may have to end at another second's mark. */
  trails: boolean;
  lastFlushMs: number;
  idleLsn: Lsn | null;
  last: RelationMessage | null;
  lastRoute: TableRoute | null;
}

export function createMessagePump(ports: PumpPorts, start: Cut): MessagePump {
  const { inbox, changes, appender, unseen } = ports;
  const decoder = createPgoutputDecoder();
  const routes = new Map<number, TableRoute | null>();
  const state: PumpState = {
    stopped: false,
    confirmLsn: start.confirmLsn,
    lsn: start.lsn,
    ord: start.ord,
    open: start.open,
    sourceTimeMicros: start.sourceTimeMicros,
    watermarks: [],
    markRequested: false,
    markWanted: false,
    trails: false,
    lastFlushMs: ports.clock(),
    idleLsn: null,
    last: null,
    lastRoute: null,
  };

  const routeOf = (relation: RelationMessage): TableRoute | null => {
    if (state.last === relation) return state.lastRoute;
    const route = routes.get(relation.oid);
    if (route === undefined) {
      throw new ReaderError('PGOUTPUT_INVALID', `a row of ${relation.schema}.${relation.table} before its RELATION`);
    }
    state.last = relation;
    state.lastRoute = route;
    return route;
  };

  const cut = (): Cut => {
    const { confirmLsn } = state;
    const work = changes.transaction;
    const ord = changes.lastOrd();
    // While a resumed reader passes what the log already has, its position stays where it was.
    if (work !== null && ord >= 0 && (work.lsn > state.lsn || (work.lsn === state.lsn && ord > state.ord))) {
      return { lsn: work.lsn, ord, open: true, confirmLsn, sourceTimeMicros: work.committedAtMicros };
    }
    return { lsn: state.lsn, ord: state.ord, open: state.open, confirmLsn, sourceTimeMicros: state.sourceTimeMicros };
  };
  const flush = async (): Promise<void> => {
    if (appender.busy) await appender.settled();
    state.lastFlushMs = ports.clock();
    state.trails = appender.dirty;
    // Not awaited: the next batch fills while this one becomes durable. A failure comes out of `settled`.
    const wake = (): void => inbox.wake();
    appender.flush(cut()).then(wake, wake);
  };

  const commit = (message: CommitMessage): Promise<void> | null => {
    const work = changes.transaction;
    if (work === null) throw new ReaderError('PGOUTPUT_INVALID', 'a commit outside of a transaction');
    if (work.lsn >= state.lsn) {
      state.ord = work.lsn > state.lsn ? Math.max(changes.lastOrd(), 0) : Math.max(state.ord, changes.lastOrd());
      state.lsn = work.lsn;
      state.open = false;
      state.sourceTimeMicros = work.committedAtMicros;
    }
    if (message.endLsn > state.confirmLsn) state.confirmLsn = message.endLsn as Lsn;
    changes.end();
    if (state.markRequested) state.markWanted = true;
    state.markRequested = false;
    if (state.watermarks.length === 0) return null;
    return passWatermarks(work.lsn, work.committedAtMicros);
  };

  const passWatermarks = async (lsn: Lsn, committedAtMicros: bigint): Promise<void> => {
    const contents = state.watermarks;
    state.watermarks = [];
    for (const content of contents) {
      const work = ports.watermark(content, { lsn, committedAtMicros });
      if (work === null) continue;
      if (appender.dirty) await flush();
      await appender.settled();
      if (work.ready !== undefined && !(await work.ready())) continue;
      state.ord = Math.max(state.ord, work.write());
      await flush();
    }
  };

  const logicalMessage = (message: LogicalMessage): void => {
    if (message.prefix === MESSAGE_PREFIX && message.transactional)
      state.watermarks.push(message.content.toString('utf8'));
    if (message.prefix === MARK_PREFIX && message.transactional) state.markRequested = true;
  };

  /** One message; a promise when it has to wait for something. */
  const handle = (): Promise<void> | null => {
    const { bytes, start, end } = inbox;
    const { streamed } = ports;
    // Inside a block nothing is decoded: what it means is known when its transaction has committed.
    if (streamed !== null && streamed.inBlock && bytes[start] !== STREAM_STOP) return streamed.add(bytes, start, end);
    return handleMessage(bytes, start, end);
  };
  const handleMessage = (bytes: Buffer, start: number, end: number): Promise<void> | null => {
    const message = decoder.decode(bytes, start, end);
    switch (message.tag) {
      case 'stream-start':
        streamedOf(ports).start(message.xid);
        return null;
      case 'stream-stop':
        streamedOf(ports).stop();
        return null;
      case 'stream-abort':
        return streamedOf(ports).abort(message.xid, message.subXid);
      case 'stream-commit':
        return passStreamed(message);
      case 'insert':
        changes.insert(message, routeOf(message.relation));
        return null;
      case 'update':
        changes.update(message, routeOf(message.relation));
        return null;
      case 'delete':
        changes.remove(message, routeOf(message.relation));
        return null;
      case 'begin':
        // At its begin, so that a chunk that starts in the middle of it knows it, too.
        unseen.add(changes.begin(message).xid);
        return null;
      case 'commit':
        return commit(message);
      case 'truncate':
        changes.truncate(message, routeOf);
        return null;
      case 'message':
        logicalMessage(message);
        return null;
      case 'relation':
        return relation(message);
      case 'origin':
      case 'type':
        return null;
      default:
        throw new ReaderError('PGOUTPUT_INVALID', `a ${message.tag} message, although two-phase is off`);
    }
  };
  /** A transaction that was kept comes like any other: begin, its messages, commit. */
  const passStreamed = async (message: StreamCommitMessage): Promise<void> => {
    const { xid, commitLsn, endLsn, commitTime } = message;
    unseen.add(changes.begin({ tag: 'begin', finalLsn: commitLsn, commitTime, xid }).xid);
    for await (const { bytes, ranges } of streamedOf(ports).take(xid)) {
      for (let i = 0; i < ranges.length && !state.stopped; i += 2) {
        const wait = handleMessage(bytes, ranges[i] as number, ranges[i + 1] as number);
        if (wait !== null) await wait;
        if (isFull(appender.batch)) await flush();
      }
      if (state.stopped) return;
    }
    await commit({ tag: 'commit', commitLsn, endLsn, commitTime });
  };
  const relation = (message: RelationMessage): Promise<void> | null => {
    state.last = null;
    const found = ports.resolve(message);
    if (!(found instanceof Promise)) {
      routes.set(message.oid, found);
      return null;
    }
    return found.then((route) => {
      routes.set(message.oid, route);
      state.last = null;
    });
  };

  const idleMs = (): number => (state.trails ? Math.min(TRAIL_MS, ports.idleMarkMs) : ports.idleMarkMs);
  const untilIdle = (): number => Math.max(1, appender.lastMarkAtMs + idleMs() - ports.clock());
  const idle = async (): Promise<void> => {
    const now = ports.clock();
    // A commit that brought no record of its own still ends its transaction: whoever waits for a consistent place waits for it.
    const pending = appender.dirty || (appender.position.open && !cut().open);
    if (!appender.busy) {
      const due = pending && now - state.lastFlushMs >= ports.flushIntervalMs;
      const idleDue = state.markWanted || now - appender.lastMarkAtMs >= idleMs();
      if (due || idleDue) {
        state.markWanted = false;
        if (!appender.dirty) takeIdlePosition();
        await flush();
      }
    } else if (appender.failed) await appender.settled();
    const untilFlush = pending ? Math.max(1, state.lastFlushMs + ports.flushIntervalMs - now) : untilIdle();
    await inbox.wait(Math.min(untilFlush, 1000));
  };
  /** The keepalive's position becomes ours: every transaction that committed below it has been received. */
  const takeIdlePosition = (): void => {
    if (state.idleLsn === null || state.idleLsn <= state.confirmLsn) return;
    state.confirmLsn = state.idleLsn;
    // The newest commit that is surely included lies below the position, not at it.
    if (state.idleLsn - 1n > state.lsn) {
      state.lsn = (state.idleLsn - 1n) as Lsn;
      state.ord = 0;
    }
  };

  return {
    get received() {
      return state.confirmLsn;
    },
    get transactionOpen() {
      return changes.transaction !== null;
    },
    get sourceTimeMicros() {
      return state.sourceTimeMicros;
    },
    stop() {
      state.stopped = true;
      inbox.wake();
    },
    keepalive(walEnd, serverTimeMicros) {
      const counts = keepaliveCounts({
        transactionOpen: changes.transaction !== null,
        bufferedRecords: appender.batch.records.length,
        bufferedBytes: inbox.waitingBytes,
      });
      // With an append in flight its mark is the older one; the next idle mark stands behind it.
      if (!counts) return;
      state.idleLsn = walEnd as Lsn;
      state.sourceTimeMicros = serverTimeMicros + POSTGRES_EPOCH_MICROS;
    },
    async run() {
      while (!state.stopped) {
        let wait: Promise<void> | null = null;
        while (wait === null && !state.stopped && !isFull(appender.batch) && inbox.next()) wait = handle();
        if (wait !== null) await wait;
        else if (state.stopped) break;
        else if (isFull(appender.batch)) await flush();
        else if (inbox.isEmpty) await idle();
      }
      await appender.settled();
    },
  };
}

function streamedOf({ streamed }: PumpPorts): StreamedTransactions {
  if (streamed !== null) return streamed;
  throw new ReaderError('PGOUTPUT_INVALID', 'a streamed transaction, although streaming is off');
}
