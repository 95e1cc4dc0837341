#!/usr/bin/env node
/**
 * `npm test`: all unit tests, then all integration tests (arguments go to vitest, for example a path), and at the end one
 * plain line of the counts of both: `N passed, N failed`, and `, N skipped` if there are any. Exit code 0 only if nothing
 * failed. With SLUICE_TEST_REQUIRE=all a suite that lacks its tool-chain fails instead of being skipped.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs');
const folder = mkdtempSync(join(tmpdir(), 'sluice-test-counts-'));
const total = { passed: 0, failed: 0, skipped: 0 };
let running = null;
let interrupted = false;

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    interrupted = true;
    running?.kill(signal);
  });
}

/** Exit code of one project's run; its counts are added to the total. */
async function runProject(project) {
  const counts = join(folder, `${project}.json`);
  const args = [vitest, 'run', '--project', project, '--passWithNoTests', ...process.argv.slice(2)];
  running = spawn(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, SLUICE_TEST_COUNTS: counts },
  });
  const code = await new Promise((resolve) => {
    running.once('error', () => resolve(1));
    running.once('exit', (status) => resolve(status ?? 1));
  });
  let found = { passed: 0, failed: 0, skipped: 0 };
  try {
    found = JSON.parse(readFileSync(counts, 'utf8'));
  } catch {
    // The run ended before its reporter did: the exit code below tells.
  }
  // A run that failed without a failed test (a set-up, a crash of the runner) is one failure.
  if (code !== 0 && found.failed === 0) {
    process.stderr.write(`the ${project} run ended with exit code ${code} and no failed test\n`);
    found.failed = 1;
  }
  for (const key of Object.keys(total)) total[key] += found[key];
}

try {
  for (const project of ['unit', 'integration']) if (!interrupted) await runProject(project);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const skipped = total.skipped === 0 ? '' : `, ${total.skipped} skipped`;
process.exitCode = interrupted || total.failed > 0 || total.passed === 0 ? 1 : 0;
process.stdout.write(`${total.passed} passed, ${total.failed} failed${skipped}\n`);
