/** Builds the parts of a running pipeline from the configuration: reader, stream, or both in one process. */
import { randomUUID } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { probeConditionalPut } from '../../lakehouse/store/probe.ts';
import type { RequestRows } from '../ingest/base-requests.ts';
import { contractFolder } from '../ingest/contract-files.ts';
import { startIngest, type IngestHandle, type UserQuery } from '../ingest/pipeline.ts';
import { loadForeachBatch } from '../stream/sinks/foreach-batch.ts';

import type { EventLog } from '../log/log.ts';
import { findPublication } from '../reader/publication.ts';
import { loadReaderState } from '../reader/reader-state.ts';
import { startReader } from '../reader/reader.ts';
import { dropSlot, findSlot } from '../reader/slot.ts';
import { assertNotBuilt } from '../replay/replay/build-table.ts';
import { settleSwap } from '../replay/replay/swap-steps.ts';
import type { ReaderHandle } from '../reader/reader-options.ts';
import type { PostgresSource } from '../reader/source.ts';
import { systemClock } from '../stream/triggers.ts';
import type { Config } from '../runtime/config.ts';
import type { FailpointHook } from '../runtime/failpoints.ts';
import { failureCode } from '../runtime/failure-code.ts';
import type { Logger } from '../runtime/logger.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { foreignTables } from './assemble/foreign-tables.ts';
import { checkAgainstLog, checkAgainstSource } from './assemble/contract-check.ts';
import { startStandingReader } from './standing-reader.ts';
import { claimLake, IDENTITY_KEY, identityOf, readIdentity } from './assemble/identity.ts';
import { makeStateFolder, takeStateFolder } from './assemble/state-folder.ts';
import { readDifferences, type FoundDifferences } from './found-differences.ts';
import { readPaused } from './paused-tables.ts';
import { lakeFloor } from './assemble/lake-floor.ts';
import { noCounts, openCheckpoint, openLake, type StoreCounts } from './assemble/lake.ts';
import { openLog } from './assemble/log.ts';
import { replayParts } from './assemble/replay-parts.ts';
import { logPrivacy, piiKey } from './assemble/log-privacy.ts';
import { rowRequests } from './assemble/row-requests.ts';
import { openSource } from './assemble/source.ts';
import { importTypeScript, isTypeScript } from './assemble/typescript-module.ts';
import { passingTrouble, type Trouble } from './passing-trouble.ts';

export interface PipelineParts {
  readonly reader: boolean;
  readonly stream: boolean;
}

export interface PipelineOptions {
  readonly config: Config;
  readonly reload: () => Config;
  readonly parts: PipelineParts;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly failpoint: FailpointHook;
  /** For drills: a store that lies about what it did. */
  readonly wrapLake?: (lake: ObjectStore) => ObjectStore;
  /** Ends when everything that stands in the log (or at the source) at the start is committed. */
  readonly availableNow: boolean;
  /** Answer to a broken source (slot lost or moved, another system): default stop by name. */
  readonly onSourceBreak?: 'stop' | 'resnapshot';
  /** Ends the start between two of its steps. */
  readonly signal?: AbortSignal;
}

/** The stream's last failure that belongs to no table, with the newest mark of that time: a newer one, and it has passed. */
interface Feed {
  failed: { readonly code: string; readonly message: string; readonly mark: number } | null;
  onFailure(error: unknown): void;
}

export interface Pipeline {
  readonly reader: ReaderHandle | null;
  readonly ingest: IngestHandle | null;
  readonly source: PostgresSource | null;
  readonly lake: ObjectStore;
  readonly log: EventLog;
  readonly counts: StoreCounts;
  /** Differences that the last verification of a table found, as `verify` and `repair` tell, or told before a restart. */
  readonly verified: Map<string, FoundDifferences>;
  /** Why no mark comes from the log, where that has a name. */
  feedTrouble(): Trouble | null;
  /** Rejects when a part cannot go on; resolves when stopped. */
  readonly done: Promise<void>;
  stop(): Promise<void>;
}

