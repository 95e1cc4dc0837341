import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { differencesKey, readDifferences, writeDifferences } from './found-differences.ts';

it('what a comparison found is kept for each table until it is taken back, and a newer format is refused by name', async () => {
  const lake = createMemoryStore();
  expect(await readDifferences(lake, 'public.a')).toBeNull();
  await writeDifferences(lake, 'public.a', { mismatches: 3, atMs: 17 });
  await writeDifferences(lake, 'Odd.x/y', { mismatches: 1, atMs: 18 });
  expect(await readDifferences(lake, 'public.a')).toEqual({ mismatches: 3, atMs: 17 });
  expect(await readDifferences(lake, 'Odd.x/y')).toEqual({ mismatches: 1, atMs: 18 });
  await writeDifferences(lake, 'public.a', null);
  expect(await readDifferences(lake, 'public.a')).toBeNull();
  await lake.put(differencesKey('public.a'), Buffer.from('{"formatVersion": 2}'));
  await expect(readDifferences(lake, 'public.a')).rejects.toMatchObject({ code: 'FORMAT_NEWER', exit: 4 });
});
