/** Reads a plan's ranges and builds the ingest batch: claims fetched, shapes looked up, records decoded and gated. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { Mark, TableShape } from '../log/event.ts';
import type { LogBatch, LogReader } from '../log/log.ts';
import { LogError } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import type { BatchPlan } from '../stream/checkpoint.ts';
import { rowsOf } from '../stream/row-view.ts';
import type { OffsetRange } from '../stream/sink.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { Awaiting } from './awaiting.ts';
import { fetchClaims } from './claim-check.ts';
import { BatchDecoder } from './decode-batch.ts';
import type { DecodedColumns, RecordDecoder } from './decode-batch.ts';
import type { IngestBatch } from './ingest-batch.ts';
import type { KeyCell } from './key-cell.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { unknownShapes } from './record-decoder.ts';
import type { ShapeFeed } from './shape-feed.ts';
import type { TablePlan } from './table-plan.ts';

export interface BuildOptions {
  readonly queryId: string;
  readonly queryName: string;
  readonly schemaName: string;
  readonly tableName: string;
  readonly reader: LogReader;
  readonly lake: ObjectStore;
  readonly shapes: ShapeFeed;
  readonly decode: RecordDecoder;
  readonly plan: BatchPlan;
  readonly tablePlan: TablePlan;
  readonly evolve: (shape: TableShape, current: TablePlan) => TablePlan;
  readonly parkedKeys: ParkedKeys;
  readonly awaiting: Awaiting;
  /** The source was asked for the row of this key: its events wait on. */
  readonly asked?: (key: KeyCell) => boolean;
  /** The table's snapshot is not complete at the batch's mark: events may wait for their base. */
  readonly snapshotting: boolean;
  readonly mark: Mark | null;
  readonly readBytesMax: number;
  /** What the table has reached: a tombstone without a position stands behind it. */
  readonly resolvedLsn: bigint;
  /** As DecodeOptions. */
  readonly reuse?: boolean;
}

export async function buildBatch(options: BuildOptions): Promise<IngestBatch> {
  const { decoded, ranges } = await decodePlan(options);
  return assembleBatch(headOf(options), decoded, ranges);
}

export function headOf(options: Omit<BatchHead, 'topic' | 'timestampMs'> & { readonly plan: BatchPlan }): BatchHead {
  const { queryId, queryName, schemaName, tableName, mark, plan } = options;
  return { queryId, queryName, schemaName, tableName, mark, topic: plan.topic, timestampMs: plan.timestampMs };
}

/** The offsets of a plan. */
export type PlannedOffsets = Pick<BatchPlan, 'topic' | 'from' | 'to'>;

export type DecodePlanOptions = Omit<BuildOptions, 'queryId' | 'queryName' | 'mark' | 'plan'> & {
  readonly plan: PlannedOffsets;
};

export interface DecodedPlan {
  readonly decoded: DecodedColumns;
  readonly ranges: readonly OffsetRange[];
}

export async function decodePlan(options: DecodePlanOptions): Promise<DecodedPlan> {
  const { plan, shapes, tablePlan } = options;
  const decoder = new BatchDecoder({
    table: `${options.schemaName}.${options.tableName}`,
    plan: tablePlan,
    decode: options.decode,
    evolve: (version, current) => {
      const shape = shapes.byVersion(version);
      return shape === null ? current : options.evolve(shape, current);
    },
    parkedKeys: options.parkedKeys,
    awaiting: options.awaiting,
    resolvedLsn: options.resolvedLsn,
    expected: recordsOf(plan),
    reuse: options.reuse ?? false,
  });
  if (!options.snapshotting) decoder.addAwaiting(options.asked);
  const ranges: OffsetRange[] = [];
  for (const [partition, from] of plan.from) {
    const to = plan.to.get(partition);
    if (to === undefined || to <= from) continue;
    ranges.push({ topic: plan.topic, partition, from, to });
    for await (const batch of readRange(options, partition, from, to, true)) decoder.add(batch);
  }
  return { decoded: decoder.finish(), ranges };
}

function recordsOf({ from, to }: PlannedOffsets): number {
  let records = 0;
  for (const [partition, first] of from) records += Math.max(0, Number((to.get(partition) ?? first) - first));
  return records;
}

export async function* readRange(
  options: Pick<DecodePlanOptions, 'reader' | 'lake' | 'shapes' | 'plan' | 'readBytesMax'>,
  partition: number,
  from: LogOffset,
  to: LogOffset,
  rowBlocks = false,
): AsyncGenerator<LogBatch> {
  const { reader, plan, shapes, lake, readBytesMax } = options;
  try {
    for await (const batch of reader.read(plan.topic, partition, from, to, {
      batchBytesMax: readBytesMax,
      rowBlocks,
    })) {
      if (unknownShapes(batch, shapes)) await shapes.refresh();
      yield await fetchClaims(batch, lake);
    }
  } catch (error) {
    throw namedLogError(error, plan.topic);
  }
}

/** Log failures that no retry cures become the table's named state. */
export function namedLogError(error: unknown, topic: string): unknown {
  if (!(error instanceof LogError)) return error;
  if (error.code === 'LOG_OFFSET_OUT_OF_RANGE')
    return new StreamError(
      'OFFSETS_EXPIRED',
      `topic ${topic}: records that were not read yet are gone (${error.message})`,
      'run `sluice repair` on the table: it is read again whole, and goes on behind that',
      { cause: error },
    );
  if (error.code === 'LOG_TOPIC_MISSING')
    return new StreamError(
      'TOPIC_RESET',
      `topic ${topic} is gone`,
      'run `sluice repair` on the table: it is read again whole, and goes on behind that',
      {
        cause: error,
      },
    );
  return error;
}

export interface BatchHead {
  readonly queryId: string;
  readonly queryName: string;
  readonly schemaName: string;
  readonly tableName: string;
  readonly topic: string;
  readonly timestampMs: number;
  readonly mark: Mark | null;
}

export function assembleBatch(
  options: BatchHead,
  decoded: DecodedColumns,
  ranges: readonly OffsetRange[],
): IngestBatch {
  const { meta, plan: tablePlan } = decoded;
  const batch = {
    queryId: options.queryId,
    queryName: options.queryName,
    schemaName: options.schemaName,
    tableName: options.tableName,
    ranges,
    timestampMs: options.timestampMs,
    rowCount: meta.length,
    schema: tablePlan.schema,
    keyColumns: tablePlan.keyColumns,
    columns: decoded.columns,
    absent: decoded.absent,
    ops: meta.ops,
    epochs: meta.epochs,
    lsns: meta.lsns,
    ords: meta.ords,
    kinds: meta.kinds,
    keyIds: meta.keyIds,
    keyCount: decoded.keyCount,
    otherKeyIds: meta.otherKeyIds,
    keys: decoded.keys,
    truncate: decoded.truncate,
    partialRecords: decoded.partialRecords,
    shapeVersions: meta.shapeVersions,
    committedAt: meta.committedAt,
    parked: decoded.parked,
    healed: decoded.healed,
    counts: decoded.counts,
    violations: decoded.violations,
    contract: tablePlan.contract,
    tablePlan,
    mark: options.mark,
    release: decoded.release,
  };
  const places = { topic: options.topic, partitions: meta.partitions, offsets: meta.offsets };
  return { ...batch, rows: () => rowsOf(batch, places) };
}
