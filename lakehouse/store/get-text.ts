import { getWithRetry } from './retry.ts';
import { StoreError } from './store.ts';
import type { ObjectStore } from './store.ts';

/** An object's UTF-8 text; null where there is none. @throws StoreError for every other failure */
export async function getText(store: ObjectStore, key: string): Promise<string | null> {
  try {
    return Buffer.from(await getWithRetry(store, key)).toString('utf8');
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return null;
    throw error;
  }
}
