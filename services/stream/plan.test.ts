import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../test/support/row-events.ts';
import type { LogOffset } from '../log/position.ts';
import { planBatch } from './plan.ts';
import type { Cut } from './plan.ts';

const offset = (value: number): LogOffset => BigInt(value) as LogOffset;
const LIMITS = { maxOffsetsPerTrigger: 100, batchBytesMax: 1_000_000, barrier: null };

function cutsOf(moves: readonly { readonly partition: number; readonly by: number; readonly bytes: number }[]): Cut[] {
  const next = new Map<number, number>();
  let bytes = 0;
  let records = 0;
  return moves.map(({ partition, by, bytes: size }, index) => {
    next.set(partition, (next.get(partition) ?? 0) + by);
    bytes += size;
    records += by;
    return {
      sequence: index + 1,
      epoch: 1,
      nextOffsets: by === 0 ? new Map() : new Map([[partition, offset(next.get(partition) ?? 0)]]),
      totalBytes: BigInt(bytes),
      totalRecords: BigInt(records),
    };
  });
}
const step = (by: number, bytes = by): { partition: number; by: number; bytes: number } => ({
  partition: 0,
  by,
  bytes,
});

test('ends a batch before a topic that grew: a key’s records stand in one partition only', () => {
  const cuts = cutsOf([step(10), step(10), step(0), step(10), step(10)]).map((cut, index) =>
    index === 3 ? { ...cut, grew: true } : cut,
  );
  expect(planBatch(new Map(), cuts, LIMITS)?.cut.sequence).toBe(3);
  expect(planBatch(new Map([[0, offset(20)]]), cuts.slice(3), LIMITS)?.cut.sequence).toBe(5);
});

test('takes as many cuts as the limits allow, and at least one', () => {
  const cuts = cutsOf([step(60), step(30), step(30)]);
  expect(planBatch(new Map(), cuts, LIMITS)?.cut.sequence).toBe(2);
  expect(planBatch(new Map(), cuts, { ...LIMITS, maxOffsetsPerTrigger: 5 })?.cut.sequence).toBe(1);
  expect(planBatch(new Map(), cuts, { ...LIMITS, batchBytesMax: 31 })?.cut.sequence).toBe(2);
});

test('plans nothing where nothing moved, and goes on to the last mark that moved nothing', () => {
  expect(planBatch(new Map([[0, offset(60)]]), cutsOf([step(60)]), LIMITS)).toBeNull();
  expect(planBatch(new Map(), cutsOf([step(10), step(0), step(0)]), LIMITS)?.cut.sequence).toBe(3);
});

test('never passes the barrier or an epoch', () => {
  const cuts = cutsOf([step(10), step(10), step(10)]);
  expect(planBatch(new Map(), cuts, { ...LIMITS, barrier: 2 })?.cut.sequence).toBe(2);
  const [first, second] = cuts;
  const risen = { ...second!, epoch: 2 };
  expect(planBatch(new Map(), [first!, risen], LIMITS)?.cut.sequence).toBe(1);
});

test('batches one after another cover every offset once, whatever the limits', () => {
  const move = fc.record({
    partition: fc.integer({ min: 0, max: 2 }),
    by: fc.integer({ min: 0, max: 50 }),
    bytes: fc.integer({ min: 0, max: 5000 }),
  });
  fc.assert(
    fc.property(
      fc.array(move, { maxLength: 30 }),
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 20_000 }),
      (moves, max, bytes) => {
        const cuts = cutsOf(moves);
        let position = new Map<number, LogOffset>();
        let sequence = 0;
        for (;;) {
          const planned = planBatch(
            position,
            cuts.filter((cut) => cut.sequence > sequence),
            { maxOffsetsPerTrigger: max, batchBytesMax: bytes, barrier: null },
          );
          if (planned === null) break;
          for (const [partition, from] of planned.from) expect(from).toBe(position.get(partition) ?? 0n);
          position = new Map([...position, ...planned.to]);
          expect(planned.cut.sequence).toBeGreaterThan(sequence);
          sequence = planned.cut.sequence;
        }
        const expected = new Map<number, bigint>();
        for (const { partition, by } of moves)
          if (by > 0) expected.set(partition, (expected.get(partition) ?? 0n) + BigInt(by));
        expect(position).toEqual(expected);
      },
    ),
    { numRuns: propertyRuns(100) },
  );
});
