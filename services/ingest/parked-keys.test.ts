import { expect, it } from 'vitest';
import { createParkedKeys } from './parked-keys.ts';

const entry = (id: string, lsn: bigint) => ({ id, epoch: 1, lsn, ord: 0, absentColumns: [] });

it('a TRUNCATE supersedes what was parked before it, of every key, and nothing behind it', () => {
  const parked = createParkedKeys([
    [1, [entry('a', 10n), entry('b', 30n)]],
    [2, [entry('c', 19n)]],
    [3, [entry('d', 21n)]],
  ]);
  expect(parked.healAll({ epoch: 1, lsn: 20n, ord: 0 }).map(({ id }) => id)).toEqual(['a', 'c']);
  expect([1, 2, 3].map((key) => parked.has(key))).toEqual([true, false, true]);
  expect(parked.healAll({ epoch: 1, lsn: 20n, ord: 0 })).toEqual([]);
  expect(parked.heal(1, { epoch: 1, lsn: 40n, ord: 0 }).map(({ id }) => id)).toEqual(['b']);
});