/** @throws the signal's reason when it is aborted meanwhile; then nothing is left behind */
export async function startPipeline(options: PipelineOptions): Promise<Pipeline> {
  const { config, parts, logger, metrics, signal } = options;
  makeStateFolder(config.state);
  const counts = noCounts();
  const undo: (() => Promise<unknown>)[] = [];
  try {
    const opened = openLake(config, metrics, counts);
    const lake = options.wrapLake?.(opened) ?? opened;
    undo.push(() => lake.close());
    await probeConditionalPut(lake);
    signal?.throwIfAborted();
    const source = parts.reader ? await openSource(config, options.reload) : null;
    const contracts = contractFolder(config.contracts);
    if (source !== null && parts.stream) await checkAgainstSource(source, config, contracts, lake);
    signal?.throwIfAborted();
    const claimed = source === null ? null : await claim(source, lake, config);
    if (source !== null && claimed?.recorded === true) undo.push(() => forgetUnused(source, lake, config));
    const log = await openLog(config, options.reload);
    undo.push(() => log.close());
    signal?.throwIfAborted();
    if (source === null && config.log.debezium.topics.length === 0)
      await checkAgainstLog(log.reader, config.name, contracts, lake);
    if (source !== null && claimed?.slotStood === false) undo.push(() => dropUnusedSlot(source, log, config));
    signal?.throwIfAborted();
    let ingest: IngestHandle | null = null;
    const verified: Pipeline['verified'] = new Map();
    const feed: Feed = {
      failed: null,
      onFailure(error) {
        const message = error instanceof Error ? error.message : String(error);
        feed.failed = { code: failureCode(error), message, mark: ingest?.status().logMark ?? 0 };
      },
    };
    const startReaderOf = (from: PostgresSource): Promise<ReaderHandle> => {
      const start = (onSourceBreak?: 'resnapshot'): Promise<ReaderHandle> =>
        openReader(onSourceBreak === undefined ? options : { ...options, onSourceBreak }, from, log, lake, () =>
          parts.stream ? (ingest?.committedLsn() ?? 0n) : null,
        );
      return options.availableNow ? start() : startStandingReader(start, logger, heartbeatMs(config) / 2);
    };
    const reader = source === null ? null : await startReaderOf(source);
    if (reader !== null) undo.push(() => reader.stop());
    signal?.throwIfAborted();
    const requests = rowRequests({ log, config, reader, logger });
    undo.push(() => requests.close());
    if (parts.stream) {
      const state = log.join == null ? null : takeStateFolder(config.state);
      undo.push(() => Promise.resolve(state?.release()));
      ingest = await openIngest(options, log, lake, state?.path ?? config.state, requests.request, feed, verified);
      const started = ingest;
      undo.push(() => started.stop(BATCH_STOP_MS));
    }
    const ends: Promise<void>[] = [];
    // A reader that was stopped in order leaves the rest running.
    if (reader !== null) ends.push(reader.done.then(() => new Promise<never>(() => undefined)));
    if (ingest !== null) ends.push(ingest.done);
    let stopping: Promise<void> | null = null;
    return {
      reader,
      ingest,
      source,
      lake,
      log,
      counts,
      verified,
      feedTrouble: () => {
        const failed = feed.failed;
        return failed === null || failed.mark !== ingest?.status().logMark
          ? null
          : passingTrouble(failed.code, failed.message);
      },
      done: Promise.race(ends),
      stop() {
        stopping ??= unwind(undo, (error) => logger.warn({ err: error }, 'a part did not stop in order'));
        return stopping;
      },
    };
  } catch (error) {
    await unwind(undo, () => undefined);
    throw error;
  }
}

/** No look costs so little that it may come all the time. */
const HEARTBEAT_MS_MIN = 500;
const heartbeatMs = ({ source }: Config): number => Math.max(HEARTBEAT_MS_MIN, source.heartbeat);

/** The user's own function beside the merge, as a query of its own with its own checkpoint. */
async function userQueries(config: Config, base: string): Promise<readonly UserQuery[]> {
  const { foreachBatch } = config.stream;
  if (foreachBatch === null) return [];
  const path = resolve(base, foreachBatch);
  const sink = isTypeScript(path) ? await loadForeachBatch(path, importTypeScript) : await loadForeachBatch(path);
  return [{ name: 'foreach', sink }];
}

/** A batch in hand may end within this; then it is left to be run again. */
const BATCH_STOP_MS = 5_000;
const STOP_MS = 6_500;

/** Ends the parts in order while there is time, then all that are left at once: each closes what it has open. */
async function unwind(undo: readonly (() => Promise<unknown>)[], onError: (error: unknown) => void): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => (timer = setTimeout(resolve, STOP_MS)));
  for (const step of undo.toReversed()) await Promise.race([step().catch(onError), limit]);
  clearTimeout(timer);
}

/** A start that failed, or was ended before anything was in the log, leaves no slot that would hold WAL for ever. */
async function dropUnusedSlot(source: PostgresSource, log: EventLog, config: Config): Promise<void> {
  if ((await loadReaderState(log.reader, config.name)).position !== null) return;
  const session = await source.session('unused slot');
  try {
    await dropSlot(session, config.source.slot);
  } finally {
    await session.close();
  }
}

/**
 * A first start that left nothing of its own at the source takes its identity back: whoever makes the publication now owns it,
 * so that teardown must not drop it, and the next start may have another name.
 */
async function forgetUnused(source: PostgresSource, lake: ObjectStore, config: Config): Promise<void> {
  const session = await source.session('unused identity');
  try {
    const { slot, publication } = config.source;
    const made = (await readIdentity(lake))?.madePublication === true;
    const left =
      (await findSlot(session, slot)) !== null || (made && (await findPublication(session, publication)) !== null);
    if (!left) await lake.delete([IDENTITY_KEY]);
  } finally {
    await session.close();
  }
}

