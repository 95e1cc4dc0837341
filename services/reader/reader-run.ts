/**
 * One run of the reader: from owning the slot to losing it. Everything in memory belongs to the run; a new run begins with
 * what the log says.
 */
import { createEnvelopeEncoder } from '../log/envelope-encode.ts';
import type { NextOffsets } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic } from '../log/topics.ts';
import { createAcker, type Acker } from './acker.ts';
import { attach, type Attachment } from './attach.ts';
import { takeBack } from './created-objects.ts';
import { createChangeEvents } from './change-events.ts';
import { createLogAppender, type LogAppender } from './log-appender.ts';
import { createMessagePump, type MessagePump } from './message-pump.ts';
import type { ClaimStore } from './outgoing-batch.ts';
import { ReaderError } from './reader-error.ts';
import type { ReaderLimits, ReaderOptions } from './reader-options.ts';
import type { TableState } from './reader-state.ts';
import { createSnapshotRunner, type SnapshotRunner } from './snapshot.ts';
import type { ReplicationHandlers } from './source.ts';
import { createShapeHistory, type ShapeHistory } from './shapes.ts';
import { createStreamInbox, type StreamInbox } from './stream-inbox.ts';
import { createStreamedTransactions } from './streamed-transactions.ts';
import { createTablePrivacy } from './table-privacy.ts';
import { createTableRegistry, type TableRegistry } from './table-registry.ts';
import { matchesGlobs } from './table-globs.ts';
import { encoderCache, takesEvents, tableName, type StopReason, type TableRoute } from './table-route.ts';
import { newTableState, planTable, type SelectedTables } from './table-selection.ts';
import { createUnseenTransactions, type UnseenTransactions } from './visibility.ts';

export interface ReaderRun {
  readonly attachment: Attachment;
  readonly registry: TableRegistry;
  readonly appender: LogAppender;
  readonly pump: MessagePump;
  readonly acker: Acker;
  readonly snapshots: SnapshotRunner;
  readonly unseen: UnseenTransactions;
  readonly history: ShapeHistory;
  /** Confirms what may be confirmed now. */
  confirm(): Promise<void>;
  close(): Promise<void>;
}

/** Attaches and wires the parts; null when told to give up while waiting as a standby. */
export async function openRun(
  options: ReaderOptions,
  limits: ReaderLimits,
  waiting: (standby: boolean) => Promise<boolean>,
  signal: AbortSignal,
): Promise<ReaderRun | null> {
  const link: StreamLink = { inbox: null, pump: null, acker: null, attachment: null };
  const attachment = await attach(options, streamHandlers(link, limits), waiting, signal);
  if (attachment === null) return null;
  link.attachment = attachment;
  try {
    return await wire(options, limits, attachment, link);
  } catch (error) {
    await attachment.stream.close();
    await attachment.writer.close();
    await takeBack(attachment.session, options, attachment.created);
    await attachment.session.close();
    throw error;
  }
}

/** The stream begins before the parts that take it in exist: until then everything waits in the inbox. */
interface StreamLink {
  inbox: StreamInbox | null;
  pump: MessagePump | null;
  acker: Acker | null;
  attachment: Attachment | null;
}

function inboxOf(link: StreamLink, limits: ReaderLimits): StreamInbox {
  link.inbox ??= createStreamInbox(
    { pause: () => link.attachment?.stream.pause(), resume: () => link.attachment?.stream.resume() },
    limits.inboxBytesMax,
  );
  return link.inbox;
}

function streamHandlers(link: StreamLink, limits: ReaderLimits): ReplicationHandlers {
  return {
    data(bytes, start, end) {
      inboxOf(link, limits).push(bytes, start, end);
    },
    keepalive(walEnd, serverTime, replyRequested) {
      link.pump?.keepalive(walEnd, serverTime);
      if (replyRequested && link.acker !== null) link.attachment?.stream.confirm(link.acker.confirmed);
    },
    chunkEnd() {
      // The inbox pauses the socket by itself.
    },
  };
}

