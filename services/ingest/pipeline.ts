/**
 * The stream half of the product: discovers the tables that the reader writes, runs one ingest query for each, and keeps
 * what they share: the marks, the barriers of `consistent.json`, the memory budget, retention and the group mirror.
 */
import { setMaxListeners } from 'node:events';
import { createHasher, keyIdOf } from '../../contracts/engine/privacy.ts';
import type { Mark } from '../log/event.ts';
import { LogError } from '../log/log.ts';
import type { JoinGroup } from '../log/membership.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic, progressTopic } from '../log/topics.ts';
import type { StepResult } from '../stream/stream.ts';
import { StreamError } from '../stream/stream-error.ts';
import { progressBounds, readMarks } from '../stream/sources/mark-feed.ts';
import { createMarkTimeline } from '../stream/sources/mark-timeline.ts';
import { createByteBudget } from './byte-budget.ts';
import { createBarrierKeeper } from './barrier-keeper.ts';
import type { BarrierTable } from './barrier-keeper.ts';
import { createCutWriter } from './consistent.ts';
import { createContractBook } from './contract-book.ts';
import { contractTools } from './contract-tools.ts';
import { shapesOf } from './foreign-topics.ts';
import type { ForeignTable } from './foreign-topics.ts';
import type { IngestTable } from './ingest-table.ts';
import { createLastContracts } from './last-contracts.ts';
import { createQuarantinePublisher } from './quarantine-topic.ts';
import { createMarkTurns } from './mark-turns.ts';
import type { IngestHandle, IngestOptions } from './ingest-options.ts';
import { createSteward } from './steward.ts';
import { createSharedCuts } from './shared-cuts.ts';
import type { TableRunner } from './table-runner.ts';
import { tableRepair } from './table-repair.ts';
import { watchContinuity } from './watch-continuity.ts';
import { createTableRunners } from './table-runners.ts';
import { tableFolder } from './table-target.ts';
import { joinWorkers } from './worker-group.ts';
import type { WorkerGroup } from './worker-group.ts';
import { reportStatus } from './status.ts';

export type { IngestHandle, IngestOptions, OwnedTable, TableQuarantine, UserQuery } from './ingest-options.ts';

