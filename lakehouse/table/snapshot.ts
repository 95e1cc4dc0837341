/**
 * A version of a table: what the log adds up to. Opening reads the newest readable checkpoint and the commits after it,
 * never the history before; a snapshot never changes, and a newer one shares what did not change.
 *
 *   open:    `_last_checkpoint` (a hint, may be wrong or broken) -> list from there -> checkpoint -> commits after it
 *            -> when that does not come out whole: list everything, try older checkpoints, then the commits alone
 *   refresh: read commit v+1, v+2, … until there is none; nothing is listed
 */
import { DEFAULT_BACKOFF, getWithRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import type { Commit, DomainMetadataAction, MetadataAction, ProtocolAction, RemoveFile, TxnAction } from './actions.ts';
import { object, visitCommit } from './action-json.ts';
import { readCheckpoint } from './checkpoint-read.ts';
import type { FileSet } from './file-set.ts';
import { parseLossless } from './lossless-json.ts';
import { LAST_CHECKPOINT, commitKey } from './log-files.ts';
import { readCommit, readCommitsFrom, replaySteps } from './log-reader.ts';
import { listLog, planSteps } from './log-segment.ts';
import type { CheckpointFiles, LogListing, LogStep } from './log-segment.ts';
import { assertReadable, assertReadableColumns } from './protocol.ts';
import { EMPTY_STATE, milliseconds, startReplay } from './replay.ts';
import type { LogState } from './replay.ts';
import type { StructType } from './schema.ts';
import { parseSchema } from './schema-json.ts';
import { TableError } from './table-error.ts';
import type { TableErrorCode } from './table-error.ts';
import { checksumFault, type ChecksumFault } from './version-checksum.ts';

export interface Snapshot {
  /** Rooted at the table. */
  readonly store: ObjectStore;
  readonly version: bigint;
  /** Commit time: the in-commit timestamp where the table has them, else the commit's own `timestamp`, else the file's. */
  readonly committedAtMs: number;
  readonly inCommitTimestampMs: number | null;
  readonly protocol: ProtocolAction;
  readonly metadata: MetadataAction;
  readonly schema: StructType;
  readonly files: FileSet;
  readonly txns: ReadonlyMap<string, TxnAction>;
  readonly domains: ReadonlyMap<string, DomainMetadataAction>;
  /** Removed files that checkpoints and VACUUM must know; null unless asked for at opening. */
  readonly tombstones: ReadonlyMap<string, RemoveFile> | null;
  /** Version of the checkpoint this was read from; null when from commits alone. */
  readonly checkpointVersion: bigint | null;
  /** Host clock when the end of the log was last seen by listing. */
  readonly listedAtMs: number;
  /**
   * What of a version's checksum file contradicts its log, and what to do; null when nothing does. The log counts: the state
   * can be read. It cannot be built upon (assertChecksum).
   */
  readonly checksumFault: ChecksumFault | null;
}

export interface OpenOptions {
  /** The newest when absent. */
  readonly version?: bigint;
  /** Keep removed files too (checkpoint writing, VACUUM). */
  readonly tombstones?: boolean;
  readonly backoff?: Backoff;
  readonly now?: () => number;
}

/** A snapshot whose listing is older than this lists again before it follows: commits may have been cleaned up since. */
export const LISTING_TRUSTED_MS = 60 * 60 * 1000;

/**
 * Failures that more of the log, or an older checkpoint, may cure. Not among them: a checkpoint that reads well but lacks
 * protocol or metadata. Its writer was wrong, and what else it left out nobody knows.
 */
const OTHERWISE_READABLE: ReadonlySet<TableErrorCode> = new Set([
  'CHECKPOINT_UNREADABLE',
  'LOG_HOLE',
  'TABLE_NOT_FOUND',
  'VERSION_NOT_FOUND',
]);

/** @throws TableError TABLE_NOT_FOUND | VERSION_NOT_FOUND | LOG_HOLE | LOG_COMMIT_CORRUPT | LOG_INCOMPLETE | CHECKPOINT_UNREADABLE | PROTOCOL_UNSUPPORTED; StoreError */
export async function openSnapshot(store: ObjectStore, options: OpenOptions = {}): Promise<Snapshot> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const now = options.now ?? Date.now;
  const pointer = await readPointer(store, backoff);
  const useful = pointer !== null && (options.version === undefined || pointer <= options.version);
  const listedAtMs = now();
  if (useful) {
    const near = await listLog(store, pointer, backoff);
    const opened = await openListed(store, near, options, backoff, listedAtMs).catch((error: unknown) => {
      // Whatever is wrong with this part of the log may be the pointer's fault; the full listing decides.
      if (error instanceof TableError && OTHERWISE_READABLE.has(error.code)) return null;
      throw error;
    });
    if (opened !== null) return opened;
  }
  return openListed(store, await listLog(store, null, backoff), options, backoff, now());
}

