/**
 * A server as a child process: started in a session of its own (Ctrl-C at the terminal reaches only us, who stop it in
 * order), its output in a file, never left behind when this process exits.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { LocalServerError } from './local-server-error.ts';

export interface ServerCommand {
  /** For messages: `PostgreSQL 18`, `Kafka`. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Output is appended here. */
  readonly logFile: string;
  /** Run as this user (needs root). */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Folder to remove when this process exits while the server still runs. */
  readonly removeOnExit?: string;
}

export interface ServerProcess {
  readonly pid: number;
  readonly running: boolean;
  /** Signals the server itself; nothing when it is gone. */
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL to it and its children: a power cut, as far as the server can tell. Resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGSTOP / SIGCONT to it and its children: a machine that hangs and wakes up. */
  pause(): void;
  resume(): void;
  /** Resolves when the process has gone. @throws SERVER_STOP_FAILED after `timeoutMs` (it is then killed) */
  waitForExit(timeoutMs: number): Promise<void>;
  /** The last lines of the output, for error messages. */
  logTail(): string;
}

const LOG_TAIL_LINES = 15;
const alive = new Map<number, { readonly removeOnExit: string | undefined }>();
let exitHookInstalled = false;

export function startServerProcess(server: ServerCommand): ServerProcess {
  const log = openSync(server.logFile, 'a');
  let child: ChildProcess;
  try {
    child = spawn(server.command, [...server.args], {
      cwd: server.cwd,
      env: server.env,
      stdio: ['ignore', log, log],
      detached: process.platform !== 'win32',
      windowsHide: true,
      ...(server.user === undefined ? {} : { uid: server.user.uid, gid: server.user.gid }),
    });
  } finally {
    closeSync(log);
  }
  let failure: Error | undefined;
  const gone = new Promise<void>((resolve) => {
    child.once('exit', () => {
      resolve();
    });
    child.once('error', (error) => {
      failure = error;
      resolve();
    });
  });
  const pid = child.pid;
  if (pid === undefined) {
    throw new LocalServerError('SERVER_START_FAILED', `${server.name} does not start: cannot run ${server.command}`);
  }
  installExitHook();
  alive.set(pid, { removeOnExit: server.removeOnExit });
  void gone.then(() => alive.delete(pid));
  const running = (): boolean => failure === undefined && child.exitCode === null && child.signalCode === null;
  return {
    pid,
    get running() {
      return running();
    },
    signal(signal) {
      if (running()) child.kill(signal);
    },
    async kill() {
      if (running()) signalTree(pid, 'SIGKILL');
      await gone;
    },
    pause() {
      if (running()) signalTree(pid, 'SIGSTOP');
    },
    resume() {
      if (running()) signalTree(pid, 'SIGCONT');
    },
    async waitForExit(timeoutMs) {
      const timer = new AbortController();
      const late = sleep(timeoutMs, 'late', { signal: timer.signal }).catch(() => 'gone');
      const outcome = await Promise.race([gone.then(() => 'gone'), late]);
      timer.abort();
      if (outcome === 'gone') return;
      signalTree(pid, 'SIGKILL');
      await gone;
      throw new LocalServerError(
        'SERVER_STOP_FAILED',
        `${server.name} (process ${pid}) did not stop within ${timeoutMs} ms and was killed`,
      );
    },
    logTail: () => tailOf(server.logFile),
  };
}

function tailOf(logFile: string): string {
  try {
    return readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-LOG_TAIL_LINES).join('\n');
  } catch {
    return '';
  }
}

/** Children first-level only: PostgreSQL's backends and Kafka have no deeper ones. Linux; elsewhere the server alone. */
function signalTree(pid: number, signal: NodeJS.Signals): void {
  let children: number[] = [];
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    // No /proc here, or the process has just gone: its children notice the parent's death by themselves.
  }
  for (const target of [pid, ...children]) {
    try {
      process.kill(target, signal);
    } catch {
      // Gone between the listing and now.
    }
  }
}

/**
 * Whatever still runs when this process exits is ended. Exit handlers are synchronous: a server on a temporary folder is
 * killed and the folder removed; one on a lasting folder gets SIGINT (PostgreSQL: fast shutdown; Kafka: controlled
 * shutdown) and finishes on its own.
 */
function installExitHook(): void {
  if (exitHookInstalled) return;
  exitHookInstalled = true;
  process.once('exit', () => {
    for (const [pid, { removeOnExit }] of alive) {
      signalTree(pid, removeOnExit === undefined ? 'SIGINT' : 'SIGKILL');
      if (removeOnExit !== undefined) rmSync(removeOnExit, { recursive: true, force: true, maxRetries: 5 });
    }
  });
}
