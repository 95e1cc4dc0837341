/**
 * The stream half of the product: discovers the tables that the reader writes, runs one ingest query for each, and keeps
 * what they share: the marks, the barriers of `consistent.json`, the memory budget, retention and the group mirror.
 */
import { setMaxListeners } from 'node:events';
import { createHasher } from '../../contracts/engine/privacy.ts';
import type { Mark } from '../log/event.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic } from '../log/topics.ts';
import { progressBounds, readMarks } from '../stream/sources/mark-feed.ts';
import { createMarkTimeline } from '../stream/sources/mark-timeline.ts';
import { createByteBudget } from './byte-budget.ts';
import { createBarrierKeeper, writeConsistent } from './consistent.ts';
import type { ConsistentCut } from './consistent.ts';
import { createContractBook } from './contract-book.ts';
import { contractTools } from './contract-tools.ts';
import { createCutMaker, fixedShapes } from './foreign-topics.ts';
import type { ForeignTable } from './foreign-topics.ts';
import { createIngestTable } from './ingest-table.ts';
import type { IngestTable } from './ingest-table.ts';
import { createQuarantinePublisher } from './quarantine-topic.ts';
import { createShapeFeed } from './shape-feed.ts';
import { createSinkQuery } from './sink-query.ts';
import type { SinkQuery } from './sink-query.ts';
import { feedCuts, feedMarks } from './mark-source.ts';
import type { IngestHandle, IngestOptions, UserQuery } from './ingest-options.ts';
import { createSteward } from './steward.ts';
import { startTableRunner } from './table-runner.ts';
import type { TableRunner } from './table-runner.ts';
import { createTableTarget } from './table-target.ts';
import type { TableTarget } from './table-target.ts';
import { reportStatus } from './status.ts';

export type { IngestHandle, IngestOptions, OwnedTable, TableQuarantine, UserQuery } from './ingest-options.ts';

const MIB = 1024 * 1024;
const WAIT_POLL_MS = 20;
const FENCE_RETENTION_MIN_MS = 7 * 24 * 3600 * 1000;

export async function startIngest(options: IngestOptions): Promise<IngestHandle> {
  const { name, log, lake, clock } = options;
  const abort = new AbortController();
  const { signal } = abort;
  // Every table listens to it: Node's warning at eleven listeners takes that for a leak.
  setMaxListeners(0, signal);
  const logId = await log.admin.logId();
  const runId = options.newId();
  const timeline = createMarkTimeline();
  const foreign = options.foreign ?? null;
  const shapes = foreign === null ? createShapeFeed(log.reader, name) : fixedShapes(foreign);
  const foreignOf = (schema: string, table: string): ForeignTable | null =>
    foreign?.find(({ shape }) => shape.schema === schema && shape.table === table) ?? null;
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
  const targets = new Map<string, TableTarget>();
  const queryRunners: TableRunner<SinkQuery>[] = [];
  const topics = new Map<string, string>();
  const steward = createSteward({ name, log, clock });
  let looked = 0;
  let cut: ConsistentCut | null = null;
  let writing: Promise<void> = Promise.resolve();

  /** What a table's own query and a user's query on it share. */
  const stepParts = (schemaName: string, tableName: string) => ({
    runId,
    schemaName,
    tableName,
    logId,
    foreign: foreignOf(schemaName, tableName),
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
  });

  function addTable(schema: string, table: string): void {
    const id = `${schema}.${table}`;
    topics.set(foreignOf(schema, table)?.topic ?? dataTopic(name, schema, table), id);
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
      ...stepParts(schema, table),
      name,
      target,
      awaitingBytesMax: Math.max(64 * MIB, options.memoryBytes),
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
    targets.set(id, target);
    for (const query of options.queries ?? []) if (query.wants?.(schema, table) ?? true) addQuery(query, schema, table);
  }

  function addQuery(query: UserQuery, schema: string, table: string): void {
    const steps = createSinkQuery({
      queryName: query.name,
      ...stepParts(schema, table),
      pipeline: name,
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
      if (offsets.includes(null)) return null;
      return offsets.reduce(
        (least, at) => (least === null || at === null || at < least ? at : least),
        offsets[0] ?? null,
      );
    } catch {
      // The table's own first step says what is wrong with it.
      return null;
    }
  }

  const onFailure = (error: unknown): void => options.onFeedFailure?.(error);
  const source = { reader: log.reader, name, clock, signal, onMark, onMarks, onFailure };
  const feed = (): Promise<void> => feedMarks(source, firstMark);
  function feedForeign(tables: readonly ForeignTable[]): Promise<void> {
    const makeCuts = createCutMaker({
      reader: log.reader,
      logId,
      topics: tables.map(({ topic }) => topic),
      stepOffsets: options.maxOffsetsPerTrigger,
      now: () => clock.now(),
    });
    const above = (): number => Math.max(0, ...[...runners.values()].map(({ table }) => table.position().markSequence));
    return feedCuts(
      source,
      () => makeCuts(above()),
      () => looked++,
    );
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
    if (foreign !== null) {
      const from = looked;
      // A whole look that began after this call, then every table at its newest cut.
      await reach(() => looked > from + 1 && allAt(timeline.newest()?.mark.sequence ?? 0), other);
      return;
    }
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
  const feeding = foreign === null ? feed() : feedForeign(foreign);
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
    owned(id) {
      const runner = runners.get(id);
      const target = targets.get(id);
      if (runner === undefined || target === undefined) return null;
      return {
        target,
        state: () => runner.state(),
        position: () => runner.table.position(),
        exclusive: (work) => runner.exclusive(work),
        resume: () => runner.resume(),
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
