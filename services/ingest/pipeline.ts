/**
 * The stream half of the product: discovers the tables that the reader writes, runs one ingest query for each, and keeps
 * what they share: the marks, the barriers of `consistent.json`, the memory budget, retention and the group mirror.
 */
import { createHasher } from '../../contracts/engine/privacy.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { Mark } from '../log/event.ts';
import type { EventLog } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic } from '../log/topics.ts';
import type { QueryProgress } from '../stream/progress.ts';
import { followMarks, progressBounds, readMarks } from '../stream/sources/mark-feed.ts';
import { createMarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { BatchSink } from '../stream/sink.ts';
import type { Trigger, Clock } from '../stream/triggers.ts';
import { createByteBudget } from './byte-budget.ts';
import { createBarrierKeeper, writeConsistent } from './consistent.ts';
import type { ConsistentCut } from './consistent.ts';
import { createContractBook } from './contract-book.ts';
import type { ContractTools } from './contract-book.ts';
import type { ContractFiles } from './contract-files.ts';
import { contractTools } from './contract-tools.ts';
import { createIngestTable } from './ingest-table.ts';
import type { IngestTable } from './ingest-table.ts';
import type { SinkResult } from './merge-sink.ts';
import { createQuarantinePublisher } from './quarantine-topic.ts';
import { createShapeFeed } from './shape-feed.ts';
import { createSinkQuery } from './sink-query.ts';
import type { SinkQuery } from './sink-query.ts';
import { createSteward } from './steward.ts';
import { startTableRunner } from './table-runner.ts';
import type { Failure, TableRunner } from './table-runner.ts';
import { createTableTarget } from './table-target.ts';
import { reportStatus } from './status.ts';
import type { IngestStatus } from './status.ts';

export interface IngestOptions {
  readonly name: string;
  readonly log: EventLog;
  /** The lake's root. */
  readonly lake: ObjectStore;
  /** Where checkpoints are kept: default the lake, under `_sluice/checkpoints`. */
  readonly checkpoint?: { readonly store: ObjectStore; readonly folder: string };
  /** Local folder: key indexes, all rebuildable. */
  readonly stateFolder: string;
  readonly contracts: ContractFiles;
  /** The contract engine; default `contract-tools.ts`. */
  readonly tools?: ContractTools;
  /** Key for `piiAction: hash`, 16 bytes or more; without it a contract that asks for hashing stops its table. */
  readonly piiKey?: Uint8Array;
  readonly trigger: Trigger;
  readonly maxOffsetsPerTrigger: number;
  /** Bytes of events in hand, all tables together. */
  readonly memoryBytes: number;
  /** Batches that run side by side. */
  readonly parallel?: number;
  readonly changeDataFeed?: boolean;
  readonly deletionVectors?: boolean;
  /** ms; how long the log keeps events. */
  readonly retentionMs?: number;
  /** Tables (`schema.table`) that this worker owns; default all. */
  readonly owns?: (schema: string, table: string) => boolean;
  /** More sinks: each gets every batch of the tables it wants, in its own query with its own checkpoint. */
  readonly queries?: readonly UserQuery[];
  /** Parked events go to `<topic>.quarantine`, too. Default true. */
  readonly quarantineTopics?: boolean;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly failpoint?: (name: string) => Promise<void> | void;
  readonly onProgress?: (progress: QueryProgress, result: SinkResult) => void;
  readonly onQueryProgress?: (progress: QueryProgress) => void;
  readonly onFailure?: (failure: Failure) => void;
  /** Feed failures (log unreachable): the pipeline goes on trying. */
  readonly onFeedFailure?: (error: unknown) => void;
}

export interface UserQuery {
  /** Unique in the pipeline; part of its checkpoint's place. */
  readonly name: string;
  readonly sink: BatchSink;
  /** Default: all tables. */
  readonly wants?: (schema: string, table: string) => boolean;
}

export interface IngestHandle {
  status(): IngestStatus;
  /** Every table has reached a closed mark at or beyond this LSN, and no snapshot is running. */
  catchUp(lsn: bigint, signal?: AbortSignal): Promise<void>;
  /** Every table has reached the newest mark that stands in the log now. */
  drain(signal?: AbortSignal): Promise<void>;
  /** LSN below which everything is committed in the lake: what may be confirmed with the embedded log. Null = none yet. */
  committedLsn(): bigint | null;
  /** The quarantine of a table (`schema.table`): listing, retry and drop go through its one owner. Null = no such table. */
  quarantine(id: string): TableQuarantine | null;
  pause(id: string): void;
  resume(id: string): void;
  /** Finishes the batches in hand, or leaves them to be run again after `withinMs` (default 8 s). */
  stop(withinMs?: number): Promise<void>;
  /** Resolves when everything has ended (available-now: when the log's end was reached). */
  readonly done: Promise<void>;
}

export type TableQuarantine = Pick<IngestTable, 'list' | 'show' | 'retry' | 'drop'>;

const MIB = 1024 * 1024;
const FEED_RETRY_MS = 500;
const WAIT_POLL_MS = 20;
const FENCE_RETENTION_MIN_MS = 7 * 24 * 3600 * 1000;

export async function startIngest(options: IngestOptions): Promise<IngestHandle> {
  const { name, log, lake, clock } = options;
  const abort = new AbortController();
  const { signal } = abort;
  const logId = await log.admin.logId();
  const runId = options.newId();
  const timeline = createMarkTimeline();
  const shapes = createShapeFeed(log.reader, name);
  const contracts = createContractBook({
    pipeline: name,
    files: options.contracts,
    tools: options.tools ?? contractTools,
    hasher: options.piiKey === undefined ? null : createHasher(options.piiKey),
    store: lake,
  });
  const parallel = options.parallel ?? 2;
  const budget = createByteBudget(options.memoryBytes, parallel);
  const batchBytesMax = Math.max(MIB, Math.floor(options.memoryBytes / (4 * parallel)));
  const keeper = createBarrierKeeper();
  const publisher = createQuarantinePublisher(log, name, options.quarantineTopics ?? true);
  const runners = new Map<string, TableRunner>();
  const queryRunners: TableRunner<SinkQuery>[] = [];
  const topics = new Map<string, string>();
  const steward = createSteward({ name, log, clock });
  let cut: ConsistentCut | null = null;
  let writing: Promise<void> = Promise.resolve();

  function addTable(schema: string, table: string): void {
    const id = `${schema}.${table}`;
    topics.set(dataTopic(name, schema, table), id);
    if (runners.has(id) || !(options.owns?.(schema, table) ?? true)) return;
    const failpoint = options.failpoint ?? ((): void => undefined);
    const target = createTableTarget({
      schemaName: schema,
      tableName: table,
      lake,
      stateFolder: options.stateFolder,
      changeDataFeed: options.changeDataFeed ?? true,
      deletionVectors: options.deletionVectors ?? true,
      fenceRetentionMs: Math.max(FENCE_RETENTION_MIN_MS, options.retentionMs ?? 0),
      failpoint,
    });
    const ingest = createIngestTable({
      name,
      runId,
      schemaName: schema,
      tableName: table,
      logId,
      reader: log.reader,
      lake,
      checkpointStore: options.checkpoint?.store ?? lake,
      checkpointRoot: options.checkpoint?.folder ?? '_sluice/checkpoints',
      target,
      shapes,
      timeline,
      contracts,
      limits: { maxOffsetsPerTrigger: options.maxOffsetsPerTrigger, batchBytesMax },
      readBytesMax: Math.min(batchBytesMax, 4 * MIB),
      awaitingBytesMax: Math.max(64 * MIB, options.memoryBytes),
      now: () => clock.now(),
      newId: options.newId,
      publish: publisher === null ? null : (records) => publisher.publish(records),
      failpoint,
      onProgress: (progress, result) => options.onProgress?.(progress, result),
    });
    const runner = startTableRunner({
      id,
      table: ingest,
      clock,
      intervalMs: options.trigger.kind === 'interval' ? options.trigger.intervalMs : 0,
      budget,
      batchBytesEstimate: batchBytesMax,
      barrier: () => keeper.barrier(),
      signal,
      afterStep: () => afterStep(ingest),
      onFailure: (failure) => options.onFailure?.(failure),
    });
    runners.set(id, runner);
    for (const query of options.queries ?? []) if (query.wants?.(schema, table) ?? true) addQuery(query, schema, table);
  }

  function addQuery(query: UserQuery, schema: string, table: string): void {
    const steps = createSinkQuery({
      queryName: query.name,
      pipeline: name,
      runId,
      schemaName: schema,
      tableName: table,
      logId,
      reader: log.reader,
      lake,
      checkpointStore: options.checkpoint?.store ?? lake,
      checkpointRoot: options.checkpoint?.folder ?? '_sluice/checkpoints',
      shapes,
      timeline,
      contracts,
      limits: { maxOffsetsPerTrigger: options.maxOffsetsPerTrigger, batchBytesMax },
      readBytesMax: Math.min(batchBytesMax, 4 * MIB),
      now: () => clock.now(),
      newId: options.newId,
      sink: query.sink,
      failpoint: options.failpoint ?? ((): void => undefined),
      onProgress: (progress) => options.onQueryProgress?.(progress),
    });
    queryRunners.push(
      startTableRunner({
        id: `${query.name}:${schema}.${table}`,
        table: steps,
        clock,
        intervalMs: options.trigger.kind === 'interval' ? options.trigger.intervalMs : 0,
        budget,
        batchBytesEstimate: batchBytesMax,
        barrier: () => null,
        signal,
        afterStep: forgetMarks,
        onFailure: (failure) => options.onFailure?.(failure),
      }),
    );
  }

  function forgetMarks(): void {
    const all = [...runners.values(), ...queryRunners];
    timeline.forget(Math.min(...all.map(({ table }) => table.position().markSequence)));
  }

  /** Nothing below these offsets is needed by any query of the topic. */
  function releasable(ingest: IngestTable): ReadonlyMap<number, LogOffset> {
    const offsets = new Map(ingest.releasable());
    for (const { table } of queryRunners) {
      if (table.topic !== ingest.topic) continue;
      const needed = table.releasable();
      for (const [partition, offset] of offsets) {
        const theirs = needed.get(partition) ?? (0n as LogOffset);
        if (theirs < offset) offsets.set(partition, theirs);
      }
    }
    return offsets;
  }

  function afterStep(ingest: TableRunner['table']): void {
    lookForCut();
    steward.tableMoved(ingest, releasable(ingest));
    if (queryRunners.length === 0)
      steward.marksDone([...runners.values()].map(({ table }) => table.committed()?.progressOffset ?? null));
    forgetMarks();
  }

  function lookForCut(): void {
    const tables = [...runners.values()].map((runner) => ({
      id: runner.id,
      reached: runner.table.position().markSequence,
      ahead: runner.table.ahead(),
      version: runner.table.version(),
      active: runner.state() === 'STREAMING',
    }));
    const before = keeper.barrier();
    const found = keeper.look(tables, timeline.newestClosed());
    if (keeper.barrier() !== before) for (const runner of runners.values()) runner.wake();
    // Another worker's tables are not in our cut.
    if (found === null || options.owns !== undefined || sameVersions(cut, found)) return;
    cut = found;
    writing = writing.then(() =>
      writeConsistent(lake, name, found, (id) => runners.get(id)?.table.folder ?? id).catch(options.onFeedFailure),
    );
  }

  async function onMark(mark: Mark, offset: bigint): Promise<void> {
    if (Object.keys(mark.nextOffsets).some((topic) => !topics.has(topic))) {
      await shapes.refresh();
      for (const { schema, table } of shapes.tables()) addTable(schema, table);
    }
    timeline.add(mark, offset);
    steward.marked(mark);
  }

  /** Batches are planned when all marks that came together are known: fewer and fuller ones. */
  function onMarks(): void {
    lookForCut();
    for (const runner of [...runners.values(), ...queryRunners]) runner.wake();
  }

  /** Where the furthest-behind table stopped; null, where a table has no batch yet or a user's query keeps its own place. */
  async function firstMark(): Promise<bigint | null> {
    if (runners.size === 0 || queryRunners.length > 0) return null;
    try {
      const offsets = await Promise.all([...runners.values()].map(({ table }) => table.progressOffset()));
      return offsets.reduce(
        (least, offset) => (least === null || offset === null || offset < least ? offset : least),
        offsets[0] ?? null,
      );
    } catch {
      // The table's own first step says what is wrong with it.
      return null;
    }
  }

  /** Marks from where the furthest-behind table stopped; from the beginning where a table has none. */
  async function feed(): Promise<void> {
    let next: LogOffset | null = null;
    while (!signal.aborted) {
      try {
        const bounds = await progressBounds(log.reader, name);
        if (bounds === null) {
          await clock.sleep(FEED_RETRY_MS, signal);
          continue;
        }
        next ??= ((await firstMark()) ?? bounds.earliest) as LogOffset;
        if (next < bounds.earliest) next = bounds.earliest;
        const seen = async (mark: Mark, offset: bigint): Promise<void> => {
          await onMark(mark, offset);
          next = (offset + 1n) as LogOffset;
        };
        await followMarks({ reader: log.reader, name, from: next, signal, onMark: seen, onBatch: onMarks });
      } catch (error) {
        if (signal.aborted) return;
        options.onFeedFailure?.(error);
        await clock.sleep(FEED_RETRY_MS, signal);
      }
    }
  }

  async function reach(reached: () => boolean, other?: AbortSignal): Promise<void> {
    while (!reached() && !signal.aborted && other?.aborted !== true) await clock.sleep(WAIT_POLL_MS, signal);
  }

  const active = (): TableRunner[] => [...runners.values()].filter((runner) => runner.state() === 'STREAMING');
  const allAt = (sequence: number): boolean =>
    [...active(), ...queryRunners.filter((runner) => runner.state() === 'STREAMING')].every(
      ({ table }) => table.position().markSequence >= sequence,
    );

  async function drain(other?: AbortSignal): Promise<void> {
    const bounds = await progressBounds(log.reader, name);
    if (bounds === null || bounds.end === 0n) return;
    let last = -1;
    const from = (bounds.end > 1000n ? bounds.end - 1000n : bounds.earliest) as LogOffset;
    await readMarks({
      reader: log.reader,
      name,
      from: from > bounds.earliest ? from : bounds.earliest,
      to: bounds.end,
      onMark: async ({ sequence }) => {
        last = Math.max(last, sequence);
      },
    });
    await reach(() => (timeline.newest()?.mark.sequence ?? -1) >= last && allAt(last), other);
    await writing;
  }

  async function stop(withinMs = 8000): Promise<void> {
    abort.abort();
    const ended = Promise.all([feeding, ...[...runners.values(), ...queryRunners].map(({ done }) => done)]);
    const giveUp = new AbortController();
    // What hangs in a batch is left as it is: the batch runs again, and its objects are named by no commit.
    const within = (work: Promise<unknown>): Promise<unknown> =>
      Promise.race([work.catch(() => undefined), clock.sleep(withinMs, giveUp.signal)]);
    await within(ended);
    await within(writing.then(() => steward.settle()));
    await within(Promise.all([publisher?.close(), ...[...runners.values()].map(({ table }) => table.close())]));
    giveUp.abort();
  }

  await shapes.refresh();
  for (const { schema, table } of shapes.tables()) addTable(schema, table);
  const feeding = feed();
  const done =
    options.trigger.kind === 'available-now'
      ? drain().then(() => stop())
      : feeding.then(async () => {
          await Promise.all([...runners.values()].map((runner) => runner.done));
        });

  return {
    status: () => reportStatus({ name, logId, runners: [...runners.values()], timeline, cut, inUse: budget.inUse() }),
    async catchUp(lsn, other) {
      await reach(() => {
        const closed = timeline.newestClosed();
        return (
          closed !== null &&
          closed.mark.confirmLsn >= lsn &&
          closed.mark.snapshotting.length === 0 &&
          allAt(closed.mark.sequence)
        );
      }, other);
      await writing;
    },
    drain,
    committedLsn: () => {
      const sequence = Math.min(...active().map(({ table }) => table.position().markSequence), Number.MAX_SAFE_INTEGER);
      return steward.confirmLsn(sequence);
    },
    quarantine(id) {
      const runner = runners.get(id);
      if (runner === undefined) return null;
      return {
        list: (wanted) => runner.table.list(wanted),
        show: (row) => runner.table.show(row),
        retry: (ids) => runner.exclusive((table) => table.retry(ids)),
        drop: (ids) => runner.exclusive((table) => table.drop(ids)),
      };
    },
    pause: (id) => runners.get(id)?.pause(),
    resume: (id) => runners.get(id)?.resume(),
    stop,
    done,
  };
}

function sameVersions(a: ConsistentCut | null, b: ConsistentCut): boolean {
  if (a === null || a.versions.size !== b.versions.size || a.left.length !== b.left.length) return false;
  for (const [id, version] of b.versions) if (a.versions.get(id) !== version) return false;
  return b.mark.atMs - a.mark.atMs < CUT_REFRESH_MS;
}
/** A cut whose versions did not change is written again this often: its LSN moves on. */
const CUT_REFRESH_MS = 10_000;
