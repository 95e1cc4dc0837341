/**
 * One table's ingest query: the stream loop with the table's own `txn`s as its position, the contract as its gate, and the
 * merge sink. Holds the state that lives between batches: parked keys, awaiting events, the contract in use.
 */
import type { IngestTableOptions } from './ingest-table-options.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import type { Mark, TableShape } from '../log/event.ts';
import type { LogOffset } from '../log/position.ts';
import { dataTopic, quarantineTopic } from '../log/topics.ts';
import type { BatchPlan } from '../stream/checkpoint.ts';
import { openCheckpoint } from '../stream/checkpoint.ts';
import type { Planned } from '../stream/plan.ts';
import { createQuery } from '../stream/stream.ts';
import type { Query, QueryPosition } from '../stream/stream.ts';
import { StreamError } from '../stream/stream-error.ts';
import { createAwaiting } from './awaiting.ts';
import type { Awaiting } from './awaiting.ts';
import { rebuildAwaiting } from './awaiting-rebuild.ts';
import { createBaseRequests } from './base-requests.ts';
import { assembleBatch, buildBatch, headOf } from './batch-builder.ts';
import { decodeAhead, leavesNothing, stillHolds, type DecodedAhead } from './decode-ahead.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { foreignDecoder } from './foreign-topics.ts';
import type { IngestBatch } from './ingest-batch.ts';
import { EMPTY_LEDGER, addLedgers } from './ledger.ts';
import type { Ledger } from './ledger.ts';
import { mergeSink } from './merge-sink.ts';
import type { SinkResult } from './merge-sink.ts';
import { createParkedKeys } from './parked-keys.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { markConf, markFromConf } from './plan-conf.ts';
import { loadParked } from './quarantine-scan.ts';
import { createRecordDecoder, hidingDecoder } from './record-decoder.ts';
import { refuseForeignTable, reset } from './continuity.ts';
import { createSidePaths } from './side-paths.ts';
import type { IngestTable, Settled } from './table-handle.ts';
import { earliest, grown, isComplete, newestLsn } from './table-bounds.ts';
import type { TablePlan } from './table-plan.ts';
import { batchAppId, logAppId, logFingerprint, progressAppId, readPosition } from './txn-ids.ts';
import type { CommittedPosition, StreamPosition } from './txn-ids.ts';
import { createTopicWatch } from './topic-watch.ts';
import { readLogTail, reposition } from './reposition.ts';
import type { LogTail } from './reposition.ts';

export type { IngestTable } from './table-handle.ts';

/** Records behind from which on a table does not wait for its trigger. */
const BACKLOG_OFFSETS = 50_000;

/** What lives between batches; replaced as a whole when a batch is committed. */
interface Held {
  parkedKeys: ParkedKeys;
  awaiting: Awaiting;
}

