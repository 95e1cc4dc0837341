import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { PAUSED_KEY, pausedTables, readPaused } from './paused-tables.ts';

it('paused tables are read back, and a newer format is refused by name', async () => {
  const lake = createMemoryStore();
  expect(await readPaused(lake)).toEqual(new Set());
  await pausedTables(lake).change(['public.b', 'public.a'], true);
  expect(await readPaused(lake)).toEqual(new Set(['public.a', 'public.b']));
  await lake.put(PAUSED_KEY, Buffer.from('{"formatVersion": 2, "tables": []}'));
  await expect(readPaused(lake)).rejects.toMatchObject({ code: 'FORMAT_NEWER', exit: 4 });
});

it('what several workers pause and resume, all at once, is all kept', async () => {
  const lake = createMemoryStore();
  const one = pausedTables(lake);
  const other = pausedTables(lake);
  expect(await one.change(['public.a'], true)).toEqual(['public.a']);
  expect(await other.change(['public.b'], true)).toEqual(['public.b']);
  await Promise.all([one.change(['public.a'], false), one.change(['public.c'], true), one.change(['public.d'], true)]);
  expect(await readPaused(lake)).toEqual(new Set(['public.b', 'public.c', 'public.d']));
  // Resumed by the other one: nothing is left to resume.
  expect(await other.change(['public.a', 'public.c'], false)).toEqual(['public.c']);
});
