/**
 * Taking the slot over (DESIGN section 4): own the slot, fence older writers of the log, read the state, stream. In this
 * order nobody else can append behind the state that is read, and two readers never both believe that they go on.
 */
import type { LogReader, LogWriter, PartitionBounds } from '../log/log.ts';
import type { Lsn } from '../log/position.ts';
import { formatLsn, parseLsn } from '../log/position.ts';
import { progressTopic, readerTopic } from '../log/topics.ts';
import { takeBack, type CreatedObjects } from './created-objects.ts';
import { publicationBreak, sourceBreak, type Break, type SourceBreak } from './continuity.ts';
import { requireDirect, requireServer, serverFacts } from './preflight.ts';
import { publishSelected } from './later-tables.ts';
import { publicationRevision, type Publication } from './publication.ts';
import { ReaderError } from './reader-error.ts';
import type { LakeFloor, ReaderOptions } from './reader-options.ts';
import { loadReaderState, type ReaderPosition, type SavedReader, type SourceIdentity } from './reader-state.ts';
import { createSlot, dropSlot, findSlot, invalidation, requireOwnSlot, type SlotState } from './slot.ts';
import type { ReplicationHandlers, ReplicationSession, ReplicationStream, SourceSession } from './source.ts';
import { noTables, selectTables, type SelectedTables } from './table-selection.ts';
import { timelineAncestors, type Ancestor } from './timeline.ts';

export interface Attachment {
  readonly session: SourceSession;
  readonly stream: ReplicationStream;
  readonly writer: LogWriter;
  readonly identity: SourceIdentity;
  readonly ancestors: readonly Ancestor[];
  readonly serverVersion: number;
  readonly publication: Publication;
  readonly selected: SelectedTables;
  /** Later tables that wait for somebody. */
  readonly announced: readonly string[];
  readonly saved: SavedReader;
  /** Where to go on; of a first start, the slot's own start. */
  readonly position: ReaderPosition;
  readonly slotConfirmed: Lsn;
  /** Every table is to be read again: a new epoch, or a gap that the user chose to close so. */
  readonly resnapshot: boolean;
  /** Made in this attempt: to be dropped again if nothing comes of it. */
  readonly created: CreatedObjects;
  /** Tables added to the publication just now: their snapshot waits until every transaction below this xid has ended. */
  readonly barrierXid: string | null;
}

/** Broken continuity of the whole source: nothing is read, the state has a name. */
export class ContinuityError extends ReaderError {
  readonly broken: Break<SourceBreak>;
  constructor(broken: Break<SourceBreak>) {
    const gap = broken.gap === null ? '' : `; GAP(${formatLsn(broken.gap.from)}..${formatLsn(broken.gap.to)})`;
    super('CONTINUITY', `${broken.state}: ${broken.detail}${gap}`, {
      remedy:
        'look with `sluice status`, then `sluice repair --all`: the tables are read again, the lake keeps its history',
    });
    this.broken = broken;
  }
}

const LOG_OF_STATE = { replicationFactor: 1, retentionMs: -1 } as const;

export async function attach(
  options: ReaderOptions,
  handlers: ReplicationHandlers,
  waiting: (standby: boolean) => Promise<boolean>,
  signal: AbortSignal,
): Promise<Attachment | null> {
  const { source, log, name } = options;
  const { replicationFactor } = options.topic;
  await log.admin.ensureTopics({
    [readerTopic(name)]: { ...LOG_OF_STATE, partitions: 1, replicationFactor, compacted: true },
    [progressTopic(name)]: {
      partitions: 1,
      replicationFactor,
      retentionMs: options.topic.retentionMs,
      compacted: false,
    },
  });
  const session = await source.session('reader');
  try {
    const facts = await serverFacts(session);
    requireServer(facts);
    await requireDirect(source, session);
    const created: CreatedObjects = { slot: false, publication: false };
    let owned: OwnedSlot | null = null;
    try {
      const prepared = await prepare(session, options, { signal, created });
      let waited = false;
      owned = await own(options, handlers, (standby) => {
        waited = true;
        // Whoever streams works with them.
        created.slot = created.publication = false;
        return waiting(standby);
      });
      if (owned !== null) {
        // A standby may have waited for days: tables and publication as they are by now.
        const now = waited ? await prepare(session, options, { signal, created }) : prepared;
        return await takeOver(session, options, now, owned);
      }
    } catch (error) {
      await owned?.stream.close();
      await takeBack(session, options, created);
      throw error;
    }
    await session.close();
    return null;
  } catch (error) {
    await session.close();
    throw error;
  }
}

