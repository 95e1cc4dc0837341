/**
 * Brings a table back to what it was at an older version, as a new commit: nothing of the history goes, and readers in
 * between see one version or the other. Transactions are kept, so that a batch which was applied is not applied again;
 * the protocol is never lowered.
 */
import { NO_ACTIONS, removeOf, vectorId } from '../table/actions.ts';
import type { AddFile, Commit, CommitActions, ProtocolAction, TxnAction } from '../table/actions.ts';
import { commitTo } from '../table/commit.ts';
import type { CommitOptions, CommitResult, Proposal } from '../table/commit.ts';
import { fileIdentity } from '../table/replay.ts';
import { readerFeatures, writerFeatures } from '../table/protocol.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import type { ObjectStore } from '../store/store.ts';
import { TableError } from '../table/table-error.ts';
import { assertChecksum } from '../table/version-checksum.ts';
import { keysOf } from './referenced-files.ts';

export interface RestoreOptions extends CommitOptions {
  /** Commit even though data files of the old version are gone: its rows in them are lost. */
  readonly ignoreMissing?: boolean;
  /** Transactions of the commit, where those of the older version are to hold again. */
  readonly txns?: readonly TxnAction[];
  /** More parameters of the operation in the history. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Looks at what won a race against this commit; what it throws ends the restore. */
  readonly onWinners?: (winners: readonly Commit[]) => void;
}

const HEADS_PARALLEL = 32;

/** @throws TableError DATA_FILE_MISSING | VERSION_NOT_FOUND | COMMIT_CONTENTION | … */
export async function restoreTable(
  store: ObjectStore,
  version: bigint,
  options: RestoreOptions = {},
): Promise<CommitResult> {
  const backoff = options.backoff === undefined ? {} : { backoff: options.backoff };
  const target = await openSnapshot(store, { ...backoff, version });
  const current = await openSnapshot(store, backoff);
  assertChecksum(target);
  await assertFilesStand(target, current, options.ignoreMissing === true);
  const nowMs = (options.now ?? Date.now)();
  const first = proposalFor(target, current, nowMs, options);
  if (first === null) return { version: null, snapshot: current, conflicts: 0 };
  // Whatever won meanwhile is undone too: the difference is simply taken again.
  return commitTo(
    current,
    first,
    async (_proposal, newest, winners) => {
      options.onWinners?.(winners);
      return proposalFor(target, newest, nowMs, options);
    },
    options,
  );
}

function proposalFor(
  target: Snapshot,
  current: Snapshot,
  nowMs: number,
  { txns = [], parameters = {} }: RestoreOptions,
): Proposal | null {
  const wanted = identities(target.files);
  const have = identities(current.files);
  const adds = [...target.files].filter((file) => !have.has(identity(file)));
  const gone = [...current.files].filter((file) => !wanted.has(identity(file)));
  const metadata = sameMetadata(target, current) ? null : target.metadata;
  if (adds.length === 0 && gone.length === 0 && metadata === null && txns.length === 0) return null;
  const actions: CommitActions = {
    ...NO_ACTIONS,
    protocol: raisedProtocol(target.protocol, current.protocol),
    metadata,
    txns,
    adds: adds.map((file) => ({ ...file, dataChange: true })),
    removes: gone.map((file) => removeOf(file, nowMs, true)),
  };
  return {
    operation: {
      name: 'RESTORE',
      parameters: { version: String(target.version), ...parameters },
      metrics: { numRestoredFiles: String(adds.length), numRemovedFiles: String(gone.length) },
    },
    actions,
  };
}

/** A file with the vector it has: what two versions share. */
export function identity(file: AddFile): string {
  return fileIdentity(file.path, vectorId(file.deletionVector));
}

export function identities(files: Iterable<AddFile>): ReadonlySet<string> {
  const found = new Set<string>();
  for (const file of files) found.add(identity(file));
  return found;
}

function sameMetadata(a: Snapshot, b: Snapshot): boolean {
  const text = (snapshot: Snapshot): string =>
    JSON.stringify({ ...snapshot.metadata, createdTime: String(snapshot.metadata.createdTime) });
  return text(a) === text(b);
}

/** The union of both, or null when the current one already is it. */
export function raisedProtocol(target: ProtocolAction, current: ProtocolAction): ProtocolAction | null {
  const missingReader = readerFeatures(target).filter((name) => !readerFeatures(current).includes(name));
  const missingWriter = writerFeatures(target).filter((name) => !writerFeatures(current).includes(name));
  if (missingReader.length === 0 && missingWriter.length === 0) return null;
  const reader = [...readerFeatures(current), ...missingReader];
  const writer = new Set([...writerFeatures(current), ...missingWriter, ...reader]);
  return {
    minReaderVersion: reader.length === 0 ? 1 : 3,
    minWriterVersion: 7,
    readerFeatures: reader.length === 0 ? null : reader,
    writerFeatures: [...writer],
  };
}

async function assertFilesStand(target: Snapshot, current: Snapshot, ignoreMissing: boolean): Promise<void> {
  if (ignoreMissing) return;
  const have = identities(current.files);
  const keys = [...target.files]
    .filter((file) => !have.has(identity(file)))
    .flatMap((file) => keysOf(file, target.store.uri));
  for (let at = 0; at < keys.length; at += HEADS_PARALLEL) {
    const page = keys.slice(at, at + HEADS_PARALLEL);
    const found = await Promise.all(page.map((key) => target.store.head(key)));
    const missing = page.find((_key, index) => found[index] === null);
    if (missing !== undefined) {
      throw new TableError(
        'DATA_FILE_MISSING',
        { table: target.store.uri, version: target.version, file: missing },
        'a file of this version is gone (vacuumed?), so that it cannot be restored whole; choose a younger version',
      );
    }
  }
}
