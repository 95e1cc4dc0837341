/**
 * Closes a run with a plain line of true counts, `N passed, N failed` and, if there are any, `, N skipped`. A file that does
 * not load and an error outside any test count as failures: nothing that went wrong may leave the line at `0 failed`.
 * Under `npm test`, which runs both projects, the counts go to the file SLUICE_TEST_COUNTS instead and are added up there.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, SerializedError, TestModule } from 'vitest/node';

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

export function closingLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`;
}

export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const counts: Counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const module of modules) {
      let failedTests = 0;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') counts.passed++;
        else if (state === 'failed') failedTests++;
        else counts.skipped++;
      }
      // A module that failed with no failed test in it did not load, or a hook of it failed.
      counts.failed += failedTests === 0 && module.state() === 'failed' ? 1 : failedTests;
    }
    const file = process.env['SLUICE_TEST_COUNTS'];
    if (file === undefined) process.stdout.write(`${closingLine(counts)}\n`);
    else writeFileSync(file, JSON.stringify(counts));
  }
}
