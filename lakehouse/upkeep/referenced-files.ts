/** Which objects below the table root the log still needs: data files, deletion vectors, those of removed files too. */
import type { AddFile, RemoveFile } from '../table/actions.ts';
import { deletionVectorKey } from '../table/deletion-vector.ts';
import { isAbsolutePath, keyOfPath } from '../table/file-path.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';

/** Schemes whose paths we can tell to lie inside or outside of the table. */
const KNOWN_SCHEME = /^(?:file|s3|s3a|s3n|memory|gs|abfss?|wasbs?|https?):/;

/**
 * Keys of live files and of files removed at or after `removedSinceMs`, with their vectors.
 * @throws TableError UPKEEP_REFUSED when a path has a scheme that may or may not name a place in this table
 */
export function referencedKeys(snapshot: Snapshot, removedSinceMs: number): ReadonlySet<string> {
  const keys = new Set<string>();
  const table = snapshot.store.uri;
  const note = (file: AddFile | RemoveFile): void => {
    for (const key of keysOf(file, table)) keys.add(key);
  };
  for (const file of snapshot.files) note(file);
  for (const file of snapshot.tombstones?.values() ?? []) {
    if (file.deletionTimestamp === null || file.deletionTimestamp >= BigInt(Math.floor(removedSinceMs))) note(file);
  }
  return keys;
}

/** The file's own key and its vector's; none of those that lie outside of the table. */
export function keysOf(file: AddFile | RemoveFile, table: string): readonly string[] {
  if (isAbsolutePath(file.path) && !file.path.startsWith('/') && !KNOWN_SCHEME.test(file.path)) {
    const scheme = file.path.slice(0, file.path.indexOf(':'));
    throw new TableError(
      'UPKEEP_REFUSED',
      { table },
      `the log names files as ${scheme}:…, and whether they lie in this table cannot be told; nothing was deleted`,
    );
  }
  const keys: string[] = [];
  const own = keyOfPath(file.path, table);
  if (own !== null) keys.push(own);
  const vector = file.deletionVector === null ? null : deletionVectorKey(file.deletionVector, table);
  if (vector !== null) keys.push(vector);
  return keys;
}