/** Holds the lake to this pipeline. `recorded`: this is its first start; `slotStood`: its slot was there before. */
async function claim(
  source: PostgresSource,
  lake: ObjectStore,
  config: Config,
): Promise<{ readonly recorded: boolean; readonly slotStood: boolean }> {
  const session = await source.session('pipeline identity');
  try {
    const { slot, publication } = config.source;
    const recorded = await claimLake(lake, await identityOf(session, { name: config.name, slot, publication }));
    return { recorded, slotStood: (await findSlot(session, slot)) !== null };
  } finally {
    await session.close();
  }
}

function openReader(
  options: PipelineOptions,
  source: PostgresSource,
  log: EventLog,
  lake: ObjectStore,
  committed: () => bigint | null,
): Promise<ReaderHandle> {
  const { config } = options;
  return startReader({
    name: config.name,
    source,
    log,
    slot: config.source.slot,
    publication: config.source.publication,
    // As the file says now: `sluice add` and `remove` change it under the running service.
    tables: options.reload().source.tables,
    newTables: config.source.newTables,
    streaming: config.source.streaming === 'on' ? { folder: join(config.state, 'streamed') } : null,
    logKind: config.log.kind,
    topic: {
      partitions: config.log.partitions,
      replicationFactor: config.log.replicationFactor,
      retentionMs: config.log.retention,
      compacted: false,
    },
    snapshotParallel: config.source.snapshot.parallel,
    snapshotChunkRows: config.source.snapshot.chunkRows,
    putLarge: (key, bytes) => lake.put(key, bytes),
    // The embedded log lives on this machine's disk alone: only what the lake has may be forgotten by the source.
    committedLsn: config.log.kind === 'embedded' && options.parts.stream ? () => committed() ?? 0n : null,
    logger: options.logger,
    clock: Date.now,
    runId: randomUUID(),
    failpoint: options.failpoint,
    limits: { heartbeatMs: heartbeatMs(config), idleMarkMs: heartbeatMs(config) },
    onSourceBreak: options.onSourceBreak ?? 'stop',
    privacy: logPrivacy(contractFolder(config.contracts), piiKey(config)),
    lakeFloor: (tables) => lakeFloor(lake, config.name, tables),
  });
}

async function openIngest(
  options: PipelineOptions,
  log: EventLog,
  lake: ObjectStore,
  stateFolder: string,
  requestRows: RequestRows | null,
  feed: Feed,
  verified: Pipeline['verified'],
): Promise<IngestHandle> {
  const { config, logger, metrics } = options;
  const queries = await userQueries(config, process.cwd());
  const contracts = contractFolder(config.contracts);
  const foreign = await foreignTables(config, contracts);
  const key = piiKey(config);
  const checkpoint = openCheckpoint(config);
  return startIngest({
    ...(foreign === null ? {} : { foreign }),
    ...(checkpoint === null ? {} : { checkpoint }),
    queries,
    // Other writers' topics have no reader of ours to ask.
    ...(foreign === null && requestRows !== null ? { requestRows } : {}),
    name: config.name,
    log,
    lake,
    stateFolder,
    replicationFactor: config.log.replicationFactor,
    pausedTables: () => readPaused(lake),
    contracts,
    ...(key === null ? {} : { piiKey: key }),
    trigger:
      config.stream.trigger === 'available-now'
        ? { kind: 'available-now' }
        : // Catching up wants the next batch at once, not at the next tick.
          {
            kind: 'interval',
            intervalMs: options.availableNow ? Math.min(200, config.stream.trigger) : config.stream.trigger,
          },
    maxOffsetsPerTrigger: config.stream.maxOffsetsPerTrigger,
    memoryBytes: config.stream.memory,
    changeDataFeed: config.lake.cdf,
    deletionVectors: config.lake.deletionVectors,
    retentionMs: config.log.retention,
    clock: systemClock,
    newId: randomUUID,
    failpoint: options.failpoint,
    continuityMs: heartbeatMs(config),
    async beforeTable(schema, table) {
      const id = `${schema}.${table}`;
      const found = await readDifferences(lake, id);
      if (found !== null && !verified.has(id)) verified.set(id, found);
      await assertNotBuilt(lake, { schema, table });
      await settleSwap(await replayParts(config, { lake, log }, options.failpoint), { schema, table });
    },
    onProgress(progress, result, table) {
      metrics.streamBatches.inc({ table });
      metrics.streamBatchSeconds.observe({ table }, progress.durationMs.triggerExecution / 1000);
      for (const [outcome, rows] of Object.entries(result.ledger)) {
        if (outcome !== 'read' && typeof rows === 'number' && rows > 0)
          metrics.streamRows.inc({ table, outcome }, rows);
      }
      logger.debug({ progress }, 'batch committed');
    },
    onFailure: ({ id, error, ...rest }) =>
      logger.error({ table: id, err: error, ...rest }, 'a table stopped or is being tried again'),
    onFeedFailure(error) {
      feed.onFailure(error);
      logger.warn({ err: error }, 'the log did not answer; trying again');
    },
    onNotice: ({ message, hint, ...table }) => logger.warn({ ...table, hint }, message),
  });
}
