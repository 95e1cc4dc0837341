/**
 * An object store as a thread sees it: each call is asked of the owner, whose store, credentials and retries it uses. Reads
 * and plain writes only: what is committed or listed is the owner's business.
 */
import type { Answer } from '../thread/thread-messages.ts';
import { StoreError, type ByteRange, type ObjectStore } from './store.ts';

export type StoreQuestion =
  | { readonly call: 'get'; readonly key: string; readonly range: ByteRange | null }
  | { readonly call: 'put'; readonly key: string; readonly body: Uint8Array };

/** In the thread. */
export function askedStore(uri: string, ask: (question: StoreQuestion) => Promise<unknown>): ObjectStore {
  const refuse = (key: string): never => {
    throw new StoreError('STORE_BAD_URI', key, 'a background thread only reads and writes objects');
  };
  return {
    uri,
    async get(key, range) {
      return (await ask({ call: 'get', key, range: range ?? null })) as Uint8Array;
    },
    async put(key, body) {
      await ask({ call: 'put', key, body });
    },
    head: async (key) => refuse(key),
    list: (prefix) => refuse(prefix),
    putIfAbsent: async (key) => refuse(key),
    delete: async (keys) => refuse(keys[0] ?? ''),
    close: () => Promise.resolve(),
  };
}

/** In the owner. */
export async function answerStore(store: ObjectStore, question: StoreQuestion): Promise<Answer> {
  if (question.call === 'put') return { value: await store.put(question.key, question.body) };
  const bytes = await (question.range === null ? store.get(question.key) : store.get(question.key, question.range));
  // A copy, which then moves: the bytes may be the store's own, or a view of a pool.
  const moved = new Uint8Array(bytes);
  return { value: moved, transfer: [moved.buffer] };
}
