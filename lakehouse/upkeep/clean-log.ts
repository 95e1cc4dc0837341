/**
 * Removes the part of the log that no version in the retention period needs (`delta.logRetentionDuration`): commits,
 * checkpoints, checksums and compacted files before the newest checkpoint that is older than the cut-off, then sidecars that
 * no remaining checkpoint names. That checkpoint stays, and so does its own commit (its time and commitInfo are needed).
 *
 * Oldest first, so that a crash in between leaves a log whose upper part is whole.
 */
import { DEFAULT_BACKOFF, withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { isRetriable } from '../store/store.ts';
import type { ObjectMeta, ObjectStore } from '../store/store.ts';
import { sidecarKeys } from '../table/checkpoint-read.ts';
import { DAY_MS, LOG_RETENTION_MS, intervalProperty } from '../table/interval.ts';
import { LOG_FOLDER, SIDECAR_FOLDER, parseLogFile } from '../table/log-files.ts';
import { listLog } from '../table/log-segment.ts';
import { assertMaintainable } from '../table/protocol.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { assertChecksum } from '../table/version-checksum.ts';

export interface CleanLogOptions {
  readonly now?: () => number;
  readonly backoff?: Backoff;
  readonly dryRun?: boolean;
  /** Instead of the table's property; never shorter than an hour. */
  readonly retentionMs?: number;
}

export interface CleanedLog {
  /** Oldest version that can still be opened. */
  readonly oldestVersion: bigint | null;
  /** Keys removed, or to be removed on a dry run. */
  readonly removed: readonly string[];
}

const RETENTION_MIN_MS = 60 * 60 * 1000;
const PAGE = 500;

/** @throws TableError as openSnapshot, UPKEEP_REFUSED */
export async function cleanLog(store: ObjectStore, options: CleanLogOptions = {}): Promise<CleanedLog> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const table = store.uri;
  const snapshot = await openSnapshot(store, { backoff });
  assertMaintainable(snapshot.protocol, table);
  assertChecksum(snapshot);
  const { configuration } = snapshot.metadata;
  if (configuration['delta.enableExpiredLogCleanup'] === 'false') return { oldestVersion: null, removed: [] };
  const retentionMs =
    options.retentionMs ?? intervalProperty(configuration, 'delta.logRetentionDuration', LOG_RETENTION_MS);
  if (!(retentionMs >= RETENTION_MIN_MS)) {
    throw new TableError(
      'UPKEEP_REFUSED',
      { table },
      'the log must be kept for an hour at least, for readers that hold a version',
    );
  }
  const listing = await listLog(store, null, backoff);
  // A host clock that ran ahead must not cost history: never later than a day past what the store itself has stamped.
  const newestMs = Math.max(0, ...[...listing.commits.values()].map(({ modifiedMs }) => modifiedMs));
  const cutoffMs = midnight(Math.min((options.now ?? Date.now)(), newestMs + DAY_MS) - retentionMs);
  const kept = listing.checkpoints.find(({ version, files }) => {
    const stampMs = (listing.commits.get(version) ?? files[0])?.modifiedMs ?? Infinity;
    return stampMs <= cutoffMs;
  });
  if (kept === undefined) return { oldestVersion: null, removed: [] };
  const base = await openSnapshot(store, { version: kept.version, backoff });
  if (base.checkpointVersion !== kept.version) {
    throw new TableError(
      'UPKEEP_REFUSED',
      { table, version: kept.version },
      'the checkpoint that would have to stand for the older log cannot be read; nothing was removed',
    );
  }
  const removed: string[] = [];
  for await (const meta of store.list(LOG_FOLDER)) {
    if (isBefore(meta, kept.version)) removed.push(meta.key);
  }
  removed.push(...(await looseSidecars(store, kept.version, cutoffMs, backoff)));
  if (options.dryRun !== true) {
    for (let at = 0; at < removed.length; at += PAGE) {
      await withRetry(() => store.delete(removed.slice(at, at + PAGE)), isRetriable, backoff);
    }
  }
  return { oldestVersion: kept.version, removed };
}

function isBefore(meta: ObjectMeta, version: bigint): boolean {
  const file = parseLogFile(meta.key);
  if (file === null) return false;
  return file.kind === 'compacted' ? file.version <= version : file.version < version;
}

/** Sidecars older than a day before the cut-off that no checkpoint from `version` on names. */
async function looseSidecars(
  store: ObjectStore,
  version: bigint,
  cutoffMs: number,
  backoff: Backoff,
): Promise<readonly string[]> {
  const old: string[] = [];
  for await (const meta of store.list(SIDECAR_FOLDER)) if (meta.modifiedMs < cutoffMs - DAY_MS) old.push(meta.key);
  if (old.length === 0) return [];
  const named = new Set<string>();
  for (const checkpoint of (await listLog(store, null, backoff)).checkpoints) {
    if (checkpoint.version < version) continue;
    for (const key of await sidecarKeys(store, checkpoint, backoff)) named.add(key);
  }
  return old.filter((key) => !named.has(key));
}

function midnight(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}
