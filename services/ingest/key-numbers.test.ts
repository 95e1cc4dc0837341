import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../test/support/row-events.ts';
import type { KeyCell } from './key-cell.ts';
import { KeyNumbers } from './key-numbers.ts';

const key = fc.oneof(
  fc.integer({ min: -40, max: 40 }),
  fc.maxSafeInteger(),
  fc.constantFrom<KeyCell>(0, -0, 4294967296, -4294967296, 5, '5', 5n, 0.5, Number.NaN, Infinity, 2 ** 63, ''),
  fc.string({ maxLength: 2 }),
);

test('keys have the numbers that a Map would give them', () => {
  fc.assert(
    fc.property(fc.array(key, { maxLength: 60 }), (keys) => {
      const numbers = new KeyNumbers();
      // What it was used for before leaves nothing behind.
      for (const one of keys.slice(0, 9)) numbers.take(one);
      numbers.reset();
      const map = new Map<KeyCell, number>();
      for (const one of keys) {
        expect(numbers.get(one)).toBe(map.get(one));
        if (!map.has(one)) map.set(one, map.size);
        expect(numbers.take(one)).toBe(map.get(one));
      }
      expect(numbers.keys.length).toBe(map.size);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test('many keys keep their numbers as the table grows', () => {
  const numbers = new KeyNumbers();
  const at = (i: number): number => (i % 3 === 0 ? i : i * 4294967296 * (i % 2 === 0 ? 1 : -1));
  const all = Array.from({ length: 20_000 }, (_, i) => i);
  expect(all.map((i) => numbers.take(at(i)))).toEqual(all);
  expect(all.map((i) => numbers.get(at(i)))).toEqual(all);
});
