/** What happened when: the commits of a log with their times, and time travel by timestamp. */
import { DEFAULT_BACKOFF } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import type { Commit } from './actions.ts';
import { listLog } from './log-segment.ts';
import { readCommit } from './log-reader.ts';
import { milliseconds } from './replay.ts';
import { openSnapshot } from './snapshot.ts';
import type { OpenOptions, Snapshot } from './snapshot.ts';
import { TableError } from './table-error.ts';

export interface HistoryEntry {
  readonly version: bigint;
  /** In-commit timestamp where there is one, else the commit's own, else the file's. */
  readonly timestampMs: number;
  readonly commit: Commit;
}

/** Newest first, from `before` (exclusive) when given. Reads one commit at a time. */
export async function* readHistory(
  store: ObjectStore,
  options: { readonly before?: bigint; readonly backoff?: Backoff } = {},
): AsyncIterable<HistoryEntry> {
  const listing = await listLog(store, null, options.backoff);
  if (listing.newest === null) throw new TableError('TABLE_NOT_FOUND', { table: store.uri }, 'no Delta table here');
  const versions = [...listing.commits.keys()].sort((a, b) => (a > b ? -1 : 1));
  for (const version of versions) {
    if (options.before !== undefined && version >= options.before) continue;
    const commit = await readCommit(store, version, options.backoff);
    // Cleaned up between listing and reading: so is everything before it.
    if (commit === null) return;
    const info = commit.commitInfo ?? {};
    const own = milliseconds(info['inCommitTimestamp']) ?? milliseconds(info['timestamp']);
    yield { version, timestampMs: own ?? listing.commits.get(version)?.modifiedMs ?? 0, commit };
  }
}

/**
 * The newest version that was committed at or before `timestampMs` (PROTOCOL.md, "In-Commit Timestamps"; without them, the
 * modification times of the commit files, made to rise by a millisecond at least from one to the next).
 * @throws TableError VERSION_NOT_FOUND when the oldest commit still there is younger
 */
export async function versionAt(
  store: ObjectStore,
  timestampMs: number,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<bigint> {
  const newest = await openSnapshot(store, { backoff });
  const { configuration } = newest.metadata;
  const listing = await listLog(store, null, backoff);
  const versions = [...listing.commits.keys()].sort((a, b) => (a < b ? -1 : 1));
  let stampedFrom: bigint | null = null;
  if (configuration['delta.enableInCommitTimestamps'] === 'true') {
    // Both absent: the table has had them from its first commit.
    const enabledAt = configuration['delta.inCommitTimestampEnablementTimestamp'];
    const since = configuration['delta.inCommitTimestampEnablementVersion'];
    if (enabledAt === undefined || since === undefined) stampedFrom = 0n;
    else if (timestampMs >= Number(enabledAt)) stampedFrom = BigInt(since);
    else versions.splice(versions.findIndex((version) => version >= BigInt(since)));
  }
  const found =
    stampedFrom === null
      ? byFileTime(versions, (version) => listing.commits.get(version)?.modifiedMs ?? 0, timestampMs)
      : await byCommitTime(
          store,
          versions.filter((version) => version >= (stampedFrom ?? 0n)),
          timestampMs,
          backoff,
        );
  if (found === null) {
    throw new TableError(
      'VERSION_NOT_FOUND',
      { table: store.uri },
      `no version of this time is left: the oldest commit in the log is version ${versions[0] ?? newest.version}, and it is younger`,
    );
  }
  return found;
}

/** The table as it was at a time. */
export async function openSnapshotAt(
  store: ObjectStore,
  timestampMs: number,
  options: OpenOptions = {},
): Promise<Snapshot> {
  return openSnapshot(store, { ...options, version: await versionAt(store, timestampMs, options.backoff) });
}

function byFileTime(versions: readonly bigint[], timeOf: (version: bigint) => number, atMs: number): bigint | null {
  let found: bigint | null = null;
  let lastMs = -Infinity;
  for (const version of versions) {
    lastMs = Math.max(timeOf(version), lastMs + 1);
    if (lastMs > atMs) break;
    found = version;
  }
  return found;
}

/** In-commit timestamps rise strictly, so the search may halve. */
async function byCommitTime(
  store: ObjectStore,
  versions: readonly bigint[],
  atMs: number,
  backoff: Backoff,
): Promise<bigint | null> {
  let low = 0;
  let high = versions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const commit = await readCommit(store, versions[middle] ?? 0n, backoff);
    const stampMs = milliseconds(commit?.commitInfo?.['inCommitTimestamp']);
    if (stampMs !== null && stampMs <= atMs) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? null : (versions[low - 1] ?? null);
}
