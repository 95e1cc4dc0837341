/** Workers on one machine may be started with one configuration: each takes a state folder of its own, an old one if it can. */
import { accessSync, constants, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../runtime/errors.ts';
import { makeFolder } from '../../runtime/make-folder.ts';

export interface StateFolder {
  readonly path: string;
  release(): void;
}

const NOTE = 'worker.pid';

/** @throws ConfigError naming the folder: in a container it is often another user's volume */
export function makeStateFolder(state: string): void {
  try {
    makeFolder(state);
    accessSync(state, constants.W_OK);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new ConfigError(
      `state: the folder ${state} cannot be used: ${code}`,
      'let the user of this process write there, or set state to another folder',
      cause,
    );
  }
}

/** `<state>` itself where nobody else uses it, else `<state>/worker-1`, … What is in it can be rebuilt. */
export function takeStateFolder(state: string): StateFolder {
  for (let slot = 0; ; slot++) {
    const path = slot === 0 ? state : join(state, `worker-${slot}`);
    makeFolder(path);
    const note = join(path, NOTE);
    if (take(note)) return { path, release: () => rmSync(note, { force: true }) };
  }
}

function take(note: string): boolean {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      writeFileSync(note, String(process.pid), { flag: 'wx' });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const holder = holderOf(note);
    // A container's processes have the same numbers after each start: our own number is no other process.
    if (holder !== null && holder !== process.pid && isAlive(holder)) return false;
    rmSync(note, { force: true });
  }
  return false;
}

function holderOf(note: string): number | null {
  try {
    const pid = Number(readFileSync(note, 'utf8'));
    return Number.isInteger(pid) && pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and another user's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