export function createIngestTable(options: IngestTableOptions): IngestTable {
  const { schemaName, tableName, name, target, timeline, shapes, contracts } = options;
  const { foreign } = options;
  const topic = foreign?.topic ?? dataTopic(name, schemaName, tableName);
  const watch = createTopicWatch(topic, options);
  const queryName = `${name}.${schemaName}.${tableName}`;
  const held: Held = { parkedKeys: createParkedKeys(), awaiting: createAwaiting(options.awaitingBytesMax) };
  let working: Held = held;
  let committed: StreamPosition | null = null;
  let partitions: readonly number[] = [];
  let lakeSchema: StructType | null = null;
  let plannedShape = 0;
  let tablePlan: TablePlan | null = null;
  let snapshotting = false;
  let aheadSequence = 0;
  let current: { plan: BatchPlan; mark: Mark } | null = null;
  let version: bigint | null = null;
  /** Which version the table has at a mark, told together: the query's own position follows a commit only later. */
  let settled: Settled = { markSequence: 0, version: null };
  let totals: Ledger = EMPTY_LEDGER;
  let last: SinkResult | null = null;
  let result: SinkResult | null = null;
  const requests = createBaseRequests({ schemaName, tableName, request: options.requestRows ?? null });

  function shape(): TableShape {
    const found = shapes.latest(schemaName, tableName);
    if (found !== null) return found;
    throw new StreamError(
      'SCHEMA_CONFLICT',
      `table ${schemaName}.${tableName}: the reader's topic has no shape of it`,
      'start the reader: it writes the shapes of its tables',
    );
  }

  function decoder({ logPrivacy }: TablePlan): RecordDecoder {
    return hidingDecoder(foreign === null ? createRecordDecoder(shapes, shape()) : foreignDecoder(foreign), logPrivacy);
  }

  /** Everything that the lake knows, read anew: at the start, and after a batch that failed. */
  async function readCommitted(): Promise<QueryPosition | null> {
    const bounds = await watch.bounds();
    partitions = [...bounds.keys()].sort((a, b) => a - b);
    await target.main();
    const snapshot = await target.snapshot();
    lakeSchema = snapshot?.schema ?? null;
    version = snapshot?.version ?? null;
    tablePlan = null;
    // All of it of one version: another owner may commit meanwhile.
    const txnOf = (appId: string): Promise<bigint | null> =>
      Promise.resolve(snapshot?.txns.get(appId)?.version ?? null);
    const stood = await readPosition(txnOf, name, partitions);
    if (stood === null && snapshot !== null) refuseForeignTable(snapshot, `${schemaName}.${tableName}`, name);
    // A foreign topic may have been cut by retention or compaction before we came.
    const mustFollow = stood !== null || (foreign === null && options.start === undefined);
    await (mustFollow ? watch.takeFor(stood, bounds) : watch.take());
    held.parkedKeys = createParkedKeys(await loadParked(await target.quarantineSnapshot()));
    held.awaiting = createAwaiting(options.awaitingBytesMax);
    committed = stood;
    settled = { markSequence: stood?.markSequence ?? 0, version };
    if (stood === null && options.start !== undefined) return { batchId: null, ...options.start };
    if (stood === null)
      return foreign === null ? null : { batchId: null, nextOffsets: earliest(bounds), markSequence: 0 };
    await rebuild(stood);
    return { batchId: stood.batchId, nextOffsets: stood.nextOffsets, markSequence: stood.markSequence };
  }

  async function moveTo(tail: LogTail): Promise<void> {
    await shapes.refresh();
    const table = await target.main();
    lakeSchema = await target.schema();
    await watch.take();
    const plan = await usePlan();
    await contracts.keep(plan, shape());
    const nowMs = options.now();
    await reposition({ name, topicName: topic, topic: watch.identity(), table, plan, checkpoint, tail, nowMs });
    await query.open();
  }

  async function rebuild(stood: CommittedPosition): Promise<void> {
    if (stood.holdBack.size === 0) return;
    await shapes.refresh();
    const plan = await usePlan();
    held.awaiting = await rebuildAwaiting({
      reader: options.reader,
      lake: options.lake,
      shapes,
      topic,
      from: stood.holdBack,
      to: stood.nextOffsets,
      keySources: plan.keySources,
      decode: decoder(plan),
      bytesMax: options.awaitingBytesMax,
      readBytesMax: options.readBytesMax,
    });
  }

  async function usePlan(): Promise<TablePlan> {
    plannedShape = shape().version;
    tablePlan = await contracts.current(shape(), lakeSchema, tablePlan);
    return tablePlan;
  }

  function evolve(next: TableShape, standing: TablePlan): TablePlan {
    return contracts.evolve(standing, next, lakeSchema, next.version !== shape().version);
  }

  async function describe(planned: Planned | null, at: number | null): Promise<Record<string, string>> {
    const sequence = planned?.cut.sequence ?? at;
    const mark = sequence === null ? timeline.newest() : timeline.at(sequence);
    if (mark === null) throw new RangeError('a plan was made without a mark');
    aheadSequence = mark.mark.sequence;
    const plan = await usePlan();
    await contracts.keep(plan, shape());
    return markConf(mark, { contractHash: plan.contract.hash, schemaHash: plan.schemaHash, logId: options.logId });
  }

  /** A corrected contract may take the place of the one that stopped the batch, as long as nothing of it is committed. */
  async function revise(plan: BatchPlan): Promise<BatchPlan> {
    const { epoch, sequence } = markFromConf(plan.conf, topic);
    aheadSequence = sequence;
    const inQuarantine =
      (await target.quarantineSnapshot()) === null
        ? null
        : await (await target.quarantine()).txnVersion(batchAppId(name, epoch));
    const wanted = plan.conf['sluice.contract'] ?? '';
    if (inQuarantine !== null && inQuarantine >= plan.batchId) {
      tablePlan = (await contracts.byHash(wanted, shape(), lakeSchema)) ?? (await usePlan());
      return plan;
    }
    const now = await usePlan();
    if (now.contract.hash === wanted) return plan;
    await contracts.keep(now, shape());
    return { ...plan, conf: { ...plan.conf, 'sluice.contract': now.contract.hash, 'sluice.schema': now.schemaHash } };
  }

  async function build(plan: BatchPlan, ahead: DecodedAhead | null): Promise<IngestBatch> {
    ahead?.release();
    const mark = markFromConf(plan.conf, topic);
    snapshotting = mark.snapshotting.includes(`${schemaName}.${tableName}`);
    current = { plan, mark };
    const using = tablePlan ?? (await usePlan());
    const head = { queryId: await checkpoint.id(), queryName, schemaName, tableName, mark, plan };
    if (ahead !== null && stillHolds(ahead, held, using)) {
      working = ahead.left;
      return assembleBatch(headOf(head), ahead.decoded, ahead.ranges);
    }
    working = {
      parkedKeys: held.parkedKeys.size === 0 ? createParkedKeys() : held.parkedKeys.clone(),
      awaiting: held.awaiting.events === 0 ? createAwaiting(options.awaitingBytesMax) : held.awaiting.clone(),
    };
    return buildBatch({
      ...head,
      ...decoding(using),
      plan,
      evolve,
      ...working,
      snapshotting,
      asked: requests.pending,
      resolvedLsn: committed?.lsn ?? 0n,
    });
  }

  const decoding = (using: TablePlan) => ({
    reader: options.reader,
    lake: options.lake,
    shapes,
    decode: decoder(using),
    tablePlan: using,
    readBytesMax: options.readBytesMax,
    reuse: true,
  });

  function begin({ from, to, bytesEstimate }: Planned): Promise<DecodedAhead | null> | null {
    // In a load only: beside a reader in the middle of a large transaction the process has no memory to spare for it.
    if (foreign !== null || current === null || tablePlan === null || !snapshotting) return null;
    if (!leavesNothing(held) || !leavesNothing(working)) return null;
    const release = options.spare?.(bytesEstimate) ?? null;
    if (release === null) return null;
    const plan = { topic, from, to };
    const left = { parkedKeys: createParkedKeys(), awaiting: createAwaiting(options.awaitingBytesMax) };
    const own = { schemaName, tableName, plan, snapshotting: true, resolvedLsn: current.mark.lsn };
    return decodeAhead({ ...own, ...decoding(tablePlan), ...left }, release);
  }

  function positionAfter(batch: IngestBatch, awaiting: Awaiting): StreamPosition {
    if (current === null) throw new RangeError('no batch is running');
    const { plan, mark } = current;
    const nextOffsets = new Map(committed?.nextOffsets ?? options.start?.nextOffsets ?? []);
    for (const partition of partitions) if (!nextOffsets.has(partition)) nextOffsets.set(partition, 0n as LogOffset);
    for (const [partition, to] of plan.to) if (to > (nextOffsets.get(partition) ?? -1n)) nextOffsets.set(partition, to);
    return {
      epoch: mark.epoch,
      lsn: foreign === null ? mark.lsn : newestLsn(batch, committed?.lsn ?? 0n),
      markSequence: mark.sequence,
      progressOffset: BigInt(plan.conf['sluice.progress'] ?? '0'),
      nextOffsets,
      holdBack: awaiting.holdBack(),
    };
  }

  function take(done: SinkResult): void {
    result = done;
    last = done;
    held.awaiting = done.awaiting;
    held.parkedKeys = done.parkedKeys;
    committed = done.position;
    version = done.merge.version ?? version;
    settled = { markSequence: done.position.markSequence, version };
    totals = addLedgers(totals, done.ledger);
    if (!snapshotting && tablePlan !== null) requests.ask(done.awaiting, decoder(tablePlan), shape());
  }

  const checkpoint = openCheckpoint(
    options.checkpointStore,
    `${options.checkpointRoot}/${target.folder.replace('/', '.')}`,
    options.newId,
  );
  const sink = mergeSink({
    name,
    topic: watch.identity,
    table: () => target.main(),
    quarantine: () => target.quarantine(),
    keepContract: async (batch) => {
      tablePlan = batch.tablePlan;
      await contracts.keep(batch.tablePlan, shape());
    },
    publish: options.publish,
    quarantineTopic: quarantineTopic(name, schemaName, tableName),
    state: () => ({ ...working, snapshotting, asks: requests.able(shape()) }),
    position: positionAfter,
    // In a turn of its own: the merge writer hands the batch to its thread first.
    onWriting: () => void setImmediate(() => query.beginNext()),
    failpoint: options.failpoint,
    onResult: take,
  });
  const query: Query = createQuery<IngestBatch, DecodedAhead>({
    name: queryName,
    runId: options.runId,
    topic,
    checkpoint,
    now: options.now,
    sourceDescription: `log[${topic}]`,
    sinkDescription: `delta[${target.folder}]`,
    limits: options.limits,
    cutsAfter: (sequence) => {
      if (timeline.resetAt(topic) > sequence) throw reset(topic, 'it was deleted and made again');
      return timeline.cutsAfter(topic, sequence);
    },
    latestOffsets: () => timeline.nextOffsets(topic),
    committed: readCommitted,
    describe,
    revise,
    hasLeftovers: (atEnd) =>
      (lacksTable() || (atEnd && requests.unasked(held.awaiting))) && isComplete(timeline, schemaName, tableName),
    build,
    begin,
    sink: async (batch, batchId) => {
      result = null;
      await sink(batch, batchId);
      // The table had the batch already (a commit whose answer was lost): only the lake knows where that leaves us.
      if (result === null) await readCommitted();
      lakeSchema = grown(lakeSchema, batch.schema);
    },
    failpoint: options.failpoint,
    onProgress: (progress) => {
      if (result !== null) void options.onProgress(progress, result);
    },
  });

  /** A source table without rows is an empty table in the lake, not a missing one: its first batch has none. */
  function lacksTable(): boolean {
    return foreign === null && version === null && lakeSchema === null;
  }

  const sidePaths = createSidePaths({
    options,
    topic,
    usePlan: async () => {
      await shapes.refresh();
      lakeSchema ??= await target.schema();
      return usePlan();
    },
    decoder,
    evolve,
    parkedKeys: () => held.parkedKeys,
    moved(to) {
      version = to ?? version;
      settled = { ...settled, version };
    },
    async reloadParked() {
      held.parkedKeys = createParkedKeys(await loadParked(await target.quarantineSnapshot()));
    },
  });

  return {
    topic,
    check: () => watch.check(() => committed),
    logTail: () => readLogTail(options.reader, name, topic),
    moveTo,
    ...sidePaths,
    reopen: () => query.open(),
    folder: target.folder,
    async contractChanged() {
      if (await contracts.changed(schemaName, tableName)) return true;
      await shapes.refresh();
      return shape().version !== plannedShape;
    },
    step: (barrier) => query.step(barrier),
    async progressOffset() {
      const table = await target.main();
      // Another log's offsets say nothing of this one's marks.
      if ((await table.txnVersion(logAppId(name))) !== logFingerprint(options.logId)) return null;
      return committed?.progressOffset ?? (await table.txnVersion(progressAppId(name)));
    },
    releasable: () => {
      const offsets = new Map<number, LogOffset>();
      for (const [partition, next] of committed?.nextOffsets ?? [])
        offsets.set(partition, (committed?.holdBack.get(partition) ?? next) as LogOffset);
      return offsets;
    },
    position: () => query.position(),
    ahead: () => Math.max(aheadSequence, query.position().markSequence),
    committed: () => committed,
    version: () => version,
    settled: () => settled,
    backlog: () => {
      const { nextOffsets } = query.position();
      let waiting = 0n;
      for (const [partition, end] of timeline.nextOffsets(topic)) waiting += end - (nextOffsets.get(partition) ?? 0n);
      return waiting >= BigInt(Math.min(options.limits.maxOffsetsPerTrigger, BACKLOG_OFFSETS));
    },
    appliedLast: () => last?.ledger.applied ?? null,
    ledger: () => totals,
    parkedKeys: () => held.parkedKeys.size,
    awaitingEvents: () => held.awaiting.events,
    lacksRows: () => held.awaiting.events > 0 && isComplete(timeline, schemaName, tableName),
    lacksTable: () => lacksTable() && isComplete(timeline, schemaName, tableName),
    lastResult: () => last,
    async close() {
      requests.close();
      await query.dropBegun();
      await target.close();
    },
  };
}
