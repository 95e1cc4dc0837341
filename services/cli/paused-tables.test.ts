import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { PAUSED_KEY, readPaused, writePaused } from './paused-tables.ts';

it('paused tables are read back, and a newer format is refused by name', async () => {
  const lake = createMemoryStore();
  expect(await readPaused(lake)).toEqual(new Set());
  await writePaused(lake, new Set(['public.b', 'public.a']));
  expect(await readPaused(lake)).toEqual(new Set(['public.a', 'public.b']));
  await lake.put(PAUSED_KEY, Buffer.from('{"formatVersion": 2, "tables": []}'));
  await expect(readPaused(lake)).rejects.toMatchObject({ code: 'FORMAT_NEWER', exit: 4 });
});
