import { withRetry } from '../store/retry.ts';
import { StoreError, isRetriable, type ObjectStore } from '../store/store.ts';

/** Writes an object of a name that is ours alone: to write it again after a lost answer changes nothing. */
export function putObject(store: ObjectStore, key: string, body: Uint8Array): Promise<void> {
  const again = (error: unknown): boolean =>
    isRetriable(error) || (error instanceof StoreError && error.code === 'STORE_OUTCOME_UNKNOWN');
  return withRetry(() => store.put(key, body), again);
}
