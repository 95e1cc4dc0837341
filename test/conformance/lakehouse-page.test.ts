/** The program on docs/lakehouse.md runs as it stands there. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = temporaryFolder('page');

it('docs/lakehouse.md shows a program that works', async () => {
  const page = readFileSync(join(ROOT, 'docs/lakehouse.md'), 'utf8');
  const program = /```ts\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  expect(program).toContain('createTable');
  const file = join(folder, 'page.mts');
  writeFileSync(file, program.replaceAll("'./lakehouse/", `'${ROOT}/lakehouse/`));
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file], { cwd: ROOT });
  expect(stdout.trim().split('\n')).toEqual([
    'committed again: false',
    'rows: 2',
    'nothing new: true',
    'version now: 1n',
    'vacuumed: 0',
    'restored to 0 as version: 3n',
    'findings: 0',
  ]);
});
