/** The tables that this worker has in hand: each with its own query, its merge, and a user's queries beside it. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { EventLog } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { BarrierTable } from './barrier-keeper.ts';
import type { ContractBook } from './contract-book.ts';
import type { ForeignTable } from './foreign-topics.ts';
import type { IngestOptions, OwnedTable, UserQuery } from './ingest-options.ts';
import { createIngestTable } from './ingest-table.ts';
import type { IngestTable } from './ingest-table.ts';
import type { QuarantinePublisher } from './quarantine-topic.ts';
import type { StepResult } from '../stream/stream.ts';
import type { ShapeFeed } from './shape-feed.ts';
import { createSinkQuery } from './sink-query.ts';
import type { SinkQuery } from './sink-query.ts';
import { startTableRunner } from './table-runner.ts';
import type { TableRunner } from './table-runner.ts';
import { createTableTarget } from './table-target.ts';
import type { TableTarget } from './table-target.ts';

const MIB = 1024 * 1024;
const FENCE_RETENTION_MIN_MS = 7 * 24 * 3600 * 1000;

export interface TableRunnersOptions {
  readonly options: IngestOptions;
  readonly log: EventLog;
  readonly lake: ObjectStore;
  readonly logId: string;
  readonly runId: string;
  readonly stateFolder: string;
  readonly shapes: ShapeFeed;
  readonly timeline: MarkTimeline;
  readonly contracts: ContractBook;
  readonly budget: ByteBudget;
  readonly batchBytesMax: number;
  readonly publisher: QuarantinePublisher | null;
  readonly foreignOf: (schema: string, table: string) => ForeignTable | null;
  readonly barrier: (sequence: number) => number | null;
  readonly afterStep: (table: IngestTable, standing: BarrierTable, result: StepResult) => void;
  readonly signal: AbortSignal;
}

export interface TableRunners {
  add(schema: string, table: string): void;
  /** Ends them once their batch in hand is over. */
  remove(ids: readonly string[]): Promise<void>;
  get(id: string): TableRunner | null;
  owned(id: string): OwnedTable | null;
  all(): readonly TableRunner[];
  queries(): readonly TableRunner<SinkQuery>[];
  /** Mark that everything here has passed. */
  passed(): number;
  /** Nothing below these offsets is needed by any query of the topic. */
  releasable(table: IngestTable): ReadonlyMap<number, LogOffset>;
  barrierTables(): BarrierTable[];
  wake(): void;
  pause(ids: Iterable<string>): void;
  resume(id: string): void;
  readonly size: number;
}

interface Entry {
  readonly target: TableTarget;
  readonly runner: TableRunner;
  readonly queries: readonly TableRunner<SinkQuery>[];
  readonly stop: AbortController;
}

