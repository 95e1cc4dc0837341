import { describe, expect, it } from 'vitest';
import { createMemoryStore } from './memory-store.ts';
import { probeConditionalPut } from './probe.ts';
import { StoreError } from './store.ts';

describe('the probe for conditional creation', () => {
  it('says what the store answered to the put, not what its own clean-up met afterwards', async () => {
    const refuse = (action: string): never => {
      throw new StoreError('STORE_ACCESS_DENIED', 'k', `cannot ${action}`);
    };
    const store = {
      ...createMemoryStore(),
      putIfAbsent: async () => refuse('create'),
      delete: async () => refuse('delete'),
    };
    await expect(probeConditionalPut(store)).rejects.toThrow('cannot create');
  });
});
