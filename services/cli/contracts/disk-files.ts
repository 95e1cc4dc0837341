import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { dirname, join } from 'node:path';
import type { FilePort } from '../../../contracts/cli/ports.ts';

export const diskFiles: FilePort = {
  kind(path) {
    const found = entryAt(path);
    return found === undefined ? null : found.isDirectory() ? 'folder' : 'file';
  },
  read: (path) => readFileSync(path, 'utf8'),
  list: (folder) => below(folder, '').toSorted(),
  write(path, text) {
    makeFolder(dirname(path));
    try {
      writeFileSync(path, text);
    } catch (error) {
      // A full disk shows at the write, and that error names no file.
      throw error instanceof Error && !('path' in error) ? Object.assign(error, { path }) : error;
    }
  },
};

/** Step by step: Node's own `recursive` never returns where a file system says "not there" to every folder, as /proc does. */
function makeFolder(folder: string): void {
  if (isFolder(folder)) return;
  if (dirname(folder) !== folder) makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    if (!isFolder(folder)) throw error;
  }
}

function isFolder(path: string): boolean {
  try {
    return entryAt(path)?.isDirectory() === true;
  } catch {
    // A circle of links: whoever reads it says so.
    return false;
  }
}

/** A path below a file names nothing, too. */
function entryAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Hidden folders and node_modules hold no contracts. Links to files are files, dead ones too; links to folders are not followed. */
function below(folder: string, prefix: string): string[] {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const path = prefix === '' ? entry.name : `${prefix}/${entry.name}`;
    if (entry.isFile()) return [path];
    if (entry.isSymbolicLink()) return isFolder(join(folder, path)) ? [] : [path];
    const skipped = !entry.isDirectory() || entry.name.startsWith('.') || entry.name === 'node_modules';
    return skipped ? [] : below(folder, path);
  });
}
