/** The store's own clock: what it stamps on an object that is written now. File ages must not hang on a host's clock. */
import { randomUUID } from 'node:crypto';
import { withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { isRetriable } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';

/** Writes, looks at and deletes one tiny object. Milliseconds since the epoch. */
export async function storeNowMs(store: ObjectStore, backoff: Backoff): Promise<number> {
  const key = `_sluice/clock-${randomUUID()}`;
  try {
    await withRetry(() => store.put(key, new Uint8Array(1)), isRetriable, backoff);
    const meta = await withRetry(() => store.head(key), isRetriable, backoff);
    return meta?.modifiedMs ?? 0;
  } finally {
    await withRetry(() => store.delete([key]), isRetriable, backoff);
  }
}