async function wire(
  options: ReaderOptions,
  limits: ReaderLimits,
  attachment: Attachment,
  link: StreamLink,
): Promise<ReaderRun> {
  const { name, clock, failpoint } = options;
  const { writer, position, saved } = attachment;
  const inbox = inboxOf(link, limits);
  const history = createShapeHistory(saved.shapes);
  const encoder = createEnvelopeEncoder();
  const privacy = createTablePrivacy(options.privacy ?? null, history, options.logger);
  const encoderFor = encoderCache({ name, database: attachment.identity.database }, privacy.replacerOf);
  const unseen = createUnseenTransactions(position.unseenXids);
  const claims: ClaimStore = { recordBytesMax: writer.recordBytesMax, put: options.putLarge, pipeline: name };
  const acker = createAcker({ confirmed: attachment.slotConfirmed, heldByLake: options.committedLsn !== null });
  link.acker = acker;

  const confirm = async (): Promise<void> => {
    if (options.committedLsn !== null) acker.committed(await options.committedLsn());
    const lsn = acker.take();
    if (lsn === null) return;
    await failpoint('before-slot-ack');
    attachment.stream.confirm(lsn);
    await failpoint('after-slot-ack');
  };

  const registry = createTableRegistry({
    options,
    attachment,
    history,
    encoderFor,
    privacy,
    ...tableStates(options, attachment),
  });
  await registry.open();
  const appender = createLogAppender({
    name,
    writer,
    identity: attachment.identity,
    position,
    offsets: await dataOffsets(options, registry),
    partitions: saved.partitions,
    onPartitions(topic, count) {
      for (const route of registry.routes()) if (route.topic === topic) route.partitions = count;
    },
    unseenXids: () => unseen.xids,
    snapshotting: () => registry.snapshotting(),
    standing: () => registry.standing(),
    clock,
    async afterAppend(done) {
      await failpoint('after-log-append');
      acker.durable(done.confirmLsn);
      await confirm();
    },
  });
  const changes = createChangeEvents({
    epoch: position.epoch,
    encoder,
    claims,
    batch: () => appender.batch,
    now: clock,
    resume: { lsn: position.lsn, ord: position.ord },
  });
  const snapshots = createSnapshotRunner({
    source: options.source,
    appender,
    unseen,
    encoder,
    claims,
    epoch: position.epoch,
    clock,
    runId: options.runId,
    parallel: options.snapshotParallel,
    chunkRows: options.snapshotChunkRows,
    chunkBytesMax: limits.snapshotChunkBytesMax,
    recordedEventsMax: limits.recordedEventsMax,
    failpoint,
    plan: async (session, route) =>
      planTable(session, route, {
        publication: options.publication,
        history,
        encoderFor,
        noteShape: (shape) => appender.noteShape(shape),
        chunkRows: options.snapshotChunkRows,
        mark: privacy.mark,
      }),
    present: registry.present,
    failed: (route, error) => registry.stop(route, snapshotFailure(route, error)),
    finished: (route) =>
      options.logger.info({ table: `${route.schema}.${route.table}`, rows: route.state.rows }, 'snapshot complete'),
  });
  registry.connect(appender, snapshots);
  const streamed =
    options.streaming == null
      ? null
      : createStreamedTransactions({ bytesMax: limits.streamedBytesMax, folder: options.streaming.folder });
  const pump = createMessagePump(
    {
      inbox,
      changes,
      appender,
      unseen,
      resolve: (relation) => registry.resolve(relation),
      watermark: (content, at) => snapshots.watermark(content, at),
      streamed,
      clock,
      flushIntervalMs: limits.flushIntervalMs,
      idleMarkMs: limits.idleMarkMs,
    },
    position,
  );
  link.pump = pump;
  registry.beginSnapshots();
  return {
    attachment,
    registry,
    appender,
    pump,
    acker,
    snapshots,
    unseen,
    history,
    confirm,
    async close() {
      pump.stop();
      await snapshots.stop();
      await attachment.stream.close();
      await appender.settled().catch(() => undefined);
      appender.abandon(new ReaderError('SOURCE_LOST', 'the reader begins anew, or was stopped'));
      await streamed?.close();
      await writer.close();
      // Nothing reached the log: the next start is a first start, with a publication and a slot of its own. Of an append that failed
      // that is not known: its answer may be what was lost.
      if (appender.position.sequence === 0 && !appender.failed)
        await takeBack(attachment.session, options, attachment.created);
      await attachment.session.close();
    },
  };
}

