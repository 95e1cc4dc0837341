/** What every replay works with: the pipeline's log, lake and contracts, as the running stream has them. */
import { createHasher } from '../../../contracts/engine/privacy.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { createContractBook, type ContractBook } from '../../ingest/contract-book.ts';
import type { ContractFiles } from '../../ingest/contract-files.ts';
import { contractTools } from '../../ingest/contract-tools.ts';
import { createIngestTable, type IngestTable } from '../../ingest/ingest-table.ts';
import { createLastContracts } from '../../ingest/last-contracts.ts';
import type { SinkResult } from '../../ingest/merge-sink.ts';
import { createShapeFeed, type ShapeFeed } from '../../ingest/shape-feed.ts';
import { createTableTarget, type TableTarget } from '../../ingest/table-target.ts';
import type { TableShape } from '../../log/event.ts';
import type { EventLog } from '../../log/log.ts';
import type { QueryProgress } from '../../stream/progress.ts';
import type { MarkTimeline } from '../../stream/sources/mark-timeline.ts';
import { ConfigError } from '../../runtime/errors.ts';
import type { FailpointHook } from '../../runtime/failpoints.ts';
import type { RangeStart } from './range.ts';

export interface ReplayParts {
  readonly name: string;
  readonly log: EventLog;
  readonly logId: string;
  readonly lake: ObjectStore;
  readonly checkpoint: { readonly store: ObjectStore; readonly folder: string };
  /** Local folder of key indexes. */
  readonly stateFolder: string;
  /** The head contracts, as the stream uses them. */
  readonly contracts: ContractFiles;
  readonly piiKey: Uint8Array | null;
  readonly memoryBytes: number;
  readonly maxOffsetsPerTrigger: number;
  readonly changeDataFeed: boolean;
  readonly deletionVectors: boolean;
  readonly retentionMs: number;
  readonly now: () => number;
  readonly newId: () => string;
  readonly failpoint: FailpointHook;
}

export interface SteppedTable {
  readonly table: IngestTable;
  /** The table's shapes in the log, newest last. */
  readonly shape: TableShape;
  close(): Promise<void>;
}

export interface TableRequest {
  /** Table of the source whose events are read. */
  readonly schema: string;
  readonly table: string;
  readonly target: TableTarget;
  readonly contracts: ContractFiles;
  readonly timeline: MarkTimeline;
  readonly start?: RangeStart;
  readonly onProgress?: (progress: QueryProgress, result: SinkResult) => void;
}

const MIB = 1024 * 1024;
const FENCE_RETENTION_MIN_MS = 7 * 24 * 3600 * 1000;

export function openTarget(parts: ReplayParts, schema: string, table: string): TableTarget {
  return createTableTarget({
    schemaName: schema,
    tableName: table,
    lake: parts.lake,
    stateFolder: parts.stateFolder,
    changeDataFeed: parts.changeDataFeed,
    deletionVectors: parts.deletionVectors,
    fenceRetentionMs: Math.max(FENCE_RETENTION_MIN_MS, parts.retentionMs),
    failpoint: parts.failpoint,
  });
}

export function batchLimits(parts: ReplayParts): {
  readonly maxOffsetsPerTrigger: number;
  readonly batchBytesMax: number;
} {
  return {
    maxOffsetsPerTrigger: parts.maxOffsetsPerTrigger,
    batchBytesMax: Math.max(MIB, Math.floor(parts.memoryBytes / 8)),
  };
}

/** A table's own ingest query, along marks of the caller's: the same gate, fold and merge as the stream's. */
export async function openStepped(parts: ReplayParts, request: TableRequest): Promise<SteppedTable> {
  const shapes = await readShapes(parts);
  const { schema, table } = request;
  const limits = batchLimits(parts);
  const ingest = createIngestTable({
    name: parts.name,
    runId: parts.newId(),
    schemaName: schema,
    tableName: table,
    logId: parts.logId,
    foreign: null,
    reader: parts.log.reader,
    topicIds: (topics) => parts.log.admin.topicIds(topics),
    lake: parts.lake,
    checkpointRoot: parts.checkpoint.folder,
    checkpointStore: parts.checkpoint.store,
    target: request.target,
    shapes,
    timeline: request.timeline,
    contracts: contractBook(parts, request.contracts),
    limits,
    readBytesMax: Math.min(limits.batchBytesMax, 4 * MIB),
    awaitingBytesMax: Math.max(64 * MIB, parts.memoryBytes),
    now: parts.now,
    newId: parts.newId,
    publish: null,
    failpoint: parts.failpoint,
    onProgress: (progress, result) => request.onProgress?.(progress, result),
    ...(request.start === undefined ? {} : { start: request.start }),
  });
  return { table: ingest, shape: shapeOf(shapes, schema, table), close: () => ingest.close() };
}

export function contractBook(parts: ReplayParts, files: ContractFiles): ContractBook {
  return createContractBook({
    pipeline: parts.name,
    files,
    tools: contractTools,
    hasher: parts.piiKey === null ? null : createHasher(parts.piiKey),
    store: parts.lake,
    last: createLastContracts({ store: parts.lake, keyId: null, tell: null }),
  });
}

export async function readShapes(parts: Pick<ReplayParts, 'log' | 'name'>): Promise<ShapeFeed> {
  const shapes = createShapeFeed(parts.log.reader, parts.name);
  await shapes.refresh();
  return shapes;
}

/** @throws ConfigError */
export function shapeOf(shapes: ShapeFeed, schema: string, table: string): TableShape {
  const found = shapes.latest(schema, table);
  if (found !== null) return found;
  throw new ConfigError(`the pipeline has no table ${schema}.${table}`, 'see `sluice status` for the tables');
}

/** Steps a table until it has come to the mark, or there is nothing left before it. */
export async function stepTo(
  table: IngestTable,
  sequence: number,
  options: { readonly signal?: AbortSignal | undefined; readonly onStep?: () => void } = {},
): Promise<void> {
  for (;;) {
    options.signal?.throwIfAborted();
    const result = await table.step(sequence);
    options.onStep?.();
    if (result === 'idle') return;
  }
}
