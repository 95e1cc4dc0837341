import { expect, it } from 'vitest';
import { benchScan, formatScanBench } from './scan.ts';

it('asks both engines every question, on a table with deletion vectors', async () => {
  const results = await benchScan({ tableRows: 2_000, batches: 1, rounds: 1 });
  expect(results.map(({ question }) => question)).toEqual(['all columns', 'two columns', 'one key']);
  for (const result of results) {
    expect(result.deletedRows).toBe(1_000);
    expect(result.rowsPerSecond).toBeGreaterThanOrEqual(0);
  }
  expect(formatScanBench(results)).toContain('all columns');
});
