/** Where fetched and unpacked servers are kept: everything in it can be made again. */
import { chmodSync, lstatSync, mkdirSync, mkdtempSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * The user's cache folder for Sluice, created if absent. For root `/var/cache/sluice`, which an unprivileged server process
 * can enter (`/root` it cannot). Falls back to a fresh temporary folder where neither can be written. A folder that belongs
 * to somebody else is not used: programs are run from it.
 */
export function userCacheFolder(): string {
  const root = process.getuid?.() === 0;
  const folder = root ? '/var/cache/sluice' : join(homedir(), '.cache', 'sluice');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o755 });
    const stat = lstatSync(folder);
    const ours = process.getuid === undefined || stat.uid === process.getuid();
    if (stat.isDirectory() && ours && (stat.mode & 0o022) === 0) return folder;
  } catch {
    // Read-only home or no home at all: below.
  }
  const temporary = mkdtempSync(join(tmpdir(), 'sluice-cache-'));
  chmodSync(temporary, 0o755);
  return temporary;
}
