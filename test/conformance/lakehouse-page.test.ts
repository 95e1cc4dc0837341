/** The programs on docs/lakehouse.md run as they stand there. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = temporaryFolder('page');

const PROGRAMS = [...readFileSync(join(ROOT, 'docs/lakehouse.md'), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)];

it.each([
  [
    'tables',
    [
      'committed again: false',
      'rows: 2',
      'nothing new: true',
      'version now: 1n',
      'vacuumed: 0',
      'restored to 0 as version: 3n',
      'findings: 0',
    ],
  ],
  [
    'merges',
    [
      'version 1: 2 inserted, 0 updated, 0 deleted, 0 stale',
      'version 2: 1 inserted, 1 updated, 1 deleted, 0 stale',
      'version 3: 0 inserted, 0 updated, 0 deleted, 2 stale',
      'delete bolt 20',
      'insert nail 5',
      'update_postimage nut 9',
      'update_preimage nut 10',
      'pieces: 14',
    ],
  ],
])('docs/lakehouse.md shows a program of %s that works', async (name, said) => {
  const program = PROGRAMS[name === 'tables' ? 0 : 1]?.[1] ?? '';
  const file = join(folder, `${name}.mts`);
  writeFileSync(file, program.replaceAll("'./lakehouse/", `'${ROOT}/lakehouse/`));
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file], { cwd: ROOT });
  // The change feed orders versions, not the rows of one.
  expect(stdout.trim().split('\n').sort()).toEqual([...said].sort());
});