/**
 * The newest version, from `previous` on; `previous` itself when nothing was committed since.
 * @throws as openSnapshot
 */
export async function refreshSnapshot(
  previous: Snapshot,
  options: Pick<OpenOptions, 'backoff' | 'now'> = {},
): Promise<Snapshot> {
  const now = options.now ?? Date.now;
  if (Math.abs(now() - previous.listedAtMs) > LISTING_TRUSTED_MS) {
    return openSnapshot(previous.store, { ...options, tombstones: previous.tombstones !== null });
  }
  return advanceSnapshot(previous, await readCommitsFrom(previous.store, previous.version + 1n, options.backoff));
}

/**
 * `previous` with the commits that follow it, ascending and without a gap; reads nothing.
 * @throws TableError PROTOCOL_UNSUPPORTED | SCHEMA_INVALID
 */
export function advanceSnapshot(previous: Snapshot, commits: readonly Commit[]): Snapshot {
  const last = commits.at(-1);
  if (last === undefined) return previous;
  const replay = startReplay({ ...previous, commitTimestampMs: null }, previous.tombstones !== null);
  for (const commit of commits) {
    replay.beginCommit();
    visitCommit(commit, replay.visitor);
  }
  return toSnapshot(previous.store, last.version, replay.done(), {
    checkpointVersion: previous.checkpointVersion,
    listedAtMs: previous.listedAtMs,
    fileTimeMs: previous.committedAtMs,
    checksumFault: previous.checksumFault,
  });
}

/** Value of a table property, or null. */
export function tableProperty(snapshot: { readonly metadata: MetadataAction }, name: string): string | null {
  return snapshot.metadata.configuration[name] ?? null;
}

async function readPointer(store: ObjectStore, backoff: Backoff): Promise<bigint | null> {
  let body: Uint8Array;
  try {
    body = await getWithRetry(store, LAST_CHECKPOINT, undefined, backoff);
  } catch (error) {
    if (error instanceof StoreError && (error.code === 'STORE_NOT_FOUND' || error.code === 'STORE_TRUNCATED'))
      return null;
    throw error;
  }
  try {
    const version = object(parseLossless(new TextDecoder().decode(body)), 'the pointer')['version'];
    if (typeof version === 'number' && Number.isSafeInteger(version) && version >= 0) return BigInt(version);
    return null;
  } catch {
    return null;
  }
}

async function openListed(
  store: ObjectStore,
  listing: LogListing,
  options: OpenOptions,
  backoff: Backoff,
  listedAtMs: number,
): Promise<Snapshot> {
  const table = store.uri;
  if (listing.newest === null) {
    throw new TableError(
      'TABLE_NOT_FOUND',
      { table },
      'no Delta table here: _delta_log holds no commit and no checkpoint',
    );
  }
  const target = options.version ?? listing.newest;
  if (target > listing.newest || target < 0n) {
    throw new TableError('VERSION_NOT_FOUND', { table, version: target }, `the newest version is ${listing.newest}`);
  }
  let failure: unknown = null;
  const candidates: (CheckpointFiles | null)[] = listing.checkpoints.filter(({ version }) => version <= target);
  if (listing.fromStart) candidates.push(null);
  for (const checkpoint of candidates) {
    try {
      const steps = planSteps(listing, checkpoint?.version ?? null, target, table);
      const state = await loadState(store, checkpoint, steps, options, backoff);
      const fault = listing.checksums.has(target) ? await checksumFault(store, target, state, backoff) : null;
      const inCommitTimestampMs =
        state.inCommitTimestampMs ?? (await commitTimestamp(store, listing, state, target, backoff));
      return toSnapshot(
        store,
        target,
        { ...state, inCommitTimestampMs },
        {
          checkpointVersion: checkpoint?.version ?? null,
          listedAtMs,
          fileTimeMs: (listing.commits.get(target) ?? checkpoint?.files[0])?.modifiedMs ?? 0,
          checksumFault: fault,
        },
      );
    } catch (error) {
      const action = error instanceof TableError ? SAID_BY[error.code] : undefined;
      if (error instanceof TableError && action !== undefined)
        throw error.at({ version: target, ...(await fileOf(action, store, listing, target, backoff)) });
      if (!(error instanceof TableError) || !OTHERWISE_READABLE.has(error.code)) throw error;
      // The first failure is the one to report: the later candidates only tried to do without it.
      failure ??= error;
    }
  }
  if (failure !== null) throw explain(failure, listing, target, table);
  throw new TableError('LOG_HOLE', { table, version: target }, 'no checkpoint lies at or before this version');
}

