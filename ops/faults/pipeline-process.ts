/** One `sluice` process of a drill: started, killed, frozen and started again, with what it wrote kept for the report. */
import { spawn, type ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

export interface PipelineCommand {
  /** Program and first arguments, such as [node, …/main.js]. */
  readonly program: readonly [string, ...string[]];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface PipelineProcess {
  readonly role: string;
  readonly running: boolean;
  readonly ended: Promise<ProcessEnd>;
  signal(name: NodeJS.Signals): void;
  /** Last lines that it wrote to stderr. */
  tail(): string;
}

const TAIL_BYTES = 6_000;

export function startProcess(
  command: PipelineCommand,
  role: string,
  extra: Readonly<Record<string, string>> = {},
): PipelineProcess {
  const [program, ...first] = command.program;
  const child: ChildProcess = spawn(program, [...first, role], {
    cwd: command.cwd,
    env: { ...command.env, ...extra },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let tail = '';
  const keep = (text: string): void => {
    tail = (tail + text).slice(-TAIL_BYTES);
  };
  child.stdout?.setEncoding('utf8').on('data', keep);
  child.stderr?.setEncoding('utf8').on('data', keep);
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('close', (code, signal) => resolve({ code, signal }));
    child.once('error', () => resolve({ code: 3, signal: null }));
  });
  return {
    role,
    get running() {
      return child.exitCode === null && child.signalCode === null;
    },
    ended,
    signal: (name) => void child.kill(name),
    tail: () => tail,
  };
}

/** Runs a command to its end. Null = it took longer and was killed. */
export async function runCommand(
  command: PipelineCommand,
  args: readonly string[],
  timeoutMs: number,
): Promise<{ readonly code: number | null; readonly out: string; readonly err: string } | null> {
  const [program, ...first] = command.program;
  const child = spawn(program, [...first, ...args], {
    cwd: command.cwd,
    env: { ...command.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  const timer = new AbortController();
  const code = await Promise.race([
    ended,
    sleep(timeoutMs, 'late' as const, { signal: timer.signal }).catch(() => 'late' as const),
  ]);
  timer.abort();
  if (code !== 'late') return { code, out, err };
  child.kill('SIGKILL');
  await ended;
  return null;
}