export function createTableRunners(parts: TableRunnersOptions): TableRunners {
  const { options, log, lake, timeline, batchBytesMax } = parts;
  const { name, clock } = options;
  const failpoint = options.failpoint ?? ((): void => undefined);
  const entries = new Map<string, Entry>();
  const paused = new Set<string>();

  /** What a table's own query and a user's query on it share. */
  const stepParts = (schemaName: string, tableName: string) => ({
    runId: parts.runId,
    schemaName,
    tableName,
    logId: parts.logId,
    foreign: parts.foreignOf(schemaName, tableName),
    reader: log.reader,
    topicIds: (names: readonly string[]) => log.admin.topicIds(names),
    lake,
    checkpointStore: options.checkpoint?.store ?? lake,
    checkpointRoot: options.checkpoint?.folder ?? '_sluice/checkpoints',
    shapes: parts.shapes,
    timeline,
    contracts: parts.contracts,
    limits: { maxOffsetsPerTrigger: options.maxOffsetsPerTrigger, batchBytesMax },
    readBytesMax: Math.min(batchBytesMax, 4 * MIB),
    now: () => clock.now(),
    newId: options.newId,
  });
  const runnerParts = (signal: AbortSignal) => ({
    clock,
    intervalMs: options.trigger.kind === 'interval' ? options.trigger.intervalMs : 0,
    budget: parts.budget,
    batchBytesEstimate: batchBytesMax,
    signal,
    onFailure: (failure: Parameters<NonNullable<IngestOptions['onFailure']>>[0]) => options.onFailure?.(failure),
  });

  function openTarget(schema: string, table: string): TableTarget {
    return createTableTarget({
      schemaName: schema,
      tableName: table,
      lake,
      stateFolder: parts.stateFolder,
      changeDataFeed: options.changeDataFeed ?? true,
      deletionVectors: options.deletionVectors ?? true,
      fenceRetentionMs: Math.max(FENCE_RETENTION_MIN_MS, options.retentionMs ?? 0),
      failpoint,
    });
  }

  function ingestTable(schema: string, table: string, target: TableTarget): IngestTable {
    const { publisher } = parts;
    const ingest = createIngestTable({
      ...stepParts(schema, table),
      name,
      target,
      awaitingBytesMax: Math.max(64 * MIB, options.memoryBytes),
      spare: parts.budget.spare,
      requestRows: options.requestRows ?? null,
      publish: publisher === null ? null : (records) => publisher.publish(records),
      failpoint,
      onProgress: (progress, result) => options.onProgress?.(progress, result, `${schema}.${table}`),
    });
    const { beforeTable } = options;
    if (beforeTable === undefined) return ingest;
    let ready: Promise<void> | null = null;
    const prepare = async (): Promise<void> => {
      ready ??= beforeTable(schema, table);
      try {
        await ready;
      } catch (error) {
        ready = null;
        throw error;
      }
    };
    return {
      ...ingest,
      check: async () => {
        await prepare();
        return ingest.check();
      },
      step: async (barrier) => {
        await prepare();
        return ingest.step(barrier);
      },
      progressOffset: async () => {
        await prepare();
        return ingest.progressOffset();
      },
    };
  }

  function userQuery(query: UserQuery, schema: string, table: string, signal: AbortSignal): TableRunner<SinkQuery> {
    const steps = createSinkQuery({
      queryName: query.name,
      ...stepParts(schema, table),
      pipeline: name,
      sink: query.sink,
      failpoint,
      onProgress: (progress) => options.onQueryProgress?.(progress),
    });
    return startTableRunner({
      ...runnerParts(signal),
      id: `${query.name}:${schema}.${table}`,
      table: steps,
      barrier: () => null,
      afterStep: () => timeline.forget(passed()),
    });
  }

  /** Asked for after each step of each table, so it is made anew only when a table comes or goes. */
  let lists: { readonly all: readonly TableRunner[]; readonly queries: readonly TableRunner<SinkQuery>[] } | null =
    null;
  const listed = (): NonNullable<typeof lists> =>
    (lists ??= {
      all: [...entries.values()].map(({ runner }) => runner),
      queries: [...entries.values()].flatMap((entry) => entry.queries),
    });
  const all = (): readonly TableRunner[] => listed().all;
  const queries = (): readonly TableRunner<SinkQuery>[] => listed().queries;
  const passed = (): number => {
    let least = Infinity;
    for (const { table } of all()) least = Math.min(least, table.position().markSequence);
    for (const { table } of queries()) least = Math.min(least, table.position().markSequence);
    return least;
  };

  return {
    add(schema, table) {
      const id = `${schema}.${table}`;
      if (entries.has(id)) return;
      const stop = new AbortController();
      const signal = AbortSignal.any([parts.signal, stop.signal]);
      const target = openTarget(schema, table);
      const ingest = ingestTable(schema, table, target);
      const runner = startTableRunner({
        ...runnerParts(signal),
        id,
        table: ingest,
        barrier: parts.barrier,
        afterStep: (result) => {
          // What a table that was handed on still ends is no longer ours to speak of.
          if (entries.get(id)?.runner.table === ingest) parts.afterStep(ingest, barrierTable(runner), result);
        },
      });
      if (paused.has(id)) runner.pause();
      const wanted = (options.queries ?? []).filter((query) => query.wants?.(schema, table) ?? true);
      lists = null;
      entries.set(id, {
        target,
        runner,
        stop,
        queries: wanted.map((query) => userQuery(query, schema, table, signal)),
      });
    },
    async remove(ids) {
      await Promise.all(
        ids.map(async (id) => {
          const entry = entries.get(id);
          if (entry === undefined) return;
          entry.stop.abort();
          await Promise.all([entry.runner.done, ...entry.queries.map(({ done }) => done)]);
          entries.delete(id);
          lists = null;
          await entry.runner.table.close().catch(() => undefined);
        }),
      );
    },
    get: (id) => entries.get(id)?.runner ?? null,
    owned(id) {
      const entry = entries.get(id);
      if (entry === undefined) return null;
      const { runner, target } = entry;
      return {
        target,
        state: () => runner.state(),
        position: () => runner.table.position(),
        exclusive: (work) => runner.exclusive(work),
        resume: () => runner.resume(),
      };
    },
    all,
    queries,
    passed,
    releasable(table) {
      const offsets = new Map(table.releasable());
      for (const query of queries()) {
        if (query.table.topic !== table.topic) continue;
        const needed = query.table.releasable();
        for (const [partition, offset] of offsets) {
          const theirs = needed.get(partition) ?? (0n as LogOffset);
          if (theirs < offset) offsets.set(partition, theirs);
        }
      }
      return offsets;
    },
    barrierTables: () => all().map(barrierTable),
    wake() {
      for (const runner of all()) runner.wake();
      for (const runner of queries()) runner.wake();
    },
    pause(ids) {
      for (const id of ids) {
        paused.add(id);
        entries.get(id)?.runner.pause();
      }
    },
    resume(id) {
      paused.delete(id);
      entries.get(id)?.runner.resume();
    },
    get size() {
      return entries.size;
    },
  };
}

function barrierTable(runner: TableRunner): BarrierTable {
  return {
    id: runner.id,
    ...standing(runner.table),
    ahead: runner.table.ahead(),
    // Without the rows that it asked for, a table is not the source's state.
    active: runner.state() === 'STREAMING' && !runner.table.lacksRows(),
  };
}

/**
 * A mark and the version at it. Between a batch's commit and the end of its step the table is ahead of the query's position:
 * that position with this version would name a state that never was.
 */
function standing(table: IngestTable): Pick<BarrierTable, 'reached' | 'version'> {
  const { markSequence, version } = table.settled();
  return { reached: Math.max(table.position().markSequence, markSequence), version };
}
