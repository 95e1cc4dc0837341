/**
 * What a postmaster.pid left in a data folder means. PostgreSQL itself only asks whether that process number is alive; a
 * number that another program got since would make it refuse to start, and a server that outlived its parent would hold
 * the folder for ever.
 */
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { LocalServerError } from './local-server-error.ts';

const ORPHAN_STOP_MS = 30_000;

/** Makes the folder free: stops an orphaned server (fast shutdown), removes a stale file. @throws SERVER_DATA_UNUSABLE */
export async function settlePostmasterPid(dataDir: string): Promise<void> {
  const file = join(dataDir, 'postmaster.pid');
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8').split('\n', 1)[0]) : 0;
  if (pid <= 0) return;
  if (!runsPostgresOn(pid, dataDir)) {
    if (existsSync(file)) await rm(file, { force: true });
    return;
  }
  const deadline = Date.now() + ORPHAN_STOP_MS;
  process.kill(pid, 'SIGINT');
  while (runsPostgresOn(pid, dataDir)) {
    if (Date.now() > deadline) {
      throw new LocalServerError(
        'SERVER_DATA_UNUSABLE',
        `another PostgreSQL (process ${pid}) runs on ${dataDir} and does not stop: stop it, or name another folder`,
      );
    }
    await sleep(50);
  }
}

/** Whether that process is alive and, where the system tells, a server on this very folder. */
function runsPostgresOn(pid: number, dataDir: string): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  if (!existsSync('/proc/self/cmdline')) return true;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(dataDir);
  } catch {
    return false;
  }
}
