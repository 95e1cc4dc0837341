import { expect, it } from 'vitest';
import { getText } from './get-text.ts';
import { createMemoryStore } from './memory-store.ts';
import { StoreError } from './store.ts';

it('reads a text again that failed on its way, and takes none only for what is not there', async () => {
  const store = createMemoryStore();
  await store.put('a', Buffer.from('text'));
  let asked = 0;
  const flaky = {
    ...store,
    get(key: string) {
      asked++;
      return asked === 1 ? Promise.reject(new StoreError('STORE_UNAVAILABLE', key, '503')) : store.get(key);
    },
  };
  expect(await getText(flaky, 'a')).toBe('text');
  expect(await getText(flaky, 'b')).toBeNull();
});
