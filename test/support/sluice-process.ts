/** The `sluice` command as users start it: the program that `server-keeper.ts` built, in a process of its own that can be killed. */
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { REPOSITORY } from './source-files.ts';

export interface SluiceProcess {
  readonly child: ChildProcess;
  /** Resolves when it has ended, with its exit code (null when killed) and what it wrote. */
  readonly ended: Promise<{
    readonly code: number | null;
    readonly signal: string | null;
    readonly out: string;
    readonly err: string;
  }>;
  kill(signal?: NodeJS.Signals): void;
  /** What it has written so far. */
  output(): string;
}

export function startSluice(
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): SluiceProcess {
  const child = spawn(process.execPath, [join(REPOSITORY, 'dist/services/cli/main.js'), ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  return {
    child,
    ended: new Promise((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal, out, err }));
    }),
    kill: (signal = 'SIGKILL') => void child.kill(signal),
    output: () => out + err,
  };
}

/** Runs a command to its end. */
export function runSluice(
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): SluiceProcess['ended'] {
  return startSluice(args, options).ended;
}
