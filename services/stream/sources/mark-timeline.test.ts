import { expect, test } from 'vitest';
import type { Mark } from '../../log/event.ts';
import type { LogOffset, Lsn } from '../../log/position.ts';
import { createMarkTimeline } from './mark-timeline.ts';

const mark = (sequence: number, offsets: Record<string, Record<number, bigint>>, extra: Partial<Mark> = {}): Mark => ({
  formatVersion: 1,
  sequence,
  epoch: 1,
  logId: 'log',
  lsn: BigInt(sequence) as Lsn,
  ord: 0,
  confirmLsn: BigInt(sequence) as Lsn,
  open: false,
  nextOffsets: offsets as Record<string, Record<number, LogOffset>>,
  full: false,
  bytes: BigInt(sequence * 100),
  snapshotting: [],
  sourceTimeMicros: 0n,
  atMs: 0,
  ...extra,
});

test('a full mark repeats what is known and moves nothing', () => {
  const timeline = createMarkTimeline();
  timeline.add(mark(1, { a: { 0: 5n } }), 0n);
  timeline.add(mark(2, { a: { 0: 5n }, b: { 0: 1n } }, { full: true }), 1n);
  const [first, second] = timeline.cutsAfter('a', 0);
  expect([first?.nextOffsets.get(0), second?.nextOffsets.size]).toEqual([5n, 0]);
  expect(timeline.cutsAfter('b', 1)[0]?.nextOffsets.get(0)).toBe(1n);
});

test('a mark read twice counts once', () => {
  const timeline = createMarkTimeline();
  timeline.add(mark(1, { a: { 0: 5n } }), 0n);
  timeline.add(mark(1, { a: { 0: 5n } }), 0n);
  expect(timeline.size).toBe(1);
});

test('the newest closed mark is not one inside a transaction', () => {
  const timeline = createMarkTimeline();
  timeline.add(mark(1, {}), 0n);
  timeline.add(mark(2, {}, { open: true }), 1n);
  expect([timeline.newest()?.mark.sequence, timeline.newestClosed()?.mark.sequence]).toEqual([2, 1]);
});

test('marks that pile up are thinned out, and no record is lost by it', () => {
  const timeline = createMarkTimeline();
  const count = 30_000;
  for (let i = 1; i <= count; i++) timeline.add(mark(i, { a: { [i % 2]: BigInt(i) } }), BigInt(i));
  expect(timeline.size).toBeLessThan(20_001);
  const reached = new Map<number, bigint>();
  for (const cut of timeline.cutsAfter('a', 0))
    for (const [partition, next] of cut.nextOffsets) reached.set(partition, next);
  expect(reached).toEqual(
    new Map([
      [0, BigInt(count)],
      [1, BigInt(count - 1)],
    ]),
  );
});

test('what every table has passed is forgotten, the newest stays', () => {
  const timeline = createMarkTimeline();
  for (let i = 1; i <= 5; i++) timeline.add(mark(i, { a: { 0: BigInt(i) } }), BigInt(i));
  timeline.forget(5);
  expect(timeline.size).toBe(1);
  expect(timeline.cutsAfter('a', 4)).toHaveLength(1);
});

test('the first closed mark of each second is a barrier, the same for all who read the marks', () => {
  const times = [900, 1100, 1500, 2010, 2020, 3999, 4000, 9000];
  const timeline = createMarkTimeline();
  const late = createMarkTimeline();
  times.forEach((atMs, i) => {
    const entry = mark(i + 1, {}, { atMs, open: i === 3 });
    timeline.add(entry, 0n);
    if (i >= 2) late.add(entry, 0n);
  });
  const barriers = (of: typeof timeline): number[] =>
    times.flatMap((_, i) => ((of.at(i + 1)?.barrier ?? -1) >= 0 ? [i + 1] : []));
  expect(barriers(timeline)).toEqual([2, 5, 6, 7, 8]);
  expect(barriers(late)).toEqual([5, 6, 7, 8]);
  expect(timeline.at(7)?.barrier).toBe(2);
  expect(timeline.at(8)?.barrier).toBe(3);
});

test('a table that is behind takes barriers of longer stretches, which are among those of shorter ones', () => {
  const timeline = createMarkTimeline();
  for (let i = 1; i <= 1000; i++) timeline.add(mark(i, {}, { atMs: i * 100 }), 0n);
  const walk = (from: number, level: number): number[] => {
    const seen: number[] = [];
    for (let at = from; ;) {
      const next = timeline.nextBarrier(at, level);
      if (next === null) return seen;
      seen.push((at = next.mark.sequence));
    }
  };
  expect(walk(970, 0)).toEqual([980, 990, 1000]);
  expect(walk(0, 0).length).toBeLessThan(20);
  expect(walk(970, 0)).toEqual(expect.arrayContaining(walk(900, 0).filter((sequence) => sequence > 970)));
  expect(walk(0, 4)).toEqual(walk(0, 0).filter((sequence) => (timeline.at(sequence)?.barrier ?? -1) >= 4));
});

test('marks that are read anew after a reset make the same cuts', () => {
  const timeline = createMarkTimeline();
  for (let i = 1; i <= 5; i++) timeline.add(mark(i, { a: { 0: BigInt(i) } }), BigInt(i));
  timeline.forget(5);
  timeline.reset();
  expect([timeline.size, timeline.newest(), timeline.newestClosed()]).toEqual([0, null, null]);
  for (let i = 3; i <= 5; i++) timeline.add(mark(i, { a: { 0: BigInt(i) } }), BigInt(i));
  expect(timeline.cutsAfter('a', 3).map(({ nextOffsets }) => nextOffsets.get(0))).toEqual([4n, 5n]);
});

test('a topic that grew is known by its mark, also when marks are thinned out', () => {
  const timeline = createMarkTimeline();
  for (let i = 1; i <= 21_001; i++)
    timeline.add(mark(i, { a: { 0: BigInt(i) }, b: { 0: BigInt(i) } }, i === 5000 ? { grew: ['a'] } : {}), BigInt(i));
  expect(timeline.size).toBeLessThan(5000);
  expect([timeline.grewAt('a'), timeline.grewAt('b')]).toEqual([5000, 0]);
  expect(timeline.cutsAfter('a', 0).flatMap(({ sequence, grew }) => (grew === true ? [sequence] : []))).toEqual([5000]);
  expect(timeline.cutsAfter('a', 0).findLast(({ sequence }) => sequence < 5000)?.sequence).toBe(4999);
  expect(timeline.cutsAfter('b', 0).some(({ grew }) => grew === true)).toBe(false);
});
