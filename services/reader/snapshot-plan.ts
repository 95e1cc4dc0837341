/** A table's snapshot: which ranges of which heaps are to be read, and what becomes of its state when one is done. */
import { ReaderError } from './reader-error.ts';
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import type { TableShape } from '../log/event.ts';
import type { HeapProgress, TableState, TidRange } from './reader-state.ts';
import type { ChunkQuery } from './snapshot-read.ts';
import { fromOwnRows } from './sql-text.ts';
import { mergeRange, rangeCondition, remainingChunks } from './snapshot-ranges.ts';
import type { TableRoute } from './table-route.ts';

export interface PlannedHeap {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  readonly relfilenode: number;
  readonly blocks: number;
  pending: readonly TidRange[];
}

export interface TablePlan {
  readonly route: TableRoute;
  readonly heaps: readonly PlannedHeap[];
  readonly shape: ShapeEncoder;
  readonly rowFilter: string | null;
  /** Chunks being read. */
  reading: number;
}

/** One chunk as the runner reads it. */
export interface ChunkTask {
  readonly shape: ShapeEncoder;
  readonly relfilenode: number;
  readonly query: ChunkQuery;
  /** Read in part: the rows fill these columns. */
  readonly taken?: readonly number[];
  /** False once the table was planned anew or given up. */
  readonly isCurrent: () => boolean;
  /** The rows are in the batch. `stoppedBehind`: the byte limit cut the chunk behind this tid. */
  readonly written: (rows: number, stoppedBehind: number | null) => void;
}

/** SQL that gives the keys which no row of the table has, given what is published of it. */
export type AbsentQuery = (shape: TableShape, rowFilter: string | null, from: string) => string;

/** `fromOwnRows` of a table whose heaps are known. */
export function ownRows({ route: { schema, table }, heaps }: Pick<TablePlan, 'route' | 'heaps'>): string {
  const [heap] = heaps;
  return fromOwnRows(schema, table, heaps.length === 1 && heap?.schema === schema && heap.table === table);
}

/** Rows of a page that we assume where the table was never analysed. */
const ROWS_PER_BLOCK = 60;
const BLOCKS_PER_CHUNK_MAX = 8_192;

export function blocksPerChunk(estimatedRows: number, blocks: number, chunkRows: number): number {
  const perBlock = estimatedRows > 0 && blocks > 0 ? Math.max(estimatedRows / blocks, 0.01) : ROWS_PER_BLOCK;
  return Math.min(BLOCKS_PER_CHUNK_MAX, Math.max(1, Math.floor(chunkRows / perBlock)));
}

/** What is left of a heap, given what its state says is done. A heap with another file is to be read from its beginning. */
export function planHeap(heap: Omit<PlannedHeap, 'pending'>, state: TableState, perChunk: number): PlannedHeap {
  const known = state.heaps.find(
    (saved) => saved.schema === heap.schema && saved.table === heap.table && saved.relfilenode === heap.relfilenode,
  );
  return { ...heap, pending: remainingChunks(known?.done ?? [], heap.blocks, perChunk) };
}

/** The state of a table whose plan was just made: progress of heaps that are still the same is kept. */
export function plannedState(state: TableState, heaps: readonly PlannedHeap[]): TableState {
  const progress = heaps.map((heap): HeapProgress => {
    const known = state.heaps.find(
      (saved) => saved.schema === heap.schema && saved.table === heap.table && saved.relfilenode === heap.relfilenode,
    );
    return { schema: heap.schema, table: heap.table, relfilenode: heap.relfilenode, done: known?.done ?? [] };
  });
  return { ...state, heaps: progress };
}

/** Takes the next range; null when all are taken (some may still be read). */
export function nextChunk(plan: TablePlan): { readonly heap: number; readonly range: TidRange } | null {
  for (const [index, heap] of plan.heaps.entries()) {
    const [range, ...rest] = heap.pending;
    if (range === undefined) continue;
    heap.pending = rest;
    plan.reading++;
    return { heap: index, range };
  }
  return null;
}

