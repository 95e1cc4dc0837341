/** Folders on the way to a place that the configuration names. */
import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * As `mkdirSync` with `recursive`, which runs for ever where the system calls an existing parent missing (below /proc).
 * @throws the system's error, of the first folder that cannot be made
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(path);
    if (code === 'ENOENT' && parent !== path) {
      makeFolder(parent);
      makeOne(path);
    } else if (code !== 'EEXIST' || !statSync(path).isDirectory()) {
      throw error;
    }
  }
}

/** Its parent is there; another process may make it at the same time. */
function makeOne(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
