/** A store seen from one folder down: a lake's store gives each table its own root. Closing it leaves the parent open. */
import { assertKey } from './key-order.ts';
import { StoreError } from './store.ts';
import type { ObjectMeta, ObjectStore } from './store.ts';

/** `folder` is slash-separated, relative to the parent's root, without leading or trailing slash. */
export function subStore(parent: ObjectStore, folder: string): ObjectStore {
  assertKey(folder);
  const base = `${folder}/`;
  return {
    uri: `${parent.uri}/${folder}`,
    get: (key, range) => parent.get(base + key, range),
    head: async (key) => {
      const meta = await parent.head(base + key);
      return meta === null ? null : { ...meta, key };
    },
    async *list(prefix, options): AsyncIterable<ObjectMeta> {
      const after = options?.startAfter;
      const listed = parent.list(base + prefix, after === undefined ? {} : { startAfter: base + after });
      for await (const meta of listed) {
        if (!meta.key.startsWith(base)) {
          throw new StoreError('STORE_UNAVAILABLE', meta.key, `listing of "${base}" answered a key outside of it`);
        }
        yield { ...meta, key: meta.key.slice(base.length) };
      }
    },
    put: (key, body) => parent.put(base + key, body),
    putIfAbsent: (key, body) => parent.putIfAbsent(base + key, body),
    delete: (keys) => parent.delete(keys.map((key) => base + key)),
    close: async () => {},
  };
}