interface Prepared {
  readonly publication: Publication;
  readonly selected: SelectedTables;
  readonly announced: readonly string[];
  readonly barrierXid: string | null;
  readonly created: CreatedObjects;
}

/** Publication first, then the slot: the other order fails on every read. A slot is only made where there was never one. */
async function prepare(
  session: SourceSession,
  options: ReaderOptions,
  { signal, created }: { readonly signal: AbortSignal; readonly created: CreatedObjects },
): Promise<Prepared> {
  const saved = await loadReaderState(options.log.reader, options.name);
  const known = saved.position === null ? null : saved.tables;
  const all = await selectTables(session, options.tables, options.logKind, known ?? []);
  for (const { schema, table, error } of all.refused) {
    options.logger.error({ table: `${schema}.${table}`, code: error.code, remedy: error.remedy }, error.message);
  }
  if (all.taken.length === 0) {
    const first = all.refused[0];
    if (first !== undefined) throw first.error;
    throw await noTables(session, options.tables);
  }
  const published = await publishSelected(session, options, all, known);
  const { publication, added, selected, announced } = published;
  created.publication = published.created;
  const [row] = added.length === 0 ? [] : await session.query('SELECT pg_snapshot_xmax(pg_current_snapshot()) AS x');
  const barrierXid = row?.['x'] ?? null;
  const slot = await findSlot(session, options.slot);
  if (slot !== null) {
    requireOwnSlot(slot, options.source.connection.database);
    const publicationNow = publicationRevision(publication);
    // Of a publication that is younger than the slot's position PostgreSQL below 18 cannot decode a change: another slot.
    const anew =
      options.onSourceBreak === 'resnapshot' && publicationBreak(saved.position?.publication, publicationNow) !== null;
    if (invalidation(slot) === null && !anew) return { publication, selected, announced, barrierXid, created };
  }
  if (saved.position !== null && options.onSourceBreak !== 'resnapshot') {
    // Another server has no slot of ours either: that it is another one comes first.
    const { timeline, logId } = saved.position;
    const now = { systemIdentifier: await systemIdentifier(session), timeline, ancestors: [], logId, slot };
    const broken = sourceBreak(saved.position, { ...now, walLsn: await walEnd(session) });
    if (broken !== null) throw new ContinuityError(broken);
  }
  // Nothing will ever come from it again, and it would stand in the new one's place.
  if (slot !== null) await dropSlot(session, options.slot);
  created.slot = await createOnce(session, options, signal);
  return { publication, selected, announced, barrierXid, created };
}

/** Waits until every transaction that runs now has ended; an abort cancels it in the server, or the slot would come later. */
async function createOnce(session: SourceSession, options: ReaderOptions, signal: AbortSignal): Promise<boolean> {
  const { source, slot, logger } = options;
  const cancel = (): void => {
    source
      .session('cancel')
      .then(async (other) => {
        await other.query(`SELECT pg_cancel_backend(${session.backendPid})`);
        await other.close();
      })
      .catch((error: unknown) => logger.warn({ err: error, slot }, 'the creation of the slot could not be cancelled'));
  };
  if (signal.aborted) throw new ReaderError('SOURCE_LOST', 'stopped before the slot was created');
  signal.addEventListener('abort', cancel, { once: true });
  try {
    logger.info({ slot }, 'creating the slot: this waits for the transactions that run now');
    await createSlot(session, slot);
    return true;
  } catch (error) {
    // Another reader of the same pipeline was faster.
    if (signal.aborted || (await findSlot(session, slot)) === null) throw error;
    return false;
  } finally {
    signal.removeEventListener('abort', cancel);
  }
}

interface OwnedSlot {
  readonly stream: ReplicationStream;
  readonly systemIdentifier: string;
  readonly timeline: number;
  readonly ancestors: readonly Ancestor[];
}

/** Waits as a standby while another reader streams. Null when `waiting` said to give up. */
async function own(
  options: ReaderOptions,
  handlers: ReplicationHandlers,
  waiting: (standby: boolean) => Promise<boolean>,
): Promise<OwnedSlot | null> {
  for (;;) {
    const session: ReplicationSession = await options.source.replication('replication stream');
    try {
      const [system] = await session.query('IDENTIFY_SYSTEM');
      const timeline = Number(system?.['timeline'] ?? 0);
      const ancestors = await timelineAncestors(session, timeline);
      const stream = await session.start({
        slot: options.slot,
        publication: options.publication,
        // From the slot's own confirmed position: the state is not read yet.
        startLsn: 0n,
        protoVersion: options.streaming == null ? 1 : 2,
        streaming: options.streaming != null,
        handlers,
      });
      return {
        stream,
        systemIdentifier: system?.['systemid'] ?? '',
        timeline,
        ancestors,
      };
    } catch (error) {
      await session.close();
      if (!(error instanceof ReaderError) || error.code !== 'SLOT_IN_USE') throw error;
      if (!(await waiting(true))) return null;
    }
  }
}

