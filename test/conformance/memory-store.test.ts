import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { registerStoreSuite } from './register-store-suite.ts';

registerStoreSuite({
  name: 'the memory store',
  open: async () => ({ store: createMemoryStore(), undo: async () => {} }),
});
