import { defineConfig } from 'vitest/config';

/**
 * Two projects: `unit` has the tests that sit beside their module and need no server (threads, shared modules, fast);
 * `integration` has everything under test/, two files at a time, each in its own process.
 */
export default defineConfig({
  test: {
    reporters: ['default', './test/support/closing-line-reporter.ts'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{services,contracts,lakehouse,ops}/**/*.test.ts', 'test/architecture.test.ts'],
          pool: 'threads',
          isolate: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/**/*.test.ts'],
          exclude: ['test/architecture.test.ts'],
          pool: 'forks',
          maxWorkers: 2,
          // After the unit tests where both run: vitest wants it said when the numbers of workers differ.
          sequence: { groupOrder: 1 },
          globalSetup: ['./test/support/server-keeper.ts'],
          // No test is about time: what waits has the time of a machine that is many times slower and busy with other things.
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
});
