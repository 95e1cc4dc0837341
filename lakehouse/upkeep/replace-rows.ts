/**
 * Puts another table's rows in the place of a table's own, as one commit: every reader sees the old rows under the old schema,
 * or the new ones under the new schema, and never a mixture. The old rows stay in the history: RESTORE brings them back.
 *
 * The other table's objects must have been copied below this table's root first (`copyObjects`), under their own names: Delta
 * readers resolve the log's paths against the root, and few follow absolute ones.
 */
import { putObject } from '../merge/put-object.ts';
import { getWithRetry, isRetriableRead, withRetry, DEFAULT_BACKOFF } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS, removeOf } from '../table/actions.ts';
import type { Commit, MetadataAction, TxnAction } from '../table/actions.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { keysOf } from './referenced-files.ts';
import { identities, identity, raisedProtocol } from './restore.ts';

export interface ReplaceOptions extends CommitOptions {
  readonly txns: readonly TxnAction[];
  /** Named in the history, with the operation REPLACE TABLE. */
  readonly parameters: Readonly<Record<string, string>>;
  /** More members of commitInfo. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Looks at what won a race against this commit; what it throws ends the replacement. */
  readonly onWinners?: (winners: readonly Commit[]) => void;
}

/** @throws TableError COMMIT_CONTENTION | …; whatever `onWinners` throws */
export async function replaceRows(
  store: ObjectStore,
  source: Snapshot,
  options: ReplaceOptions,
): Promise<CommitResult & { readonly before: bigint }> {
  const current = await openSnapshot(store);
  let before = current.version;
  const nowMs = (options.now ?? Date.now)();
  const done = await commitTo(
    current,
    proposalFor(source, current, nowMs, options),
    (_proposal, newest, winners) => {
      options.onWinners?.(winners);
      before = newest.version;
      return Promise.resolve(proposalFor(source, newest, nowMs, options));
    },
    options,
  );
  return { ...done, before };
}

function proposalFor(source: Snapshot, current: Snapshot, nowMs: number, options: ReplaceOptions): Proposal {
  const wanted = identities(source.files);
  const have = identities(current.files);
  const adds = [...source.files].filter((file) => !have.has(identity(file)));
  const gone = [...current.files].filter((file) => !wanted.has(identity(file)));
  return {
    operation: {
      name: 'REPLACE TABLE',
      parameters: options.parameters,
      metrics: { numAddedFiles: String(adds.length), numRemovedFiles: String(gone.length) },
      ...(options.extra === undefined ? {} : { extra: options.extra }),
    },
    actions: {
      ...NO_ACTIONS,
      protocol: raisedProtocol(source.protocol, current.protocol),
      metadata: metadataOf(source.metadata, current.metadata),
      txns: options.txns,
      adds: adds.map((file) => ({ ...file, dataChange: true })),
      removes: gone.map((file) => removeOf(file, nowMs, true)),
    },
  };
}

/** The table stays the table it is, with the properties it was given; its columns are the other's. */
function metadataOf(source: MetadataAction, current: MetadataAction): MetadataAction {
  const isMapping = ([name]: readonly [string, string]): boolean => name.startsWith('delta.columnMapping.');
  const own = Object.entries(current.configuration).filter((entry) => !isMapping(entry));
  const mapping = Object.entries(source.configuration).filter(isMapping);
  return {
    ...current,
    schemaString: source.schemaString,
    partitionColumns: source.partitionColumns,
    configuration: Object.fromEntries([...own, ...mapping]),
  };
}

/** Objects that a version of a table needs, by their keys below its root. */
export function objectsOf(snapshot: Snapshot): ReadonlySet<string> {
  return new Set([...snapshot.files].flatMap((file) => keysOf(file, snapshot.store.uri)));
}

export interface CopyOptions {
  /** Copies made before this time (ms) are made again: VACUUM may be about to take what no version names yet. */
  readonly freshSinceMs: number;
  readonly onCopied?: (bytes: number) => Promise<void> | void;
  readonly signal?: AbortSignal;
}

/** Copies objects from one root to another, one at a time, leaving out what stands there already. Gives the bytes copied. */
export async function copyObjects(
  from: ObjectStore,
  to: ObjectStore,
  keys: Iterable<string>,
  options: CopyOptions,
): Promise<number> {
  let total = 0;
  for (const key of keys) {
    options.signal?.throwIfAborted();
    const standing = await withRetry(() => to.head(key), isRetriableRead, DEFAULT_BACKOFF);
    if (standing !== null && standing.modifiedMs >= options.freshSinceMs) {
      const own = await withRetry(() => from.head(key), isRetriableRead, DEFAULT_BACKOFF);
      if (own?.sizeBytes === standing.sizeBytes) continue;
    }
    const body = await getWithRetry(from, key);
    await putObject(to, key, body);
    total += body.byteLength;
    await options.onCopied?.(body.byteLength);
  }
  return total;
}
