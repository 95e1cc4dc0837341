import { expect, it } from 'vitest';
import { createMemoryStore } from '../../lakehouse/store/memory-store.ts';
import { costOf, describeCost } from './read-cost.ts';
import { ASSUMED_SPEED, createSpeedWatch, readSpeed, writeSpeed } from './read-speed.ts';

it('the speed of a reading is that of all its tables together, from the first to the last', () => {
  let now = 1_000;
  const look = createSpeedWatch(() => now);
  // A table that was read long ago does not count.
  expect(look({ reading: false, rows: 500, bytes: 10n })).toBeNull();
  expect(look({ reading: true, rows: 500, bytes: 10n })).toBeNull();
  now += 6_000;
  expect(look({ reading: true, rows: 70_000, bytes: 9_000_010n })).toBeNull();
  now += 4_000;
  expect(look({ reading: false, rows: 100_500, bytes: 20_000_010n })).toEqual({
    rowsPerSecond: 10_000,
    bytesPerSecond: 2_000_000,
    measuredAtMs: 11_000,
  });
  // Too little to say anything.
  look({ reading: true, rows: 100_500, bytes: 20_000_010n });
  now += 10_000;
  expect(look({ reading: false, rows: 100_900, bytes: 20_100_010n })).toBeNull();
});

it('an estimate goes by what was measured, and says so', async () => {
  const lake = createMemoryStore();
  const read = { rows: 600_000, bytes: 60_000_000 };
  const assumed = costOf(read, { walBytesPerSecond: 0, speed: await readSpeed(lake) });
  expect(assumed).toMatchObject({ minutes: 0.4, speed: ASSUMED_SPEED });
  expect(describeCost(assumed)).toContain('at an assumed 25000 rows or 8.0 MB a second');
  await writeSpeed(lake, { rowsPerSecond: 10_000, bytesPerSecond: 2_000_000, measuredAtMs: Date.UTC(2026, 0, 31) });
  const measured = costOf(read, { walBytesPerSecond: 1_000, speed: await readSpeed(lake) });
  expect(measured).toMatchObject({ minutes: 1, walBytes: 60_000 });
  expect(describeCost(measured)).toContain('at 10000 rows or 2.0 MB a second, measured here on 2026-01-31');
  expect(costOf(read, { walBytesPerSecond: 0, speed: ASSUMED_SPEED, rate: 1_000_000 }).minutes).toBe(1);
});
