/**
 * The takeover itself, in an order in which a crash anywhere leaves tables that stand still by name (LAKE_TABLE_FOREIGN) and a
 * second `sluice adopt` that goes on:
 *
 *   1. the lake names its pipeline, with a slot that it did not make
 *   2. the reader's state: where the slot goes on, and the tables as read already
 *   3. each table: deletion vectors, then one commit without rows that adds the metadata columns and the position in the log
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { changeTable } from '../../../lakehouse/upkeep/change-table.ts';
import type { LogTail } from '../../ingest/reposition.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import type { EventLog } from '../../log/log.ts';
import type { LogOffset, Lsn } from '../../log/position.ts';
import { dataTopic, progressTopic, readerTopic } from '../../log/topics.ts';
import { loadReaderState, positionRecord, shapeRecord, tableRecord } from '../../reader/reader-state.ts';
import { findSlot } from '../../reader/slot.ts';
import type { ReplicationSession, SourceSession } from '../../reader/source.ts';
import type { Config } from '../../runtime/config.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import type { FailpointHook } from '../../runtime/failpoints.ts';
import { createLogger } from '../../runtime/logger.ts';
import { createMetrics } from '../../runtime/metrics.ts';
import { claimLake, identityOf, readIdentity } from '../assemble/identity.ts';
import { openLog } from '../assemble/log.ts';
import { startPipeline, type Pipeline } from '../pipeline.ts';
import type { AdoptTable } from './look.ts';

export interface TakeOver {
  readonly config: Config;
  readonly reload: () => Config;
  readonly lake: ObjectStore;
  readonly tables: readonly AdoptTable[];
  /** Up to which the tables hold everything; 0 = not known as an LSN. */
  readonly lsn: bigint;
  readonly deletionVectors: boolean;
  readonly signal: AbortSignal;
  /** For tests that kill it half-way. */
  readonly failpoint: FailpointHook;
  readonly tell: (text: string) => void;
}

export interface SlotTakeOver {
  readonly session: SourceSession;
  readonly replication: ReplicationSession;
  /** As the reader names it. */
  readonly database: string;
  readonly from: Lsn;
}

/** Tables are shared out among workers first. */
const SHARED_MS = 60_000;
const POLL_MS = 100;

/** @throws SluiceError ADOPT_POSITION; PIPELINE_CHANGED when the lake is another pipeline's, or this one runs already */
export async function claimAdopted(take: TakeOver, { session, from }: SlotTakeOver): Promise<void> {
  const { config, lake } = take;
  const { slot, publication } = config.source;
  const standing = await readIdentity(lake);
  if (standing !== null && standing.adoptedSlot !== true)
    throw new SluiceError('PIPELINE_CHANGED', `this lake is kept by pipeline '${standing.name}' already`, {
      exit: ExitCode.usage,
      remedy: 'nothing is to be taken over where a pipeline runs: `sluice status` shows it, `sluice teardown` ends it',
    });
  if (standing === null) {
    await requireUnmoved(session, slot, from);
    await requireNewLog(take);
  }
  const mine = await identityOf(session, { name: config.name, slot, publication });
  await claimLake(lake, { ...mine, madePublication: false, adoptedSlot: true });
  await take.failpoint('after-adopt-claim');
}

/** To look at the lake takes its time: what streamed from the slot may have come back. @throws SluiceError ADOPT_POSITION */
async function requireUnmoved(session: SourceSession, name: string, from: Lsn): Promise<void> {
  const slot = await findSlot(session, name);
  if (slot !== null && !slot.active && slot.confirmedFlushLsn === from) return;
  const now = slot === null ? 'is gone' : slot.active ? 'is in use again' : 'was confirmed further';
  throw new SluiceError('ADOPT_POSITION', `slot ${name} ${now} while the tables were looked at`, {
    exit: ExitCode.usage,
    remedy: 'stop what streams from it, let what writes the lake come to an end, and give the command again',
  });
}

/** Events of an earlier pipeline of that name would be taken for what came behind the slot. @throws SluiceError ADOPT_POSITION */
async function requireNewLog({ config, reload, tables }: TakeOver): Promise<void> {
  const log = await openLog(config, reload);
  try {
    await makeTopics(log, config, tables);
    const ours = [
      progressTopic(config.name),
      ...tables.map(({ schema, table }) => dataTopic(config.name, schema, table)),
    ];
    const written: string[] = [];
    for (const topic of ours)
      for (const { end } of (await log.reader.bounds(topic)).values()) if (end > 0n) written.push(topic);
    const saved = await loadReaderState(log.reader, config.name);
    if (saved.position === null && written.length === 0) return;
    throw new SluiceError(
      'ADOPT_POSITION',
      `the log has events of an earlier pipeline '${config.name}' (${written[0] ?? readerTopic(config.name)})`,
      { exit: ExitCode.usage, remedy: 'give the pipeline another name, or end the earlier one with `sluice teardown`' },
    );
  } finally {
    await log.close();
  }
}

