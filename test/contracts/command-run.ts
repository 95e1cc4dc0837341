/** Runs the `contracts` command in this process, on real files and real git; databases and lakes are given by the test. */
import { createGit } from '../../services/cli/contracts/git-process.ts';
import { diskFiles } from '../../services/cli/contracts/disk-files.ts';
import { runContracts } from '../../contracts/cli/command-line.ts';
import { CommandError, EXIT } from '../../contracts/cli/exit-code.ts';
import type { Ports } from '../../contracts/cli/ports.ts';

export interface CommandRun {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

export async function contracts(cwd: string, args: readonly string[], given: Partial<Ports> = {}): Promise<CommandRun> {
  let out = '';
  let err = '';
  const absent = (code: 'SOURCE_UNREADABLE' | 'LAKE_UNREADABLE' | 'LOG_UNREADABLE') => () =>
    Promise.reject(new CommandError(code, EXIT.environment, 'nothing listens there', 'start it'));
  const exit = await runContracts(args, {
    cwd,
    env: {},
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    files: diskFiles,
    git: createGit(process.env),
    nowMicros: () => 1_767_225_600_000_000n,
    catalog: absent('SOURCE_UNREADABLE'),
    lake: absent('LAKE_UNREADABLE'),
    stream: absent('LOG_UNREADABLE'),
    ...given,
  });
  return { exit, out, err };
}
