/**
 * Finds out whether a store honours conditional creation, on which every commit rests. Some S3 doubles answer 200 to
 * `If-None-Match: *` whatever stands there, and would let two writers overwrite each other in silence.
 */
import { randomUUID } from 'node:crypto';
import { DEFAULT_BACKOFF, getWithRetry, withRetry } from './retry.ts';
import type { Backoff } from './retry.ts';
import { StoreError, isRetriable } from './store.ts';
import type { ObjectStore, PutIfAbsentResult } from './store.ts';

const FOLDER = '_sluice/probe';

/**
 * Two conditional puts on one fresh key: the second must be refused and the first one's bytes must stand. Leaves nothing.
 * @throws StoreError STORE_CONDITION_IGNORED, or what the store answered
 */
export async function probeConditionalPut(
  store: ObjectStore,
  newId: () => string = randomUUID,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<void> {
  const key = `${FOLDER}-${newId()}`;
  const first = new TextEncoder().encode('first');
  try {
    await settledPut(store, key, first, backoff);
    const again = await settledPut(store, key, new TextEncoder().encode('again'), backoff);
    const standing = await getWithRetry(store, key, undefined, backoff);
    if (again !== 'exists' || Buffer.compare(standing, first) !== 0) {
      throw new StoreError(
        'STORE_CONDITION_IGNORED',
        key,
        'this store ignores "create only if absent" (If-None-Match: *), so writers would overwrite each other; ' +
          'point lake.uri (lake.s3.endpoint) at a store that honours it',
      );
    }
  } catch (error) {
    // What failed first is what the user has to mend; a clean-up that fails, too, must not hide it.
    await store.delete([key]).catch(() => undefined);
    throw error;
  }
  await withRetry(() => store.delete([key]), isRetriable, backoff);
}

/** After a lost answer the same put again: whichever way it went, the object then stands. */
async function settledPut(
  store: ObjectStore,
  key: string,
  body: Uint8Array,
  backoff: Backoff,
): Promise<PutIfAbsentResult> {
  return withRetry(
    () => store.putIfAbsent(key, body),
    (error) => isRetriable(error) || (error instanceof StoreError && error.code === 'STORE_OUTCOME_UNKNOWN'),
    backoff,
  );
}
