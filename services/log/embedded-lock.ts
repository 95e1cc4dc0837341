/**
 * Keeps a process from blocking on the index's lock. LMDB's lock is freed when its holder dies, but a holder that is paused
 * (SIGSTOP, a frozen container) keeps it, and whoever asks then stands still, event loop and all. So each holder leaves a
 * note `busy/<pid>` for the moment of its transaction, and others wait for that note to go, with a limit and an error.
 * The note is no lock: exclusion stays LMDB's.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LogError } from './log.ts';

const WAIT_MS_MAX = 5_000;

export interface LockNote {
  readonly folder: string;
  readonly file: string;
  /** Tells this process from a later one with the same number. */
  readonly started: string;
}

export function createLockNote(directory: string): LockNote {
  const folder = join(directory, 'busy');
  mkdirSync(folder, { recursive: true });
  return { folder, file: join(folder, String(process.pid)), started: startOf('self') };
}

/** Resolves when no other living process is in a transaction. @throws LogError UNAVAILABLE after 5 s */
export async function waitForLock(note: LockNote): Promise<void> {
  let waitedMs = 0;
  for (;;) {
    const holder = otherHolder(note);
    if (holder === null) return;
    if (waitedMs >= WAIT_MS_MAX) {
      throw new LogError(
        'LOG_UNAVAILABLE',
        `process ${holder} holds the embedded log's lock since ${WAIT_MS_MAX / 1000} s; if it is paused, continue or end it`,
      );
    }
    const pauseMs = waitedMs < 20 ? 1 : 20;
    await delay(pauseMs);
    waitedMs += pauseMs;
  }
}

/** Runs `action`, which takes the lock and gives it back before it returns. */
export function holding<T>(note: LockNote, action: () => T): T {
  writeFileSync(note.file, note.started);
  try {
    return action();
  } finally {
    rmSync(note.file, { force: true });
  }
}

function otherHolder(note: LockNote): string | null {
  for (const name of readdirSync(note.folder)) {
    if (name === String(process.pid) || !/^\d+$/.test(name)) continue;
    if (isAlive(note, name)) return name;
    // Left by a process that was killed in its transaction.
    rmSync(join(note.folder, name), { force: true });
  }
  return null;
}

function isAlive(note: LockNote, pid: string): boolean {
  let started: string;
  try {
    started = readFileSync(join(note.folder, pid), 'utf8');
    process.kill(Number(pid), 0);
  } catch (error) {
    // EPERM: it lives, under another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  const now = startOf(pid);
  return now === '' || started === '' || now === started;
}

/** Start time of a process, from /proc where there is one (proc(5), /proc/pid/stat, field 22); otherwise empty. */
function startOf(pid: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch {
    return '';
  }
}
