/**
 * Checkpoints when they pay: after so many commits, or so many bytes of them, since the last one. Both bound what opening
 * the table reads; a checkpoint costs as much as the table has files, so that it must not come with every commit.
 */
import type { Backoff } from '../store/retry.ts';
import { writeCheckpoint } from '../table/checkpoint.ts';
import type { WrittenCheckpoint } from '../table/checkpoint.ts';
import { listLog } from '../table/log-segment.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';

export interface CheckpointRules {
  readonly commitsMax: number;
  readonly commitBytesMax: number;
}

export const CHECKPOINT_RULES: CheckpointRules = { commitsMax: 100, commitBytesMax: 16 * 1024 * 1024 };

/** The table's own `delta.checkpointInterval` counts when it is set. Pure. */
export function isCheckpointDue(
  since: { readonly commits: number; readonly bytes: number },
  interval: string | undefined,
  rules: CheckpointRules = CHECKPOINT_RULES,
): boolean {
  const asked = interval !== undefined && /^[1-9]\d*$/.test(interval) ? Number(interval) : rules.commitsMax;
  return since.commits >= asked || (since.commits > 0 && since.bytes >= rules.commitBytesMax);
}

/**
 * Writes a checkpoint of the newest version if it is due; null when not. Asking costs one listing from the last checkpoint
 * on.
 */
export async function checkpointIfDue(
  snapshot: Snapshot,
  options: { readonly rules?: CheckpointRules; readonly now?: () => number; readonly backoff?: Backoff } = {},
): Promise<WrittenCheckpoint | null> {
  const { store } = snapshot;
  const listing = await listLog(store, snapshot.checkpointVersion, options.backoff);
  const last = listing.checkpoints[0]?.version ?? -1n;
  const since = { commits: 0, bytes: 0 };
  for (const [version, { sizeBytes }] of listing.commits) {
    if (version <= last) continue;
    since.commits++;
    since.bytes += sizeBytes;
  }
  if (!isCheckpointDue(since, snapshot.metadata.configuration['delta.checkpointInterval'], options.rules)) return null;
  const whole = await openSnapshot(store, { ...options, tombstones: true });
  return writeCheckpoint(whole, options);
}