async function takeOver(
  session: SourceSession,
  options: ReaderOptions,
  prepared: Prepared,
  owned: OwnedSlot,
): Promise<Attachment> {
  const { log, name, slot: slotName } = options;
  const writer = await log.writer(`${name}-reader`);
  try {
    const saved = await loadReaderState(log.reader, name);
    const identity: SourceIdentity = {
      systemIdentifier: owned.systemIdentifier,
      timeline: owned.timeline,
      database: options.source.connection.database,
      slot: slotName,
      logId: await log.admin.logId(),
      publication: publicationRevision(prepared.publication),
    };
    const slot = await findSlot(session, slotName);
    if (slot === null)
      throw new ReaderError('SOURCE_LOST', `replication slot "${slotName}" vanished while it was in use`);
    const broken =
      saved.position === null
        ? await stateBreak(options)
        : sourceBreak(saved.position, { ...identity, ancestors: owned.ancestors, slot, walLsn: await walEnd(session) });
    if (broken !== null && options.onSourceBreak !== 'resnapshot') throw new ContinuityError(broken);
    const floor = saved.position === null ? ((await options.lakeFloor?.(prepared.selected.taken)) ?? null) : null;
    return {
      session,
      stream: owned.stream,
      writer,
      identity,
      ancestors: owned.ancestors,
      serverVersion: session.serverVersion,
      ...prepared,
      saved,
      position: startPosition(saved.position, slot, identity, broken, floor),
      slotConfirmed: slot.confirmedFlushLsn ?? (0n as Lsn),
      resnapshot: broken !== null || floor !== null,
    };
  } catch (error) {
    await writer.close();
    throw error;
  }
}

/** Marks without the reader's state: the state's topic was lost, and with it what the shapes in the records mean. */
async function stateBreak({ log, name }: ReaderOptions): Promise<Break<SourceBreak> | null> {
  const topic = progressTopic(name);
  const marks = (await log.reader.bounds(topic)).get(0);
  if (marks === undefined || marks.end === 0n) return null;
  // A first append that was cut off leaves offsets in Kafka, and no mark.
  if (marks.earliest === 0n && !(await holdsRecords(log.reader, topic, marks))) return null;
  return { state: 'TOPIC_RESET', detail: `topic ${readerTopic(name)} has lost the reader's state`, gap: null };
}

async function holdsRecords(reader: LogReader, topic: string, { earliest, end }: PartitionBounds): Promise<boolean> {
  for await (const batch of reader.read(topic, 0, earliest, end)) if (batch.offsets.length > 0) return true;
  return false;
}

/** After a break the slot's own position counts; another WAL opens a new epoch, or its lower LSNs would be taken for old ones. */
function startPosition(
  saved: ReaderPosition | null,
  slot: SlotState,
  identity: SourceIdentity,
  broken: Break<SourceBreak> | null,
  floor: LakeFloor | null,
): ReaderPosition {
  if (saved !== null && broken === null) return saved;
  const start = slot.confirmedFlushLsn ?? (0n as Lsn);
  const anotherWal = broken?.state === 'SYSTEM_CHANGED';
  return {
    ...identity,
    // Whether this WAL continues the one that the lake's rows came from, only the lost log knew: above them in any case.
    epoch: floor === null ? (saved?.epoch ?? 1) + (anotherWal ? 1 : 0) : floor.epoch + 1,
    lsn: start,
    ord: -1,
    open: false,
    confirmLsn: start,
    sequence: saved?.sequence ?? floor?.sequence ?? 0,
    bytes: saved?.bytes ?? 0n,
    sourceTimeMicros: saved?.sourceTimeMicros ?? 0n,
    unseenXids: anotherWal ? [] : (saved?.unseenXids ?? []),
  };
}

async function systemIdentifier(session: SourceSession): Promise<string> {
  const [row] = await session.query('SELECT system_identifier::text AS system FROM pg_control_system()');
  return row?.['system'] ?? '';
}

async function walEnd(session: SourceSession): Promise<Lsn> {
  const [row] = await session.query('SELECT pg_current_wal_lsn() AS lsn');
  return parseLsn(row?.['lsn'] ?? '0/0');
}
