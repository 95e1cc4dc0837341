/**
 * A user's query over one table: the same records, contract and types as the ingest query, given to another sink. Its own
 * checkpoint is its truth. Rows that the contract refuses are left out here; the ingest query parks them.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { TableShape } from '../log/event.ts';
import type { LogReader } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic } from '../log/topics.ts';
import { openCheckpoint } from '../stream/checkpoint.ts';
import type { PlanLimits } from '../stream/plan.ts';
import type { QueryProgress } from '../stream/progress.ts';
import type { BatchSink } from '../stream/sink.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import { createQuery } from '../stream/stream.ts';
import { StreamError } from '../stream/stream-error.ts';
import { createAwaiting } from './awaiting.ts';
import { buildBatch } from './batch-builder.ts';
import type { ContractBook } from './contract-book.ts';
import { foreignDecoder } from './foreign-topics.ts';
import type { ForeignTable } from './foreign-topics.ts';
import type { IngestBatch } from './ingest-batch.ts';
import { noParkedKeys } from './parked-keys.ts';
import { markConf, markFromConf } from './plan-conf.ts';
import { createRecordDecoder, hidingDecoder } from './record-decoder.ts';
import type { ShapeFeed } from './shape-feed.ts';
import type { Steppable } from './table-runner.ts';
import type { TablePlan } from './table-plan.ts';

export interface SinkQueryOptions {
  /** Name of the query, unique in the pipeline; part of its checkpoint's place. */
  readonly queryName: string;
  readonly pipeline: string;
  readonly runId: string;
  readonly schemaName: string;
  readonly tableName: string;
  readonly logId: string;
  readonly foreign: ForeignTable | null;
  readonly reader: LogReader;
  readonly lake: ObjectStore;
  readonly checkpointStore: ObjectStore;
  readonly checkpointRoot: string;
  readonly shapes: ShapeFeed;
  readonly timeline: MarkTimeline;
  readonly contracts: ContractBook;
  readonly limits: Omit<PlanLimits, 'barrier'>;
  readonly readBytesMax: number;
  readonly now: () => number;
  readonly newId: () => string;
  readonly sink: BatchSink;
  readonly failpoint: (name: string) => Promise<void> | void;
  readonly onProgress: (progress: QueryProgress) => void;
}

export interface SinkQuery extends Steppable {
  /** What a restart will read from. */
  releasable(): ReadonlyMap<number, LogOffset>;
}

export function createSinkQuery(options: SinkQueryOptions): SinkQuery {
  const { schemaName, tableName, shapes, timeline, contracts } = options;
  const { foreign } = options;
  const topic = foreign?.topic ?? dataTopic(options.pipeline, schemaName, tableName);
  const name = `${options.pipeline}.${options.queryName}.${schemaName}.${tableName}`;
  const checkpoint = openCheckpoint(
    options.checkpointStore,
    `${options.checkpointRoot}/${options.queryName}/${schemaName}.${tableName}`.replaceAll(' ', '_'),
    options.newId,
  );
  let tablePlan: TablePlan | null = null;

  function shape(): TableShape {
    const found = shapes.latest(schemaName, tableName);
    if (found !== null) return found;
    throw new StreamError(
      'SCHEMA_CONFLICT',
      `table ${schemaName}.${tableName}: the reader's topic has no shape of it`,
      'start the reader: it writes the shapes of its tables',
    );
  }

  async function usePlan(): Promise<TablePlan> {
    tablePlan = await contracts.current(shape(), null, tablePlan);
    return tablePlan;
  }

  const query = createQuery<IngestBatch>({
    name,
    runId: options.runId,
    topic,
    checkpoint,
    now: options.now,
    sourceDescription: `log[${topic}]`,
    sinkDescription: options.queryName,
    limits: options.limits,
    cutsAfter: (sequence) => timeline.cutsAfter(topic, sequence),
    latestOffsets: () => timeline.nextOffsets(topic),
    committed: null,
    async describe(planned) {
      const mark = planned === null ? timeline.newest() : timeline.at(planned.cut.sequence);
      if (mark === null) throw new RangeError('a plan was made without a mark');
      const plan = await usePlan();
      await contracts.keep(plan, shape());
      return markConf(mark, { contractHash: plan.contract.hash, schemaHash: plan.schemaHash, logId: options.logId });
    },
    revise: null,
    hasLeftovers: () => false,
    async build(plan) {
      const hash = plan.conf['sluice.contract'] ?? '';
      const current = await usePlan();
      // A batch that comes again comes with the rows that it had.
      const used =
        current.contract.hash === hash ? current : ((await contracts.byHash(hash, shape(), null)) ?? current);
      return buildBatch({
        queryId: await checkpoint.id(),
        queryName: name,
        schemaName,
        tableName,
        reader: options.reader,
        lake: options.lake,
        shapes,
        decode: hidingDecoder(
          foreign === null ? createRecordDecoder(shapes, shape()) : foreignDecoder(foreign),
          used.logPrivacy,
        ),
        plan,
        tablePlan: used,
        evolve: (next, standing) => contracts.evolve(standing, next, null, next.version !== shape().version),
        parkedKeys: noParkedKeys,
        awaiting: createAwaiting(0),
        snapshotting: true,
        mark: markFromConf(plan.conf, topic),
        readBytesMax: options.readBytesMax,
        resolvedLsn: 0n,
      });
    },
    sink: options.sink,
    failpoint: options.failpoint,
    onProgress: (progress) => options.onProgress(progress),
  });

  return {
    topic,
    step: (barrier) => query.step(barrier),
    position: () => query.position(),
    backlog: () => false,
    appliedLast: () => null,
    releasable: () => query.position().nextOffsets,
  };
}