/** Which action of the log an error blames. */
const SAID_BY: Partial<Record<TableErrorCode, 'protocol' | 'metadata'>> = {
  PROTOCOL_UNSUPPORTED: 'protocol',
  SCHEMA_INVALID: 'metadata',
};

/** Such actions are rare, and then the newest commits have them; the name of the file is no more than a help. */
const LOOK_BACK_COMMITS = 64n;

/** The newest commit up to `target` that has the action, where the listing has it. */
async function fileOf(
  action: 'protocol' | 'metadata',
  store: ObjectStore,
  { commits }: LogListing,
  target: bigint,
  backoff: Backoff,
): Promise<{ readonly file?: string }> {
  for (let version = target; commits.has(version) && target - version < LOOK_BACK_COMMITS; version--) {
    const commit = await readCommit(store, version, backoff);
    if (commit !== null && commit[action] !== null) return { file: commitKey(version) };
  }
  return {};
}

/** A time travel below the cleaned-up part is a question about history, not a broken log. */
function explain(failure: unknown, listing: LogListing, target: bigint, table: string): unknown {
  if (!(failure instanceof TableError) || failure.code !== 'LOG_HOLE') return failure;
  const oldest = [...listing.checkpoints].reverse().find(({ version }) => version > target);
  const hasStart = listing.commits.has(0n);
  if (oldest === undefined || hasStart || listing.commits.has(target)) return failure;
  return new TableError(
    'VERSION_NOT_FOUND',
    { table, version: target },
    `the log of this version was cleaned up; the oldest version still there is about ${oldest.version}`,
  );
}

async function loadState(
  store: ObjectStore,
  checkpoint: CheckpointFiles | null,
  steps: readonly LogStep[],
  options: OpenOptions,
  backoff: Backoff,
): Promise<LogState> {
  const replay = startReplay(EMPTY_STATE, options.tombstones === true);
  if (checkpoint !== null) {
    await readCheckpoint(store, checkpoint, replay.visitor, { backoff, tombstones: options.tombstones === true });
  }
  await replaySteps(store, steps, replay, backoff);
  return replay.done();
}

/** Checkpoints and compacted files carry no commitInfo: where the table has in-commit timestamps, the commit itself is read. */
async function commitTimestamp(
  store: ObjectStore,
  listing: LogListing,
  state: LogState,
  version: bigint,
  backoff: Backoff,
): Promise<number | null> {
  if (state.metadata?.configuration['delta.enableInCommitTimestamps'] !== 'true' || !listing.commits.has(version))
    return null;
  return milliseconds((await readCommit(store, version, backoff))?.commitInfo?.['inCommitTimestamp']);
}

function toSnapshot(
  store: ObjectStore,
  version: bigint,
  state: LogState,
  read: Pick<Snapshot, 'checkpointVersion' | 'listedAtMs' | 'checksumFault'> & { readonly fileTimeMs: number },
): Snapshot {
  const table = store.uri;
  const { protocol, metadata } = state;
  if (protocol === null || metadata === null) {
    const missing = protocol === null ? 'protocol' : 'metaData';
    throw new TableError('LOG_INCOMPLETE', { table, version }, `the log up to this version has no ${missing} action`);
  }
  assertReadable(protocol, table);
  const { provider } = metadata.format;
  if (provider !== 'parquet')
    throw new TableError('SCHEMA_INVALID', { table, version }, `the files are ${provider}; only parquet is read`);
  let schema: StructType;
  try {
    schema = parseSchema(metadata.schemaString);
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unreadable';
    const what = `the table's schema cannot be read: ${why}; use the engine that wrote it, or restore the log from a backup`;
    throw new TableError('SCHEMA_INVALID', { table, version }, what, { cause: error });
  }
  assertReadableColumns(protocol, schema, table);
  return {
    store,
    version,
    committedAtMs: state.inCommitTimestampMs ?? state.commitTimestampMs ?? read.fileTimeMs,
    inCommitTimestampMs: state.inCommitTimestampMs,
    protocol,
    metadata,
    schema,
    files: state.files,
    txns: state.txns,
    domains: state.domains,
    tombstones: state.tombstones,
    checkpointVersion: read.checkpointVersion,
    listedAtMs: read.listedAtMs,
    checksumFault: read.checksumFault,
  };
}
