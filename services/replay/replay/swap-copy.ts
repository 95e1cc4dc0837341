/** Brings a built table's objects below the root of the table that is switched to them. */
import { FENCE_FOLDER } from '../../../lakehouse/merge/fences.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { copyObjects, objectsOf } from '../../../lakehouse/upkeep/replace-rows.ts';
import type { ReplayParts } from './parts.ts';

/** Copies older than this are made anew before a commit names them: VACUUM could be about to take them. */
export const COPY_FRESH_MS = 24 * 3600 * 1000;

/** The bulk is copied while batches go on; in the table's turn only what came since is left. */
export async function copyAhead(
  parts: ReplayParts,
  from: ObjectStore,
  to: ObjectStore,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: number) => void },
): Promise<number> {
  const source = await openSnapshot(from);
  const total = [...source.files].reduce((sum, file) => sum + Number(file.size), 0);
  let copied = 0;
  return copyObjects(from, to, objectsOf(source), {
    freshSinceMs: parts.now() - COPY_FRESH_MS,
    signal: options.signal,
    async onCopied(bytes) {
      copied += bytes;
      options.onProgress(Math.min(0.9, (0.9 * copied) / Math.max(1, total)));
      await parts.failpoint('during-swap-copy');
    },
  });
}

/** Deletes that only the built table saw (their rows were parked in the other one) stay fenced. */
export async function copyFences(
  from: ObjectStore,
  to: ObjectStore,
  number: number,
): Promise<{ readonly keys: readonly string[]; readonly bytes: number }> {
  const keys: string[] = [];
  let bytes = 0;
  for await (const { key } of from.list(FENCE_FOLDER)) {
    if (!key.endsWith('.parquet')) continue;
    const body = await from.get(key);
    // Names of joined fence files tell of versions: of this table they would tell lies.
    const own = `${FENCE_FOLDER}swap-${number}-${keys.length}.parquet`;
    await to.put(own, body);
    keys.push(own);
    bytes += body.byteLength;
  }
  return { keys, bytes };
}
