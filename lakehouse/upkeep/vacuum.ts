/**
 * Deletes the files that no version in the retention period needs: of removed rows, of lost races and crashes, old change
 * files and deletion vectors.
 *
 * What keeps it from eating live files:
 *   - only files that stood in a listing taken BEFORE the snapshot it is checked against: what a writer adds meanwhile is
 *     not a candidate, what it commits meanwhile is in the snapshot; what a restore brings back is looked for before each page
 *     of deletes;
 *   - only files older than the retention by the store's own clock: a batch in flight is younger (so retention must exceed
 *     the longest batch), and a host clock that runs ahead changes nothing;
 *   - only names it knows: Parquet files and deletion vectors, not below hidden folders but for `_change_data/` (and folders
 *     of partition columns); `_delta_log/` and `_sluice/` are never looked at;
 *   - a table whose writer features it does not know is refused, whatever they say of VACUUM.
 */
import { DEFAULT_BACKOFF, isRetriableRead, withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { isRetriable } from '../store/store.ts';
import type { ObjectMeta, ObjectStore } from '../store/store.ts';
import { NO_ACTIONS } from '../table/actions.ts';
import { commitTo, type Operation, type Proposal } from '../table/commit.ts';
import { FILE_RETENTION_MS, intervalProperty } from '../table/interval.ts';
import { assertMaintainable } from '../table/protocol.ts';
import { openSnapshot, refreshSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { assertChecksum } from '../table/version-checksum.ts';
import { referencedKeys } from './referenced-files.ts';
import { storeNowMs } from './store-clock.ts';

export interface VacuumOptions {
  /** Instead of `delta.deletedFileRetentionDuration` (7 days). */
  readonly retentionMs?: number;
  /** Allows a retention below the table's. Readers of older versions and batches in flight may then lose files. */
  readonly force?: boolean;
  /** Only say what would go. */
  readonly dryRun?: boolean;
  /** Files deleted at most, the oldest first; the next run goes on. */
  readonly filesMax?: number;
  /** Versions that readers hold: all their files stay. */
  readonly pinnedVersions?: readonly bigint[];
  /** Note start and end in the history (VACUUM START, VACUUM END), where anything is deleted: two versions without a change. */
  readonly inHistory?: boolean;
  readonly now?: () => number;
  readonly backoff?: Backoff;
  readonly signal?: AbortSignal;
}

export interface VacuumResult {
  /** Keys deleted, or to be deleted on a dry run. */
  readonly deleted: readonly string[];
  readonly deletedBytes: number;
  /** Files in the table's folder that are neither known to the log nor of a kind that it deletes. */
  readonly leftUnknown: number;
  readonly version: bigint;
}

const PAGE = 500;

/** @throws TableError UPKEEP_REFUSED | PROTOCOL_UNSUPPORTED | as openSnapshot; StoreError */
export async function vacuum(store: ObjectStore, options: VacuumOptions = {}): Promise<VacuumResult> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  // Is it a table at all, and one we may touch? Before anything is listed.
  const early = await openSnapshot(store, { backoff });
  assertMaintainable(early.protocol, store.uri);
  assertChecksum(early);
  const retentionMs = retentionOf(early, options);
  const hostMs = (options.now ?? Date.now)();
  const nowMs = options.dryRun === true ? hostMs : Math.min(hostMs, await storeNowMs(store, backoff));
  const cutoffMs = nowMs - retentionMs;

  const listed = await withRetry(() => listAll(store), isRetriableRead, backoff);
  const snapshot = await openSnapshot(store, { tombstones: true, backoff });
  assertMaintainable(snapshot.protocol, store.uri);
  assertChecksum(snapshot);
  const needed = new Set(referencedKeys(snapshot, cutoffMs));
  for (const version of options.pinnedVersions ?? []) {
    const pinned = await openSnapshot(store, { version, backoff });
    for (const key of referencedKeys(pinned, Infinity)) needed.add(key);
  }

  const partitions = new Set(snapshot.metadata.partitionColumns);
  const candidates: ObjectMeta[] = [];
  let leftUnknown = 0;
  for (const meta of listed) {
    if (needed.has(meta.key)) continue;
    const kind = kindOf(meta.key, partitions);
    if (kind === 'unknown') leftUnknown++;
    if (kind === 'data' && meta.modifiedMs < cutoffMs) candidates.push(meta);
  }
  if (options.filesMax !== undefined && candidates.length > options.filesMax) {
    candidates.sort((a, b) => a.modifiedMs - b.modifiedMs);
    candidates.length = options.filesMax;
  }
  let deleted = candidates.map(({ key }) => key);
  let deletedBytes = candidates.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const noted = options.inHistory === true && options.dryRun !== true && deleted.length > 0;
  let noteOn: Snapshot = snapshot;
  if (noted)
    noteOn = await note(snapshot, options, {
      name: 'VACUUM START',
      parameters: {
        retentionCheckEnabled: String(options.force !== true),
        specifiedRetentionMillis: String(retentionMs),
      },
      metrics: { numFilesToDelete: String(deleted.length), sizeOfDataToDelete: String(deletedBytes) },
    });
  if (options.dryRun !== true) {
    const gone: ObjectMeta[] = [];
    for (let at = 0; at < candidates.length; at += PAGE) {
      options.signal?.throwIfAborted();
      // A restore may bring files back at any time: what is live by now stays.
      const newest = await refreshSnapshot(noteOn, { backoff });
      const live = newest.version === snapshot.version ? null : referencedKeys(newest, cutoffMs);
      const page = candidates.slice(at, at + PAGE).filter(({ key }) => live?.has(key) !== true);
      noteOn = newest;
      const keys = page.map(({ key }) => key);
      await withRetry(() => store.delete(keys), isRetriable, backoff);
      gone.push(...page);
    }
    deleted = gone.map(({ key }) => key);
    deletedBytes = gone.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }
  if (noted)
    await note(noteOn, options, {
      name: 'VACUUM END',
      parameters: { status: 'COMPLETED' },
      metrics: { numDeletedFiles: String(deleted.length) },
    });
  return { deleted, deletedBytes, leftUnknown, version: snapshot.version };
}

/** A commit of nothing but its commitInfo: whatever wins a race against it does not matter to it. */
async function note(
  snapshot: Snapshot,
  { now, backoff }: VacuumOptions,
  operation: Pick<Operation, 'name' | 'parameters' | 'metrics'>,
): Promise<Snapshot> {
  const proposal: Proposal = { operation: { ...operation, isBlindAppend: true }, actions: NO_ACTIONS };
  const done = await commitTo(snapshot, proposal, () => Promise.resolve(proposal), {
    ...(now === undefined ? {} : { now }),
    ...(backoff === undefined ? {} : { backoff }),
  });
  return done.snapshot;
}

function retentionOf(snapshot: Snapshot, options: VacuumOptions): number {
  const table = snapshot.store.uri;
  const own = intervalProperty(
    snapshot.metadata.configuration,
    'delta.deletedFileRetentionDuration',
    FILE_RETENTION_MS,
  );
  const asked = options.retentionMs ?? own;
  if (!(asked >= 0)) {
    throw new TableError('UPKEEP_REFUSED', { table }, 'a retention lies in the past: give a duration of zero or more');
  }
  if (asked < own && options.force !== true) {
    throw new TableError(
      'UPKEEP_REFUSED',
      { table },
      `the table keeps deleted files for ${own / 3_600_000} hours, and ${asked / 3_600_000} were asked for: files of older versions ` +
        'that are being read, and of batches being written, could go; raise the retention, or force it when nothing else runs',
    );
  }
  return asked;
}

async function listAll(store: ObjectStore): Promise<ObjectMeta[]> {
  const listed: ObjectMeta[] = [];
  for await (const meta of store.list('')) listed.push(meta);
  return listed;
}

/** Hidden: not of the table's data. Unknown: in its place, but of no kind that a table writer leaves there. */
export function kindOf(key: string, partitionColumns: ReadonlySet<string>): 'data' | 'hidden' | 'unknown' {
  const parts = key.split('/');
  const name = parts.at(-1) ?? '';
  const folders = parts.slice(0, -1);
  const hidden = folders.some((folder, at) => {
    if (!folder.startsWith('_') && !folder.startsWith('.')) return false;
    if (at === 0 && folder === '_change_data') return false;
    const column = folder.slice(0, Math.max(folder.indexOf('='), 0));
    return !partitionColumns.has(column);
  });
  if (hidden || name.startsWith('_') || name.startsWith('.')) return 'hidden';
  return name.endsWith('.parquet') || /^deletion_vector_.*\.bin$/.test(name) ? 'data' : 'unknown';
}
