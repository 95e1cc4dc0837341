import { expect, it } from 'vitest';
import { createMemoryStore } from '../../../lakehouse/store/memory-store.ts';
import { DEFAULT_BACKOFF } from '../../../lakehouse/store/retry.ts';
import { StoreError, type StoreErrorCode } from '../../../lakehouse/store/store.ts';
import { claimLake, readIdentity, type PipelineIdentity } from './identity.ts';

const mine: PipelineIdentity = {
  formatVersion: 1,
  name: 'shop',
  systemIdentifier: '7',
  database: 'd',
  slot: 's',
  epoch: 1,
  publication: 'p',
  madePublication: true,
};

it.each<[StoreErrorCode, boolean]>([
  ['STORE_UNAVAILABLE', false],
  ['STORE_OUTCOME_UNKNOWN', false],
  ['STORE_OUTCOME_UNKNOWN', true],
])('records the identity over a first write that fails with %s (carried out: %s)', async (code, carriedOut) => {
  const store = createMemoryStore();
  let puts = 0;
  const lake = {
    ...store,
    async putIfAbsent(key: string, body: Uint8Array) {
      puts++;
      if (puts > 1) return store.putIfAbsent(key, body);
      if (carriedOut) await store.putIfAbsent(key, body);
      throw new StoreError(code, key, 'no answer');
    },
  };
  const atOnce = { ...DEFAULT_BACKOFF, sleep: () => Promise.resolve() };
  expect(await claimLake(lake, mine, atOnce)).toBe(true);
  expect(await readIdentity(lake)).toEqual(mine);
  expect(await claimLake(lake, mine, atOnce)).toBe(false);
});
