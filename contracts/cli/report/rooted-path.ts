/** A file of a finding as the repository's root sees it. */
import { isAbsolute, posix } from 'node:path';

export interface Repository {
  /** Absolute. */
  readonly root: string;
  /** The folder in which files are named, from the root: `data/`. */
  readonly prefix: string;
}

export function rootedPath(repository: Repository | null, file: string): string {
  if (repository === null || file === '') return file;
  if (!isAbsolute(file)) return posix.join(repository.prefix, file);
  const root = `${repository.root}/`;
  return file.startsWith(root) ? file.slice(root.length) : file;
}
