/** What happened when: the commits of a log with their times, and time travel by timestamp. */
import { DEFAULT_BACKOFF } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import type { Commit } from './actions.ts';
import { listLog, type LogListing } from './log-segment.ts';
import { readCommit } from './log-reader.ts';
import { milliseconds } from './replay.ts';
import { openSnapshot } from './snapshot.ts';
import type { OpenOptions, Snapshot } from './snapshot.ts';
import { TableError } from './table-error.ts';

export interface HistoryEntry {
  readonly version: bigint;
  /** The time that time travel goes by (see versionAt). */
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
  const fileTimes = risingTimes(listing);
  const versions = [...listing.commits.keys()].sort((a, b) => (a > b ? -1 : 1));
  for (const version of versions) {
    if (options.before !== undefined && version >= options.before) continue;
    const commit = await readCommit(store, version, options.backoff);
    // Cleaned up between listing and reading: so is everything before it.
    if (commit === null) return;
    const stampMs = milliseconds(commit.commitInfo?.['inCommitTimestamp']);
    yield { version, timestampMs: stampMs ?? fileTimes.get(version) ?? 0, commit };
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
      ? byFileTime(versions, risingTimes(listing), timestampMs)
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

/**
 * The first version that was committed at or after `timestampMs`; the one after the newest when none was.
 * @throws TableError VERSION_NOT_FOUND when commits of that time may have been cleaned up
 */
export async function versionFrom(
  store: ObjectStore,
  timestampMs: number,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<bigint> {
  try {
    return (await versionAt(store, timestampMs - 1, backoff)) + 1n;
  } catch (error) {
    if (!(error instanceof TableError) || error.code !== 'VERSION_NOT_FOUND') throw error;
    if ((await listLog(store, null, backoff)).commits.has(0n)) return 0n;
    throw error;
  }
}

/** The table as it was at a time. */
export async function openSnapshotAt(
  store: ObjectStore,
  timestampMs: number,
  options: OpenOptions = {},
): Promise<Snapshot> {
  return openSnapshot(store, { ...options, version: await versionAt(store, timestampMs, options.backoff) });
}

/** Modification times of the commit files, a millisecond apart at least. */
function risingTimes({ commits }: LogListing): ReadonlyMap<bigint, number> {
  const times = new Map<bigint, number>();
  let lastMs = -Infinity;
  for (const version of [...commits.keys()].sort((a, b) => (a < b ? -1 : 1))) {
    lastMs = Math.max(commits.get(version)?.modifiedMs ?? 0, lastMs + 1);
    times.set(version, lastMs);
  }
  return times;
}

function byFileTime(versions: readonly bigint[], times: ReadonlyMap<bigint, number>, atMs: number): bigint | null {
  return versions.findLast((version) => (times.get(version) ?? 0) <= atMs) ?? null;
}

/** In-commit timestamps rise strictly, so the search may halve. */
async function byCommitTime(
  store: ObjectStore,
  versions: readonly bigint[],
  atMs: number,
  backoff: Backoff,
): Promise<bigint | null> {
  let oldest = 0;
  let low = 0;
  let high = versions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const commit = await readCommit(store, versions[middle] ?? 0n, backoff);
    if (commit === null) {
      // Cleaned up between listing and reading: so is everything before it.
      oldest = middle + 1;
      low = oldest;
      continue;
    }
    const stampMs = milliseconds(commit.commitInfo?.['inCommitTimestamp']);
    if (stampMs !== null && stampMs <= atMs) low = middle + 1;
    else high = middle;
  }
  return low === oldest ? null : (versions[low - 1] ?? null);
}
