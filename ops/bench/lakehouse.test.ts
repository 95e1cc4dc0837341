import { expect, test } from 'vitest';
import { benchCompact } from './compact.ts';
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
  expect(compacted.filesBefore).toBeGreaterThan(10);
  expect(compacted.rowsPurged).toBeGreaterThan(0);
});
