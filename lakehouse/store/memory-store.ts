/** ADAPTER ObjectStore in memory: for tests, and for tables that need not outlive the process. */
import { assertKey, compareKeys } from './key-order.ts';
import { StoreError } from './store.ts';
import type { ByteRange, ObjectMeta, ObjectStore, PutIfAbsentResult } from './store.ts';

interface Entry {
  readonly body: Uint8Array;
  readonly modifiedMs: number;
}

export interface MemoryStoreOptions {
  readonly name?: string;
  /** Clock for `modifiedMs`; the host's by default. */
  readonly now?: () => number;
}

export function createMemoryStore(options: MemoryStoreOptions = {}): ObjectStore {
  const now = options.now ?? Date.now;
  const entries = new Map<string, Entry>();

  const store = (key: string, body: Uint8Array): void => {
    // A copy: the caller may reuse its buffer.
    entries.set(key, { body: body.slice(), modifiedMs: Math.floor(now()) });
  };

  return {
    uri: `memory://${options.name ?? 'store'}`,
    get: async (key, range) => readRange(key, entries.get(key), range),
    head: async (key) => {
      const entry = entries.get(key);
      return entry === undefined ? null : { key, sizeBytes: entry.body.length, modifiedMs: entry.modifiedMs };
    },
    async *list(prefix, listOptions): AsyncIterable<ObjectMeta> {
      const after = listOptions?.startAfter;
      const keys = [...entries.keys()].filter((key) => key.startsWith(prefix)).sort(compareKeys);
      for (const key of keys) {
        if (after !== undefined && compareKeys(key, after) <= 0) continue;
        const entry = entries.get(key);
        if (entry !== undefined) yield { key, sizeBytes: entry.body.length, modifiedMs: entry.modifiedMs };
      }
    },
    put: async (key, body) => {
      assertKey(key);
      store(key, body);
    },
    putIfAbsent: async (key, body): Promise<PutIfAbsentResult> => {
      assertKey(key);
      if (entries.has(key)) return 'exists';
      store(key, body);
      return 'created';
    },
    delete: async (keys) => {
      for (const key of keys) entries.delete(key);
    },
    close: async () => {},
  };
}

function readRange(key: string, entry: Entry | undefined, range: ByteRange | undefined): Uint8Array {
  if (entry === undefined) throw new StoreError('STORE_NOT_FOUND', key, `no object at "${key}"`);
  if (range === undefined) return entry.body.slice();
  if (range.start < 0 || range.end < range.start || range.end > entry.body.length) {
    throw new StoreError(
      'STORE_TRUNCATED',
      key,
      `asked for bytes ${range.start}..${range.end} of "${key}", which has ${entry.body.length}`,
    );
  }
  return entry.body.slice(range.start, range.end);
}
