/** Servers that refuse to run as root (PostgreSQL) run as an unprivileged account of the system when we are root. */
import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { LocalServerError } from './local-server-error.ts';

export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Null when this process is not root (the server then runs as we do). Otherwise the owner of `dataDir` when that is an
 * ordinary user, else the account `postgres` or `nobody`: initdb wants an account with a name, so a bare number won't do.
 */
export function serverUser(dataDir: string): ServerUser | null {
  if (process.getuid?.() !== 0) return null;
  const owner = ownerOf(dataDir);
  if (owner !== null && owner.uid !== 0) return owner;
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  for (const name of ['postgres', 'nobody']) {
    const account = accounts.find((fields) => fields[0] === name);
    if (account !== undefined) return { uid: Number(account[2]), gid: Number(account[3]) };
  }
  throw new LocalServerError(
    'SERVER_UNAVAILABLE',
    'PostgreSQL refuses to run as root, and there is no account `postgres` or `nobody` to run it as: run this command as an ordinary user',
  );
}

/** @throws SERVER_DATA_UNUSABLE when that account cannot enter a folder on the way to `dataDir` (`/root`, mostly) */
export function requireReachable(dataDir: string, user: ServerUser): void {
  for (let folder = dirname(dataDir); ; folder = dirname(folder)) {
    const { mode, uid, gid } = statSync(folder);
    const mayEnter = uid === user.uid ? mode & 0o100 : gid === user.gid ? mode & 0o010 : mode & 0o001;
    if (mayEnter === 0) {
      throw new LocalServerError(
        'SERVER_DATA_UNUSABLE',
        `PostgreSQL refuses to run as root, and the account that it runs as (${user.uid}) cannot enter ${folder}: name a data folder elsewhere, or run this command as an ordinary user`,
      );
    }
    if (folder === dirname(folder)) return;
  }
}

function ownerOf(path: string): ServerUser | null {
  try {
    const { uid, gid } = statSync(path);
    return { uid, gid };
  } catch {
    return null;
  }
}
