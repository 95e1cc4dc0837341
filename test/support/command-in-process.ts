/** One command of ours run in this process, over a lake folder, with few other settings or none: what it printed, its exit code, its error. */
import { Command } from 'commander';
import type { CliContext } from '../../services/cli/command.ts';
import { explainFailure } from '../../services/cli/explain-failure.ts';
import { parseConfig } from '../../services/runtime/config.ts';

export interface CommandResult {
  readonly out: string;
  readonly err: string;
  readonly code: number;
  readonly error: string;
}

export async function runCommand(
  lake: string,
  register: (program: Command, context: CliContext) => void,
  args: readonly string[],
  settings = '',
): Promise<CommandResult> {
  let out = '';
  let err = '';
  let code = -1;
  let error = '';
  const context: CliContext = {
    env: {},
    cwd: lake,
    out: (text) => void (out += text),
    write: (text) => Promise.resolve(void (out += text)),
    err: (text) => void (err += text),
    isTty: false,
    loadConfig: () =>
      parseConfig({ text: `lake: {uri: ${lake}}\n${settings}`, file: 'sluice.yaml', env: {}, readFile: () => '' }),
    signal: new AbortController().signal,
    run:
      (action) =>
      async (...given) => {
        try {
          code = await action(...given);
        } catch (thrown) {
          const failure = explainFailure(thrown);
          code = failure.exit;
          error = failure.message;
        }
      },
  };
  const program = new Command('sluice').exitOverride();
  register(program, context);
  await program.parseAsync(['node', 'sluice', ...args]);
  return { out, err, code, error };
}
