import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TidRange } from './reader-state.ts';
import { mergeRange, parseTid, rangeCondition, remainingChunks, TID_BLOCK, tidText } from './snapshot-ranges.ts';

const numRuns = Number(process.env['SLUICE_TEST_RUNS'] ?? '1') * 200;
const END = 40 * TID_BLOCK;
const covers = (ranges: readonly TidRange[], tid: number): number =>
  ranges.filter((range) => tid >= range.from && (range.to === null || tid < range.to)).length;

describe('tid ranges', () => {
  it('prints and parses what PostgreSQL prints', () => {
    expect(tidText(parseTid('(4294967294,65535)'))).toBe('(4294967294,65535)');
    expect(rangeCondition({ from: 0, to: 3 * TID_BLOCK + 7 })).toBe(`ctid >= '(0,0)' and ctid < '(3,7)'`);
    expect(rangeCondition({ from: TID_BLOCK, to: null })).toBe(`ctid >= '(1,0)'`);
    expect(() => parseTid('4,5')).toThrow(/not a tid/);
  });

  it('reads every tuple once, whatever was done before and wherever it was cut', () => {
    const range = fc
      .tuple(fc.integer({ min: 0, max: END }), fc.integer({ min: 1, max: END }))
      .map(([from, length]) => ({ from, to: from + length }));
    fc.assert(
      fc.property(
        fc.array(range, { maxLength: 6 }),
        fc.integer({ min: 0, max: 50 }),
        fc.integer({ min: 1, max: 20 }),
        (added, blocks, step) => {
          let done: readonly TidRange[] = [];
          for (const each of added) done = mergeRange(done, each);
          const chunks = remainingChunks(done, blocks, step);
          const probes = [
            0,
            END * 3,
            ...done.flatMap((each) => [each.from, (each.to ?? 0) - 1, each.to ?? 0]),
            ...chunks.flatMap((each) => [each.from, (each.to ?? END * 2) - 1]),
          ];
          for (const tid of probes) if (tid >= 0) expect(covers(done, tid) + covers(chunks, tid)).toBe(1);
          expect(chunks.at(-1)?.to).toBeNull();
          for (const chunk of chunks) done = mergeRange(done, chunk);
          expect(done).toEqual([{ from: 0, to: null }]);
          expect(remainingChunks(done, blocks, step)).toEqual([]);
        },
      ),
      { numRuns },
    );
  });
});
