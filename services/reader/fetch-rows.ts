/** How many rows to fetch from a cursor at a time: each fetch is held whole, and costs a way to the server and back. Pure. */

const ROWS_MAX = 16_000;
/** Of a table of which nothing is known. */
const ROWS_UNKNOWN = 64;
const ROWS_FIRST_MAX = 4_000;
/** Of what stands in the heap itself of a row that has parts in the TOAST table. */
const HEAP_ROW_BYTES = 100;
/** Of the limit: what a first fetch comes to by its guess. */
const FIRST_SHARE = 8;
/** Of the limit: what a fetch may come to where less of it is left. */
const LAST_SHARE = 2;
/** A row as wide as the widest is expected among so many. */
const WIDE_SHARE = 8;

export interface RowsFetched {
  readonly rows: number;
  readonly bytes: number;
  /** The largest row. */
  readonly widest: number;
}

/** Bytes of a heap and of its TOAST table. */
export interface HeapSize {
  readonly heap: number;
  readonly toast: number;
}

/** Rows of the first fetch, by a rough guess at their width: without TOAST a row is below the 8 kB of a page. */
export function firstFetch(size: HeapSize | null, bytesMax: number): number {
  if (size === null) return ROWS_UNKNOWN;
  if (size.toast === 0) return ROWS_FIRST_MAX;
  const width = size.toast / Math.max(1, size.heap / HEAP_ROW_BYTES);
  return clamp(bytesMax / FIRST_SHARE / Math.max(1, width), ROWS_FIRST_MAX);
}

/** Rows that fill up to `bytesMax`, by those that were fetched: one wide row among narrow ones holds the others back a little. */
export function nextFetch({ rows, bytes, widest }: RowsFetched, bytesMax: number, bytesHeld = bytes): number {
  const width = Math.max(1, bytes / Math.max(1, rows), widest / WIDE_SHARE);
  return clamp(Math.max(bytesMax - bytesHeld, bytesMax / LAST_SHARE) / width, ROWS_MAX);
}

const clamp = (rows: number, most: number): number => Math.min(most, Math.max(1, Math.floor(rows)));