/** Saved tables that are still wanted, and new ones; after a break every one of them is to be read again. */
function tableStates(
  options: ReaderOptions,
  attachment: Attachment,
): { readonly states: readonly TableState[]; readonly changed: ReadonlySet<TableState> } {
  const { saved, selected, resnapshot } = attachment;
  const states: TableState[] = [];
  const changed = new Set<TableState>();
  const put = (state: TableState, isChanged: boolean): void => {
    states.push(state);
    if (isChanged) changed.add(state);
  };
  const now = options.clock();
  for (const table of selected.taken) {
    const known = saved.tables.find((state) => state.schema === table.schema && state.table === table.table);
    if (known === undefined || known.phase === 'removed') {
      const barrier = saved.position === null ? null : (attachment.barrierXid ?? null);
      const fresh = { ...newTableState(table, now, barrier), snapshot: (known?.snapshot ?? 0) + 1 };
      // The lake may have its rows from another log: what the source no longer has must go.
      put(attachment.resnapshot || known !== undefined ? { ...fresh, clearFirst: true } : fresh, true);
    } else if (resnapshot) {
      put({ ...newTableState(table, now, null), snapshot: known.snapshot + 1, clearFirst: true }, true);
    } else put(known, false);
  }
  for (const known of saved.tables) {
    if (selected.taken.some((table) => table.schema === known.schema && table.table === known.table)) continue;
    if (!takesEvents(known)) put(known, false);
    else if (!matchesGlobs(options.tables, known.schema, known.table)) put({ ...known, phase: 'removed' }, true);
    else put({ ...known, phase: 'stopped', stopped: whyNotTaken(known, selected) }, true);
  }
  return { states, changed };
}

/** A table that is wanted and was followed, and cannot be any more since something was done to it while no reader ran. */
function whyNotTaken({ schema, table }: TableState, { refused }: SelectedTables): TableState['stopped'] {
  const why = refused.find((each) => each.schema === schema && each.table === table)?.error;
  if (why !== undefined) return { state: why.code, detail: why.message };
  return { state: 'TABLE_MISSING', detail: `table ${tableName(schema, table)} does not exist any more` };
}

/** Next offsets of every data topic, for the first full mark. */
async function dataOffsets(options: ReaderOptions, registry: TableRegistry): Promise<NextOffsets> {
  const offsets: NextOffsets = new Map();
  for (const route of registry.routes()) {
    const topic = dataTopic(options.name, route.schema, route.table);
    const partitions = new Map<number, LogOffset>();
    for (const [partition, bounds] of await options.log.reader.bounds(topic)) partitions.set(partition, bounds.end);
    offsets.set(topic, partitions);
  }
  return offsets;
}

/** A table that the reader refuses is known by its own code; whatever else a chunk met is the snapshot's failure. */
function snapshotFailure({ schema, table }: TableRoute, { code, message, remedy }: ReaderError): StopReason {
  if (!code.startsWith('SOURCE_')) return { state: code, detail: message, remedy };
  const mend = `run \`sluice repair ${schema}.${table}\``;
  return {
    state: 'SNAPSHOT_FAILED',
    detail: `${code}: ${message}`,
    remedy: remedy === '' ? `mend what the message says, then ${mend}` : `${remedy}; then ${mend}`,
  };
}
