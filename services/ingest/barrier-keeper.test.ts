import { expect, test } from 'vitest';
import type { Mark } from '../log/event.ts';
import { createBarrierKeeper } from './barrier-keeper.ts';
import type { BarrierTable } from './barrier-keeper.ts';

const closed = (sequence: number, snapshotting: readonly string[] = []) => ({
  mark: { sequence, snapshotting } as unknown as Mark,
  progressOffset: BigInt(sequence),
});
const table = (id: string, reached: number, version: bigint, extra: Partial<BarrierTable> = {}): BarrierTable => ({
  id,
  reached,
  ahead: reached,
  version,
  active: true,
  ...extra,
});

test('a cut holds each table’s version at the barrier, not a later one', () => {
  const keeper = createBarrierKeeper();
  expect(keeper.look([table('a', 0, 1n), table('b', 0, 1n)], closed(5))).toBeNull();
  expect(keeper.barrier()).toBe(5);
  expect(keeper.look([table('a', 5, 7n), table('b', 3, 1n)], closed(9))).toBeNull();
  // `a` went on while `b` was behind: its version at the barrier counts.
  const cut = keeper.look([table('a', 8, 9n), table('b', 5, 2n)], closed(9));
  expect(cut?.versions).toEqual(
    new Map([
      ['a', 7n],
      ['b', 2n],
    ]),
  );
  expect(keeper.barrier()).toBe(9);
});

test('no barrier behind a batch that is under way to a newer mark', () => {
  const keeper = createBarrierKeeper();
  keeper.look([table('a', 0, 1n, { ahead: 6 })], closed(5));
  expect(keeper.barrier()).toBeNull();
  keeper.look([table('a', 6, 1n)], closed(7));
  expect(keeper.barrier()).toBe(7);
});

test('withheld while a table is snapshotting; a stopped table is named, not waited for', () => {
  const keeper = createBarrierKeeper();
  keeper.look([table('a', 0, 1n)], closed(5, ['a']));
  expect(keeper.look([table('a', 5, 1n)], closed(6))).toBeNull();
  const cut = keeper.look([table('a', 6, 2n), table('b', 1, 1n, { active: false })], null);
  expect([cut?.left, cut?.versions]).toEqual([['b'], new Map([['a', 2n]])]);
});

test('no cut where a table was never seen at the barrier: another worker had brought it further', () => {
  const keeper = createBarrierKeeper();
  keeper.look([table('a', 3, 1n)], closed(5));
  expect(keeper.look([table('a', 5, 2n), table('b', 8, 9n)], closed(9))).toBeNull();
  expect(keeper.barrier()).toBe(9);
  expect(keeper.look([table('a', 9, 3n), table('b', 9, 9n)], closed(9))?.versions).toEqual(
    new Map([
      ['a', 3n],
      ['b', 9n],
    ]),
  );
});

test('a barrier moves on while the tables rest, and stays where one plans up to it, however fast marks come', () => {
  const keeper = createBarrierKeeper();
  keeper.look([table('a', 0, 1n), table('b', 0, 1n)], closed(5));
  keeper.look([table('a', 0, 1n), table('b', 0, 1n)], closed(6));
  expect(keeper.barrierAfter(0)).toBe(6);
  keeper.look([table('a', 0, 1n), table('b', 0, 1n)], closed(7));
  expect(keeper.barrier()).toBe(6);
  expect(keeper.look([table('a', 6, 2n), table('b', 6, 2n)], closed(8))?.mark.sequence).toBe(6);
  keeper.look([table('a', 6, 2n), table('b', 6, 2n)], closed(9));
  expect(keeper.barrier()).toBe(9);
});

test('a look at all tables is due when the last of them comes, or a mark may be the next barrier', () => {
  const keeper = createBarrierKeeper();
  expect(keeper.came(table('a', 0, 1n), null)).toBe(false);
  expect(keeper.came(table('a', 0, 1n), closed(5))).toBe(true);
  const stopped = table('c', 0, 1n, { active: false });
  keeper.look([table('a', 0, 1n), table('b', 0, 1n), stopped], closed(5));
  expect(keeper.came(table('a', 3, 1n), closed(5))).toBe(false);
  expect(keeper.came(table('a', 5, 2n), closed(6))).toBe(false);
  // It goes on while `b` is behind: its version at the barrier was seen.
  expect(keeper.came(table('a', 6, 3n), closed(6))).toBe(false);
  expect(keeper.came(table('b', 5, 4n), closed(6))).toBe(true);
  expect(keeper.look([table('a', 6, 3n), table('b', 5, 4n), stopped], closed(6))).toMatchObject({
    left: ['c'],
    versions: new Map([
      ['a', 2n],
      ['b', 4n],
    ]),
  });
  // All stand at the next one already, or one of them has gone past it unseen.
  expect(keeper.came(table('b', 6, 4n), closed(6))).toBe(true);
  expect(keeper.came(table('b', 7, 5n), closed(7))).toBe(true);
});