const MIB = 1024 * 1024;
const WAIT_POLL_MS = 20;
/** Heartbeat of the look at topics and offsets, for tables that have nothing to read or are paused. */
const CONTINUITY_MS = 10_000;

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
  const shapes = shapesOf(log.reader, name, foreign);
  const foreignOf = (schema: string, table: string): ForeignTable | null =>
    foreign?.find(({ shape }) => shape.schema === schema && shape.table === table) ?? null;
  const contracts = createContractBook({
    pipeline: name,
    files: options.contracts,
    tools: options.tools ?? contractTools,
    hasher: options.piiKey === undefined ? null : createHasher(options.piiKey),
    store: lake,
    last: createLastContracts({
      store: lake,
      keyId: options.piiKey === undefined ? null : keyIdOf(options.piiKey),
      tell: (notice) => options.onNotice?.(notice),
    }),
  });
  const parallel = options.parallel ?? 2;
  const budget = createByteBudget(options.memoryBytes, parallel);
  const batchBytesMax = Math.max(MIB, Math.floor(options.memoryBytes / (4 * parallel)));
  const keeper = createBarrierKeeper();
  const publisher = createQuarantinePublisher(log, {
    identity: log.join == null ? `${name}.quarantine` : `${name}.quarantine.${runId}`,
    enabled: options.quarantineTopics ?? true,
  });
  /** Every table of the pipeline by its topic, whoever has it. */
  const topics = new Map<string, string>();
  const places = new Map<string, { readonly schema: string; readonly table: string }>();
  /** Tables that were found while marks went by, and are nobody's yet: the marks from here on are kept for them. */
  const unshared = new Map<string, number>();
  const steward = createSteward({ name, log, clock });
  let group: WorkerGroup | null = null;
  const refusal = new AbortController();
  const refused = ended(refusal.signal).then(() => Promise.reject(refusal.signal.reason as Error));
  refused.catch(() => undefined);
  const onFailure = (error: unknown): void => options.onFeedFailure?.(error);
  const cutWriter = createCutWriter({
    store: lake,
    pipeline: name,
    folderOf(id) {
      const place = places.get(id);
      return place === undefined ? id : tableFolder(place.schema, place.table);
    },
    onFailure,
  });

  const cuts = createSharedCuts({
    name,
    worker: runId,
    log,
    replicationFactor: options.replicationFactor ?? 1,
    clock,
    timeline,
    intervalMs: options.trigger.kind === 'interval' ? options.trigger.intervalMs : 0,
    tables: () => places.keys(),
    onCut: (cut) => cutWriter.publish(cut),
    onFailure,
  });
  const several = (): boolean => (group?.workers() ?? 1) > 1;
  const tables = createTableRunners({
    options,
    log,
    lake,
    logId,
    runId,
    stateFolder: options.stateFolder,
    shapes,
    timeline,
    contracts,
    budget,
    batchBytesMax,
    publisher,
    foreignOf,
    barrier: (sequence) => (several() ? cuts.barrier(sequence) : keeper.barrierAfter(sequence)),
    afterStep,
    signal,
  });

  /** Sees what tables there are now; those that nobody shares out are all ours. */
  function seeTables(byMark: boolean): void {
    for (const { schema, table } of shapes.tables()) {
      const id = `${schema}.${table}`;
      topics.set(foreignOf(schema, table)?.topic ?? dataTopic(name, schema, table), id);
      if (places.has(id)) continue;
      places.set(id, { schema, table });
      if (log.join == null) tables.add(schema, table);
      else if (byMark) unshared.set(id, timeline.newest()?.mark.sequence ?? 0);
    }
  }

  function forgetMarks(): void {
    // A worker that has no table yet does not know which marks the first one needs.
    if (tables.size === 0) return;
    timeline.forget(Math.min(tables.passed(), ...unshared.values()));
  }

  /** Most steps are those of tables that have nothing new: what looks at all tables is not for each of them. */
  function afterStep(ingest: IngestTable, standing: BarrierTable, result: StepResult): void {
    if (several() || keeper.came(standing, timeline.newestClosed())) lookForCut();
    steward.tableMoved(ingest, () => tables.releasable(ingest));
    if (tables.queries().length === 0)
      steward.marksDone(() => tables.all().map(({ table }) => table.committed()?.progressOffset ?? null));
    if (result === 'ran') forgetMarks();
  }

  function lookForCut(): void {
    if (several()) {
      cuts.look(tables.barrierTables());
      return;
    }
    const before = keeper.barrier();
    // Marks are thinned out when they pile up: no table could ever come to this one.
    if (before !== null && timeline.at(before) === null) keeper.drop();
    const found = keeper.look(tables.barrierTables(), timeline.newestClosed());
    if (keeper.barrier() !== before) tables.wake();
    // Not without a table that waits to be shared out, or that another worker has not let go of.
    if (found !== null && (group === null || (group.writesCuts() && tables.size === places.size)))
      cutWriter.publish(found);
  }

  async function onMark(mark: Mark, offset: bigint, until: AbortSignal): Promise<void> {
    if (Object.keys(mark.nextOffsets).some((topic) => !topics.has(topic))) {
      await shapes.refresh();
      seeTables(true);
      group?.tablesFound();
    }
    // The marks are being read anew: this one comes again, in its place.
    if (until.aborted) return;
    timeline.add(mark, offset);
    const newest = timeline.newest();
    if (newest !== null) cuts.marked(newest);
    steward.marked(mark);
  }

  /** Batches are planned when all marks that came together are known: fewer and fuller ones. */
  function onMarks(): void {
    lookForCut();
    forgetMarks();
    tables.wake();
  }

  const marks = createMarkTurns({
    log,
    logId,
    name,
    clock,
    signal,
    timeline,
    tables,
    foreign: foreign === null ? null : { tables: foreign, stepOffsets: options.maxOffsetsPerTrigger },
    shared: () => group !== null,
    onMark,
    onMarks,
    onFailure,
  });

  /** What the store or the log cannot say now is asked again for as long as this worker runs; null once it does not. */
  async function untilAnswered<T>(ask: () => Promise<T>): Promise<T | null> {
    for (let waitMs = 100; !signal.aborted; waitMs = Math.min(2 * waitMs, 10_000)) {
      try {
        return await ask();
      } catch (error) {
        onFailure(error);
      }
      await clock.sleep(waitMs, signal).catch(() => undefined);
    }
    return null;
  }

  async function begin(ids: readonly string[]): Promise<void> {
    // Marks of a table that was found just now are still here; others' tables begin where their owners ended.
    const found = ids.every((id) => unshared.has(id));
    const paused = await untilAnswered(async () => (await options.pausedTables?.()) ?? null);
    // One that another worker had may have been resumed since this one heard of it.
    if (paused !== null) for (const id of ids) if (!paused.has(id)) tables.resume(id);
    tables.pause(paused ?? []);
    if (ids.some((id) => !places.has(id))) {
      await untilAnswered(() => shapes.refresh());
      seeTables(false);
    }
    // Stopped meanwhile: the tables are the next start's.
    if (signal.aborted) return;
    // Before a table is there that could plan by them: marks that it needs may lie behind those that are known.
    if (!found) marks.anew();
    for (const id of ids) {
      const place = places.get(id);
      if (place !== undefined) tables.add(place.schema, place.table);
      unshared.delete(id);
    }
    keeper.drop();
    if (found) tables.wake();
  }

  function joinGroup(join: JoinGroup): WorkerGroup {
    const sharedCheckpoint = !(options.checkpoint?.store ?? lake).uri.startsWith('file:');
    return joinWorkers({
      pipeline: name,
      join,
      sharedCheckpoint,
      known: () => [...places.keys()],
      begin,
      end: (ids) => tables.remove(ids),
      onShare(workers, writesCuts) {
        // What another worker got needs no marks here.
        for (const id of unshared.keys()) if (group?.isShared(id) === true) unshared.delete(id);
        cuts.gather(writesCuts && workers > 1);
        keeper.drop();
        tables.wake();
      },
      onRefused: () =>
        refusal.abort(
          new StreamError(
            'CHECKPOINT_NOT_SHARED',
            `another stream worker has the tables, and the checkpoint ${(options.checkpoint?.store ?? lake).uri} is this machine's own`,
            'stop one of the workers, or keep stream.checkpoint and the lake on a store that all workers reach (s3://…)',
          ),
        ),
      onFailure(error) {
        // Without a right to the group no table will ever be ours: that is for the start to say.
        const denied = error instanceof LogError && error.code === 'LOG_ACCESS_DENIED' && tables.size === 0;
        if (denied) refusal.abort(error);
        else onFailure(error);
      },
    });
  }

  async function reach(reached: () => boolean, other?: AbortSignal): Promise<void> {
    while (!reached() && !signal.aborted && other?.aborted !== true) await clock.sleep(WAIT_POLL_MS, signal);
  }

  const active = (): readonly TableRunner[] => tables.all().filter((runner) => runner.state() === 'STREAMING');
  const allAt = (sequence: number): boolean =>
    [...active(), ...tables.queries().filter((runner) => runner.state() === 'STREAMING')].every(
      ({ table }) => table.position().markSequence >= sequence,
    );

  async function drain(other?: AbortSignal): Promise<void> {
    await Promise.race([group?.joined, refused, ended(signal), ...(other === undefined ? [] : [ended(other)])]);
    if (foreign !== null) {
      const from = marks.looks();
      // A whole look that began after this call, then every table at its newest cut.
      await reach(() => marks.looks() > from + 1 && allAt(timeline.newest()?.mark.sequence ?? 0), other);
      return;
    }
    const bounds = await progressBounds(log.reader, name);
    if (bounds === null)
      throw new LogError('LOG_TOPIC_MISSING', `the log has no topic ${progressTopic(name)}`, { retriable: false });
    if (bounds.end === 0n) return;
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
    // Without the tables that this worker is about to get, all that it has would be at the end at once.
    const settled = (): boolean => unshared.size === 0 && group?.settled() !== false;
    await reach(() => settled() && (timeline.newest()?.mark.sequence ?? -1) >= last && allAt(last), other);
    await cutWriter.settled();
  }

  async function stop(withinMs = 8000): Promise<void> {
    abort.abort();
    const over = Promise.all([feeding, watching, ...[...tables.all(), ...tables.queries()].map(({ done }) => done)]);
    const giveUp = new AbortController();
    const limit = clock.sleep(withinMs, giveUp.signal);
    // What hangs in a batch is left as it is: the batch runs again, and its objects are named by no commit.
    const within = (work: Promise<unknown>): Promise<unknown> => Promise.race([work.catch(() => undefined), limit]);
    await within(over);
    await within(group?.leave() ?? Promise.resolve());
    await within(cutWriter.settled().then(() => steward.settle()));
    await within(Promise.all([cuts.close(), publisher?.close(), ...tables.all().map(({ table }) => table.close())]));
    giveUp.abort();
  }

  await shapes.refresh();
  seeTables(false);
  // The worker that shares out must know the tables; where there are none yet, the first mark brings them.
  if (log.join != null) group = joinGroup(log.join);
  const feeding = marks.run();
  const everyMs = options.continuityMs ?? CONTINUITY_MS;
  const watching = watchContinuity({ runners: () => tables.all(), clock, signal, everyMs });
  const done =
    options.trigger.kind === 'available-now'
      ? drain().then(() => stop())
      : feeding.then(async () => {
          await Promise.all(tables.all().map((runner) => runner.done));
        });

  return {
    status: () => ({
      ...reportStatus({ name, logId, runners: tables.all(), timeline, cut: cutWriter.newest(), inUse: budget.inUse() }),
      group:
        group === null
          ? null
          : { workers: group.workers(), tables: tables.size, of: places.size, writesConsistent: group.writesCuts() },
    }),
    async catchUp(lsn, other) {
      await Promise.race([group?.joined, refused, ended(signal), ...(other === undefined ? [] : [ended(other)])]);
      await reach(() => {
        const closed = timeline.newestClosed();
        return (
          closed !== null &&
          closed.mark.confirmLsn >= lsn &&
          closed.mark.snapshotting.length === 0 &&
          unshared.size === 0 &&
          active().every(({ table }) => !table.lacksRows() && !table.lacksTable()) &&
          allAt(closed.mark.sequence)
        );
      }, other);
      await cutWriter.settled();
    },
    drain,
    committedLsn: () => {
      const sequence = Math.min(...active().map(({ table }) => table.position().markSequence), Number.MAX_SAFE_INTEGER);
      return steward.confirmLsn(sequence);
    },
    quarantine(id) {
      const runner = tables.get(id);
      if (runner === null) return null;
      return {
        list: (wanted) => runner.table.list(wanted),
        show: (row) => runner.table.show(row),
        retry: (ids) => runner.exclusive((table) => table.retry(ids)),
        drop: (ids) => runner.exclusive((table) => table.drop(ids)),
      };
    },
    owned: (id) => tables.owned(id),
    ...tableRepair(
      (id) => tables.get(id),
      (id) => {
        const [place, owned] = [places.get(id), tables.owned(id)];
        return place === undefined || owned === null
          ? null
          : { ...place, lake, shapes, contracts, target: owned.target };
      },
    ),
    pause: (id) => tables.pause([id]),
    resume: (id) => tables.resume(id),
    stop,
    done: Promise.race([done, refused]),
  };
}

function ended(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
