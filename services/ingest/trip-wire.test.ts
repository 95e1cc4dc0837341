import { describe, expect, it } from 'vitest';

import { createTripWire } from './trip-wire.ts';

type Batch = Parameters<ReturnType<typeof createTripWire>['check']>[0];

const batch = (rowCount: number, parked: number, hash = 'a', limit: number | null = 0.5): Batch => ({
  schemaName: 'public',
  tableName: 't',
  rowCount,
  parked: { length: parked },
  tablePlan: { maxQuarantineRatio: limit, contract: { id: 'c', version: '1.0.0', hash } } as Batch['tablePlan'],
});

/** Batches until one is stopped; its number from 1, or null. */
function stoppedAt(batches: readonly Batch[]): number | null {
  const wire = createTripWire();
  for (const [index, item] of batches.entries()) {
    try {
      wire.check(item);
    } catch {
      return index + 1;
    }
    wire.passed(item);
  }
  return null;
}
const repeat = (times: number, item: Batch): Batch[] => Array.from({ length: times }, () => item);

describe('the trip wire', () => {
  it.each([
    ['a large batch, bad in most rows', [batch(40, 61)], 1],
    ['a large batch at the limit', [batch(50, 50)], null],
    ['a few rows, all bad', repeat(9, batch(0, 10)), null],
    ['small batches, bad for long', repeat(20, batch(0, 10)), 10],
    ['small batches, bad in half of the rows', repeat(200, batch(5, 5)), null],
    [
      'bad ones behind many good ones, until they are the window',
      [...repeat(50, batch(100, 0)), ...repeat(99, batch(0, 10))],
      101,
    ],
    ['a good batch behind bad ones goes in', [...repeat(9, batch(0, 10)), batch(20, 0)], null],
    ['another contract begins anew', [...repeat(9, batch(0, 10)), ...repeat(9, batch(0, 10, 'b'))], null],
    ['no limit', repeat(50, batch(0, 100, 'a', null)), null],
  ])('%s', (_name, batches, expected) => {
    expect(stoppedAt(batches)).toBe(expected);
  });

  it('stops the same batch again until the contract is another', () => {
    const wire = createTripWire();
    const bad = batch(0, 200);
    for (let attempt = 0; attempt < 3; attempt++) expect(() => wire.check(bad)).toThrow(/200 of 200 rows of one batch/);
    expect(() => wire.check(batch(200, 0, 'b'))).not.toThrow();
  });
});
