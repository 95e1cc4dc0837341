/** Chunks that are being read, and what their snapshots still need remembered. */
import type { VisibleSet } from './visibility.ts';

export interface RunningChunk {
  snapshot: VisibleSet | null;
  /** Its snapshot was asked for and has not been told yet: the server may have taken it already. */
  beginning: boolean;
}

/**
 * Every snapshot that a chunk has or will have, given one of just now; null when that cannot be said, because a chunk that
 * begins may have an older one. Of those that do not begin yet, none is older than `now`.
 */
export function snapshotsInUse(running: Iterable<RunningChunk>, now: VisibleSet): readonly VisibleSet[] | null {
  const snapshots = [now];
  for (const { snapshot, beginning } of running) {
    if (beginning) return null;
    if (snapshot !== null) snapshots.push(snapshot);
  }
  return snapshots;
}
