import { expect, it } from 'vitest';
import { halvesOf, lacksTables } from './control-actions.ts';

const group = (workers: number, own: number, of: number) => ({ workers, tables: own, of, writesConsistent: true });
const seen = (...tables: string[]) => tables.map((table) => ({ table }));

it('a worker waits for its own tables alone, and not for those that another one has', () => {
  const followed = ['public.a', 'public.b'];
  expect(lacksTables({ group: null, tables: seen('public.a') }, followed)).toBe(true);
  expect(lacksTables({ group: null, tables: seen('public.a', 'public.b') }, followed)).toBe(false);
  expect(lacksTables({ group: group(1, 1, 2), tables: seen('public.a') }, followed)).toBe(true);
  expect(lacksTables({ group: group(2, 1, 2), tables: seen('public.a') }, followed)).toBe(false);
  expect(lacksTables({ group: group(2, 1, 1), tables: seen('public.a') }, followed)).toBe(true);
});

it('a table whose schema has a dot is found by its id', () => {
  const followed = [{ schema: 'My.Schema', table: 'T' }];
  expect(halvesOf('My.Schema.T', followed)).toMatchObject({ schema: 'My.Schema', table: 'T' });
  expect(halvesOf('public.t', followed)).toEqual({ schema: 'public', table: 't' });
});
