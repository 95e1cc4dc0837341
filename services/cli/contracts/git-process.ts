/** git as a child process: nothing of a repository is written, no pager, no prompt. */
import { execFile } from 'node:child_process';
import type { GitPort } from '../../../contracts/cli/ports.ts';

const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

export function createGit(env: Readonly<Record<string, string | undefined>>): GitPort {
  return (args, folder) =>
    new Promise((done) => {
      execFile(
        'git',
        ['-c', 'core.quotepath=off', '-c', 'color.ui=false', '--no-pager', ...args],
        {
          cwd: folder,
          env: { ...env, GIT_OPTIONAL_LOCKS: '0', GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' },
          encoding: 'utf8',
          maxBuffer: OUTPUT_BYTES_MAX,
        },
        (error, stdout, stderr) => {
          if (error === null) return done({ code: 0, stdout, stderr });
          const code = typeof error.code === 'number' ? error.code : 127;
          done({ code, stdout, stderr: stderr === '' ? error.message : stderr });
        },
      );
    });
}
