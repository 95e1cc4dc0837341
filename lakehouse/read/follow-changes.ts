/**
 * A table's change feed as an endless source: what `readChanges` tells of a range, then of each range that comes. The
 * position is a version: whoever has handled all of version V goes on from V + 1, after a crash too.
 */
import type { ObjectStore } from '../store/store.ts';
import type { ColumnBatch } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { changesSchema, readChanges } from './changes.ts';

export interface FollowOptions {
  /** First version, inclusive; one that does not exist yet is waited for. */
  readonly from: bigint;
  /** Pause between two looks at a table that has nothing new. Ends early, without error, when the signal says so. */
  readonly pause: () => Promise<void>;
  readonly signal: AbortSignal;
}

export interface ChangeBatch {
  /** Of the newest version of the range that the batch belongs to. */
  readonly schema: StructType;
  readonly batch: ColumnBatch;
}

/**
 * Batches in version order, until the signal.
 * @throws as readChanges: a version that was cleaned up or recorded no changes ends the source by name, never by a gap
 */
export async function* followChanges(store: ObjectStore, options: FollowOptions): AsyncGenerator<ChangeBatch> {
  const { signal } = options;
  let next = options.from;
  while (!signal.aborted) {
    const last = await openSnapshot(store);
    if (last.version < next) {
      await options.pause();
      continue;
    }
    const schema = changesSchema(last);
    for await (const batch of readChanges(store, { from: next, to: last.version })) {
      if (signal.aborted) return;
      yield { schema, batch };
    }
    next = last.version + 1n;
  }
}