/** What the reader finds at its first start: the slot's position, and tables that need no snapshot. */
export async function writeReaderState(take: TakeOver, slot: SlotTakeOver): Promise<void> {
  const { config, reload, tables } = take;
  const { name } = config;
  const log = await openLog(config, reload);
  try {
    await makeTopics(log, config, tables);
    const saved = await loadReaderState(log.reader, name);
    // An earlier takeover came so far: the reader may have gone on since.
    if (saved.position !== null) return;
    const [system] = await slot.replication.query('IDENTIFY_SYSTEM');
    const position = positionRecord(name, {
      systemIdentifier: system?.['systemid'] ?? '',
      timeline: Number(system?.['timeline'] ?? 0),
      database: slot.database,
      slot: config.source.slot,
      logId: await log.admin.logId(),
      epoch: 1,
      lsn: slot.from,
      ord: -1,
      open: false,
      confirmLsn: slot.from,
      sequence: 0,
      bytes: 0n,
      sourceTimeMicros: 0n,
      unseenXids: [],
    });
    const writer = await log.writer(`${name}-reader`);
    try {
      const known = tables.flatMap(({ shape, state }) =>
        state === null ? [] : [shapeRecord(name, shape), tableRecord(name, state)],
      );
      await writer.append([], () => [...known, position]);
    } finally {
      await writer.close();
    }
    await take.failpoint('after-adopt-state');
  } finally {
    await log.close();
  }
}

async function makeTopics(log: EventLog, config: Config, tables: readonly AdoptTable[]): Promise<void> {
  const { partitions, replicationFactor, retention } = config.log;
  const data = { partitions, replicationFactor, retentionMs: retention, compacted: false };
  await log.admin.ensureTopics({
    [readerTopic(config.name)]: { partitions: 1, replicationFactor, retentionMs: -1, compacted: true },
    [progressTopic(config.name)]: { partitions: 1, replicationFactor, retentionMs: retention, compacted: false },
    ...Object.fromEntries(tables.map(({ schema, table }) => [dataTopic(config.name, schema, table), data])),
  });
}

/** Each table by its one owner, the stream half started here for as long as it takes. */
export async function takeTables(take: TakeOver): Promise<void> {
  const { config, reload, tables, tell } = take;
  const due = tables.filter(({ done }) => !done);
  for (const { schema, table } of due) {
    await prepareTable(take, schema, table);
    await take.failpoint('after-adopt-prepare');
  }
  if (due.length === 0) return;
  const pipeline = await startPipeline({
    config,
    reload,
    parts: { reader: false, stream: true },
    logger: createLogger({ level: 'silent', pipeline: config.name }),
    metrics: createMetrics(),
    failpoint: take.failpoint,
    availableNow: false,
  });
  try {
    for (const each of due) {
      const id = `${each.schema}.${each.table}`;
      await owned(pipeline, id, take.signal);
      await pipeline.ingest?.moveTo(id, { ...(await tailOf(pipeline, config, each)), lsn: take.lsn });
      const stopped = await pipeline.ingest?.check(id);
      if (stopped != null)
        throw new SluiceError('TABLE_STANDS_STILL', `${id} stands still: ${stopped.message}`, {
          exit: ExitCode.namedState,
          remedy: stopped.remedy,
        });
      tell(`${id} is taken over\n`);
      await take.failpoint('after-adopt-table');
    }
  } finally {
    await pipeline.stop();
  }
}

async function prepareTable({ lake, deletionVectors }: TakeOver, schema: string, table: string): Promise<void> {
  if (!deletionVectors) return;
  const snapshot = await openSnapshot(subStore(lake, tableFolder(schema, table)));
  await changeTable(snapshot, { kind: 'properties', set: { 'delta.enableDeletionVectors': 'true' } });
}

async function owned(pipeline: Pipeline, id: string, signal: AbortSignal): Promise<void> {
  for (const until = Date.now() + SHARED_MS; pipeline.ingest?.owned(id) == null;) {
    signal.throwIfAborted();
    if (Date.now() > until)
      throw new SluiceError('SERVICE_UNREACHABLE', `another stream worker has ${id}, or nobody shares it out`, {
        exit: ExitCode.environment,
        remedy: 'stop the running `sluice run` or `sluice stream` of this pipeline first',
      });
    await sleep(POLL_MS, undefined, { signal });
  }
}

/** A new log from its beginning; a topic of others from the offsets that were given. */
async function tailOf(pipeline: Pipeline, config: Config, each: AdoptTable): Promise<LogTail> {
  if (each.offsets !== null) return { markSequence: 0, progressOffset: 0n, nextOffsets: each.offsets };
  const bounds = await pipeline.log.reader.bounds(dataTopic(config.name, each.schema, each.table));
  return {
    markSequence: 0,
    progressOffset: 0n,
    nextOffsets: new Map([...bounds.keys()].map((partition) => [partition, 0n as LogOffset])),
  };
}
