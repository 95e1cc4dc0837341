/**
 * What a winning commit means for ours: the conflict rules of Delta's optimistic concurrency, as pure functions. Each
 * finding names its kind; whether it can be healed (row-level resolution, keys resolved again) is for the caller to say.
 *
 * | winner contains                     | found as               | for                                               |
 * |-------------------------------------|------------------------|---------------------------------------------------|
 * | protocol                            | protocol-changed       | everyone: check again that the table is writable  |
 * | metaData                            | metadata-changed       | everyone: redo with the new schema and properties |
 * | txn of one of our appIds            | concurrent-transaction | everyone: compare the version, skip or stop       |
 * | a domain that we write              | domain-changed         | everyone: assign again                            |
 * | add with data changes               | concurrent-append      | readers of data whose predicate it could match    |
 * | remove of a file that we read       | concurrent-delete-read | readers of that file                              |
 * | remove of a file that we remove too,| concurrent-delete      | everyone; files are compared by path, never by    |
 * |   or put a deletion vector on       |                        |   deletion vector                                 |
 *
 * Serializable counts blind appends as appends; WriteSerializable lets them pass. Tables with unique keys must be
 * Serializable: a blind append that is let pass may repeat a key.
 */
import type { AddFile, Commit, CommitActions } from './actions.ts';
import { canonicalPath } from './file-path.ts';

export type IsolationLevel = 'Serializable' | 'WriteSerializable';

/** What our commit rests on. */
export interface ReadSet {
  readonly isolation: IsolationLevel;
  /** Could a row of this newly added file have been seen by what we read? Null: we read no rows (append, OPTIMIZE). */
  readonly couldMatch: ((file: AddFile) => boolean) | null;
  /** Canonical paths of the files whose rows we read; `isRead` may answer for whole-table reads. */
  readonly isRead: (canonicalPath: string) => boolean;
}

export type ConflictKind =
  | 'protocol-changed'
  | 'metadata-changed'
  | 'concurrent-transaction'
  | 'domain-changed'
  | 'concurrent-append'
  | 'concurrent-delete-read'
  | 'concurrent-delete';

export interface Conflict {
  readonly kind: ConflictKind;
  /** The winner's version. */
  readonly version: bigint;
  /** File path, appId or domain; empty where the kind says all. */
  readonly subject: string;
}

/** A read set of an append: rows are added whatever the table holds. */
export const READS_NOTHING: ReadSet = { isolation: 'Serializable', couldMatch: null, isRead: () => false };

/** Read set of a rearrangement (OPTIMIZE): the files it rewrites, no predicate. */
export function readsFiles(paths: Iterable<string>): ReadSet {
  const read = new Set([...paths].map(canonicalPath));
  return { isolation: 'Serializable', couldMatch: null, isRead: (path) => read.has(path) };
}

/** Conflicts of `ours` with one winner, in the table's order; empty when our commit may follow it unchanged. */
export function findConflicts(ours: CommitActions, reads: ReadSet, winner: Commit): readonly Conflict[] {
  const found: Conflict[] = [];
  const say = (kind: ConflictKind, subject: string): void => {
    found.push({ kind, version: winner.version, subject });
  };
  if (winner.protocol !== null) say('protocol-changed', '');
  if (winner.metadata !== null) say('metadata-changed', '');
  const appIds = new Set(ours.txns.map(({ appId }) => appId));
  for (const { appId } of winner.txns) if (appIds.has(appId)) say('concurrent-transaction', appId);
  const domains = new Set(ours.domains.map(({ domain }) => domain));
  for (const { domain } of winner.domains) if (domains.has(domain)) say('domain-changed', domain);
  if (reads.couldMatch !== null && (reads.isolation === 'Serializable' || !isBlindAppend(winner))) {
    const moved = pathsOf(winner.removes);
    for (const add of winner.adds) {
      // The same path again is a vector put on a known file: its remove half says all there is to say.
      if (!add.dataChange || moved.has(canonicalPath(add.path))) continue;
      if (reads.couldMatch(add)) say('concurrent-append', add.path);
    }
  }
  const ourFiles = pathsOf(ours.removes);
  for (const remove of winner.removes) {
    const path = canonicalPath(remove.path);
    if (ourFiles.has(path)) say('concurrent-delete', remove.path);
    else if (reads.isRead(path)) say('concurrent-delete-read', remove.path);
  }
  return found;
}

/** As `findConflicts`, over all winners. */
export function findAllConflicts(ours: CommitActions, reads: ReadSet, winners: readonly Commit[]): readonly Conflict[] {
  return winners.flatMap((winner) => findConflicts(ours, reads, winner));
}

/** Declared by the winner, and borne out by its actions: a remove contradicts it. */
export function isBlindAppend(commit: Commit): boolean {
  return commit.commitInfo?.['isBlindAppend'] === true && commit.removes.length === 0;
}

function pathsOf(files: readonly { readonly path: string }[]): ReadonlySet<string> {
  return new Set(files.map(({ path }) => canonicalPath(path)));
}
