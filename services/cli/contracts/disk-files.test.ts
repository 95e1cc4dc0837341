import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, describe, expect, it } from 'vitest';

import { fileFault, isDiskFault } from '../../../contracts/cli/file-fault.ts';
import { diskFiles } from './disk-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-files-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function faultOf(work: () => void): { readonly fault: string | null; readonly disk: boolean } {
  try {
    work();
  } catch (error) {
    return { fault: fileFault(error), disk: isDiskFault(error) };
  }
  throw new Error('it was written');
}

describe('diskFiles.write', () => {
  it('makes the folders above', () => {
    const path = join(folder, 'a/b/c.txt');
    diskFiles.write(path, 'x');
    diskFiles.write(path, 'y');
    expect(readFileSync(path, 'utf8')).toBe('y');
  });

  it.skipIf(process.platform !== 'linux')('ends where no folder can be made, and where nothing can be written', () => {
    expect(faultOf(() => diskFiles.write('/proc/sluice-nothing/x', ''))).toEqual({
      fault: '/proc/sluice-nothing: not there, or a link to what is not there',
      disk: false,
    });
    expect(faultOf(() => diskFiles.write('/dev/full', 'x'))).toEqual({ fault: '/dev/full: no space left', disk: true });
    diskFiles.write(join(folder, 'file'), '');
    expect(faultOf(() => diskFiles.write(join(folder, 'file/x'), '')).fault).toContain('a file stands there');
  });
});
