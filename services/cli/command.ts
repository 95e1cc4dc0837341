/**
 * How a command is written: one file in commands/, exporting `(program, context) => void` that registers itself with
 * commander and, in its action, ends by `context.exit(code)` only through the returned exit code. List it in main.ts.
 */
import type { Command } from 'commander';
import type { Config } from '../runtime/config.ts';
import type { ExitCode } from '../runtime/errors.ts';

export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** One chunk of text to stdout / stderr, as it is. */
  readonly out: (text: string) => void;
  /** To stdout, and resolves when whoever reads it has taken it: for what may be much. */
  readonly write: (text: string) => Promise<void>;
  readonly err: (text: string) => void;
  readonly isTty: boolean;
  /** Reads and checks the configuration: `--config` path, or ./sluice.yaml when present, or the environment alone. */
  readonly loadConfig: (path: string | undefined) => Config;
  /** Aborted by SIGINT or SIGTERM. */
  readonly signal: AbortSignal;
  /** Wraps an action: its exit code becomes the process's; a thrown SluiceError is told in one line with its remedy. */
  readonly run: <A extends readonly unknown[]>(
    action: (...args: A) => Promise<ExitCode>,
  ) => (...args: A) => Promise<void>;
}

export type CommandModule = (program: Command, context: CliContext) => void;

/** `--config FILE`, the same everywhere. */
export function withConfig(command: Command): Command {
  return command.option('-c, --config <file>', 'configuration file (default: ./sluice.yaml)');
}
