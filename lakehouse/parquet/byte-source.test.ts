import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError, type StoreErrorCode } from '../store/store.ts';
import { storeSource } from './byte-source.ts';

describe('the source of a stored object', () => {
  it.each<StoreErrorCode>(['STORE_TRUNCATED', 'STORE_UNAVAILABLE', 'STORE_THROTTLED'])(
    'reads again what failed with %s on its way',
    async (code) => {
      const store = createMemoryStore();
      await store.put('a', Buffer.from('0123456789'));
      let asked = 0;
      const source = storeSource(
        {
          ...store,
          get(key, range) {
            asked++;
            return asked === 1 ? Promise.reject(new StoreError(code, key, 'cut off')) : store.get(key, range);
          },
        },
        'a',
        10,
      );
      expect(Buffer.from(await source.read(2, 5)).toString()).toBe('234');
    },
  );
});
