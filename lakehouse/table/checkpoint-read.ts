/** Reads a checkpoint into a replay (PROTOCOL.md, "Checkpoints"). */
import { getWithRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import { visitActions } from './action-json.ts';
import type { ActionVisitor } from './action-json.ts';
import type { CheckpointFiles } from './log-segment.ts';
import { TableError } from './table-error.ts';

/** @throws TableError CHECKPOINT_UNREADABLE */
export async function readCheckpoint(
  store: ObjectStore,
  checkpoint: CheckpointFiles,
  visitor: ActionVisitor,
  backoff: Backoff,
): Promise<void> {
  for (const file of checkpoint.files) {
    try {
      if (checkpoint.format !== 'json') throw new TypeError('Parquet checkpoints are not read');
      visitActions(await getWithRetry(store, file.key, undefined, backoff), visitor);
    } catch (error) {
      if (error instanceof StoreError && error.code !== 'STORE_NOT_FOUND' && error.code !== 'STORE_TRUNCATED')
        throw error;
      throw new TableError(
        'CHECKPOINT_UNREADABLE',
        { table: store.uri, version: checkpoint.version, file: file.key },
        `the checkpoint cannot be read: ${error instanceof Error ? error.message : 'unreadable'}`,
        { cause: error },
      );
    }
  }
}
