/** Tables that were altered between the planning of a chunk and its reading, or not to be had just then: how often each was tried again. */
import type { ReaderError } from './reader-error.ts';
import type { TableRoute } from './table-route.ts';

export interface ShapeRetries {
  /** True if the failure says that the table has another shape now, so that reading it again whole may help. */
  again(route: TableRoute, failure: ReaderError): boolean;
  /** True if the failure passes by itself. What the server refuses again and again for want of something does not. */
  passes(route: TableRoute, failure: ReaderError): boolean;
}

/** Undefined column, undefined table, another type: what a statement meets whose table was altered since it was written. */
const OTHER_SHAPE = /\(SQLSTATE 42(?:703|P01|804|883)\)$/;
const RETRIES_MAX = 100;

export function createShapeRetries(): ShapeRetries {
  const counts = new Map<TableRoute, number>();
  const count = (route: TableRoute): boolean => {
    const before = counts.get(route) ?? 0;
    if (before < RETRIES_MAX) counts.set(route, before + 1);
    return before < RETRIES_MAX;
  };
  return {
    again: (route, failure) => OTHER_SHAPE.test(failure.message) && count(route),
    passes: (route, failure) => failure.retriable && (failure.code !== 'SOURCE_QUERY_FAILED' || count(route)),
  };
}
