/** Checkpoints that cannot be read: readers do without them as long as an older one, or the commits, are there. */
import type { Backoff } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import { readCheckpoint } from '../table/checkpoint-read.ts';
import { listLog } from '../table/log-segment.ts';
import { TableError } from '../table/table-error.ts';

/** @param newest only the one that readers begin with */
export async function damagedCheckpoints(
  store: ObjectStore,
  which: 'newest' | 'all',
  backoff: Backoff,
): Promise<readonly { readonly file: string; readonly message: string }[]> {
  const { checkpoints } = await listLog(store, null, backoff);
  const damaged: { file: string; message: string }[] = [];
  for (const checkpoint of which === 'all' ? checkpoints : checkpoints.slice(0, 1)) {
    try {
      await readCheckpoint(store, checkpoint, {}, { backoff, tombstones: true });
    } catch (error) {
      if (!(error instanceof TableError) || error.code !== 'CHECKPOINT_UNREADABLE') throw error;
      // Cleaned up since it was listed.
      const [first] = checkpoint.files;
      if (first !== undefined && (await store.head(first.key)) === null) continue;
      const cause = error.cause instanceof Error ? error.cause.message : 'it cannot be read';
      damaged.push({ file: error.place.file ?? '', message: cause });
    }
  }
  return damaged;
}
