/** Tables that were altered between the planning of a chunk and its reading: how often each was planned anew. */
import type { ReaderError } from './reader-error.ts';
import type { TableRoute } from './table-route.ts';

export interface ShapeRetries {
  /** True if the failure says that the table has another shape now, so that reading it again whole may help. */
  again(route: TableRoute, failure: ReaderError): boolean;
}

/** Undefined column, undefined table, another type: what a statement meets whose table was altered since it was written. */
const OTHER_SHAPE = /\(SQLSTATE 42(?:703|P01|804|883)\)$/;
const RETRIES_MAX = 100;

export function createShapeRetries(): ShapeRetries {
  const counts = new Map<TableRoute, number>();
  return {
    again(route, failure) {
      const before = counts.get(route) ?? 0;
      if (!OTHER_SHAPE.test(failure.message) || before >= RETRIES_MAX) return false;
      counts.set(route, before + 1);
      return true;
    },
  };
}
