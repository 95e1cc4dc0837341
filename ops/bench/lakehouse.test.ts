import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { benchCompact } from './compact.ts';
import { ALLOCATOR, benchMergeApart } from './merge-apart.ts';
import { benchOpen } from './open.ts';

test('opening and compaction are measured', { timeout: 120_000 }, async () => {
  const opened = await benchOpen({
    tables: [
      { commits: 55, filesACommit: 1 },
      { commits: 2, filesACommit: 50 },
    ],
  });
  expect(opened).toMatchObject([
    { commits: 55, files: 55 },
    { commits: 2, files: 100 },
  ]);
  const compacted = await benchCompact(2_000);
  // Batches that come beside add files of their own: counted with the table's, there were as many after it as before.
  expect(compacted.filesRewritten).toBeGreaterThan(10);
  expect(compacted.filesWritten).toBe(1);
  expect(compacted.rowsPurged).toBeGreaterThan(0);
});

test('merging is measured in a process of its own', { timeout: 120_000 }, async () => {
  const [measured] = await benchMergeApart([20_000], { batches: 1 });
  expect(measured).toMatchObject({ tableRows: 20_000, batchRows: 10_000 });
  expect(measured?.rssPeakBytes).toBeGreaterThanOrEqual(measured?.rssBytes ?? Infinity);
});

test('the command and the image give the allocator the settings of the measurement', () => {
  const text = Object.entries(ALLOCATOR)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
  const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  expect(read('ops/bin/sluice.mjs').split('\n')[0]).toContain(`env -S ${text} node`);
  expect(read('ops/Dockerfile')).toContain(text);
});