/** Books a range that is in the log; true when it was the table's last. */
export function chunkDone(
  plan: TablePlan,
  heapIndex: number,
  range: TidRange,
  rows: number,
  stoppedBehind: number | null,
): boolean {
  const { route } = plan;
  const done: TidRange = stoppedBehind === null ? range : { from: range.from, to: stoppedBehind + 1 };
  const heap = plan.heaps[heapIndex];
  if (heap !== undefined && stoppedBehind !== null) {
    heap.pending = [{ from: stoppedBehind + 1, to: range.to }, ...heap.pending];
  }
  plan.reading--;
  const heaps = route.state.heaps.map((progress, index) =>
    index === heapIndex ? { ...progress, done: mergeRange(progress.done, done) } : progress,
  );
  const complete = plan.reading === 0 && plan.heaps.every((each) => each.pending.length === 0);
  route.state = {
    ...route.state,
    heaps: complete ? [] : heaps,
    rows: route.state.rows + rows,
    ...(complete ? { phase: 'streaming' as const, waitForXid: null } : {}),
  };
  return complete;
}

/** Everything of the table is to be read again. */
export function restartPlan(route: TableRoute, nowMs: number, exact = route.state.clearFirst === true): void {
  route.state = {
    ...route.state,
    phase: 'snapshotting',
    stopped: null,
    snapshot: route.state.snapshot + 1,
    heaps: [],
    clearFirst: exact,
    rows: 0,
    startedAtMs: nowMs,
  };
}

export interface FetchWanted {
  readonly condition: string;
  readonly absent: AbsentQuery | null;
  /** Read only these columns, and the key; null = all. */
  readonly columns: readonly string[] | null;
}

export interface RangeLimits extends Pick<ChunkTask, 'isCurrent' | 'written'> {
  readonly rowsMax: number;
  readonly bytesMax: number;
}

/** The rows of a range of one heap. */
export function rangeTask(plan: TablePlan, heapIndex: number, range: TidRange, limits: RangeLimits): ChunkTask {
  const heap = plan.heaps[heapIndex];
  if (heap === undefined) throw new RangeError(`no heap ${heapIndex}`);
  const { rowsMax, bytesMax, isCurrent, written } = limits;
  return {
    shape: plan.shape,
    relfilenode: heap.relfilenode,
    isCurrent,
    query: {
      schema: heap.schema,
      table: heap.table,
      oid: heap.oid,
      columns: plan.shape.shape.columns.map((column) => column.name),
      conditions: [rangeCondition(range), ...(plan.rowFilter === null ? [] : [plan.rowFilter])],
      rowsMax,
      bytesMax,
      only: true,
    },
    written,
  };
}

/** The rows that a condition selects, as one chunk. @throws ReaderError SOURCE_QUERY_FAILED for a column that is not sent */
export function fetchTask(plan: TablePlan, wanted: FetchWanted, done: (rows: number) => void): ChunkTask {
  const { condition, absent } = wanted;
  const taken = wanted.columns === null ? null : takenColumns(plan, wanted.columns);
  const names = plan.shape.shape.columns.map((column) => column.name);
  return {
    shape: plan.shape,
    ...(taken === null ? {} : { taken }),
    relfilenode: 0,
    isCurrent: () => true,
    query: {
      schema: plan.route.schema,
      table: plan.route.table,
      oid: plan.route.state.oid,
      columns: names,
      ...(taken === null ? {} : { taken: new Set([...plan.shape.keyColumns, ...taken].map((i) => names[i] ?? '')) }),
      conditions: [condition, ...(plan.rowFilter === null ? [] : [plan.rowFilter])],
      rowsMax: Number.MAX_SAFE_INTEGER,
      bytesMax: Number.MAX_SAFE_INTEGER,
      only: false,
      from: ownRows(plan),
      ...(absent === null ? {} : { absent: absent(plan.shape.shape, plan.rowFilter, ownRows(plan)) }),
    },
    written: done,
  };
}

function takenColumns(plan: TablePlan, wanted: readonly string[]): readonly number[] {
  const { columns } = plan.shape.shape;
  return wanted.map((name) => {
    const index = columns.findIndex((column) => column.name === name);
    if (index >= 0) return index;
    const { schema, table } = plan.route;
    throw new ReaderError('SOURCE_QUERY_FAILED', `the publication does not send column ${name} of ${schema}.${table}`, {
      remedy: 'name columns that are published; a column list in the publication leaves the others out',
    });
  });
}

/** What waits for a watermark when the snapshot ends. */
export function stoppedBefore(): ReaderError {
  return new ReaderError('SOURCE_LOST', 'the snapshot was stopped');
}
