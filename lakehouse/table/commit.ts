/**
 * The only way into the log. Optimistic: propose version v+1 on top of snapshot v; after a lost race the caller's `rebase`
 * sees what won, and answers with a new proposal (or none); then v+1 again, with a jittered pause, a limited number of times.
 * Never an incremented version without that look.
 */
import { randomUUID } from 'node:crypto';
import { DEFAULT_BACKOFF, backoffMs } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import type { Commit, CommitActions, CommitInfo } from './actions.ts';
import { serializeCommit } from './action-json.ts';
import { assertCommit } from './commit-rules.ts';
import { readCommitsFrom } from './log-reader.ts';
import { listLog } from './log-segment.ts';
import { assertMaintainable, assertRearrangeable, assertWritable } from './protocol.ts';
import { putCommit } from './put-commit.ts';
import { LISTING_TRUSTED_MS, advanceSnapshot } from './snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { TableError } from './table-error.ts';
import { assertChecksum } from './version-checksum.ts';

export const ENGINE_INFO = 'sluice/0.1.0';

/** What a commit calls itself in the history; text only, no row data. */
export interface Operation {
  /** Delta's names where one fits: WRITE, MERGE, DELETE, OPTIMIZE, VACUUM END, RESTORE, ADD COLUMNS, … */
  readonly name: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly metrics?: Readonly<Record<string, string>>;
  /** Files were added without reading any. */
  readonly isBlindAppend?: boolean;
  /** Serializable unless given. */
  readonly isolationLevel?: 'Serializable' | 'WriteSerializable' | 'SnapshotIsolation';
  /** More members of commitInfo. */
  readonly extra?: CommitInfo;
}

export interface Proposal {
  readonly operation: Operation;
  /** `commitInfo` is null here: it is built for each try. */
  readonly actions: CommitActions;
}

/**
 * Called after a lost race with the table as it is now and what won since the proposal's snapshot. Answers the proposal for
 * the next try, or null to commit nothing (the work is already there).
 */
export type Rebase = (proposal: Proposal, snapshot: Snapshot, winners: readonly Commit[]) => Promise<Proposal | null>;

export interface CommitOptions {
  readonly backoff?: Backoff;
  readonly now?: () => number;
  readonly newToken?: () => string;
  /** Tries in all; COMMIT_CONTENTION after the last. */
  readonly attemptsMax?: number;
}

export interface CommitResult {
  /** Null when `rebase` found nothing left to do. */
  readonly version: bigint | null;
  /** The table after the commit; reading it again is not needed. */
  readonly snapshot: Snapshot;
  /** Races lost before. */
  readonly conflicts: number;
}

const ATTEMPTS_MAX = 40;
/**
 * Pause after a lost race: short, for the version is free again at once, and growing, for the more lose the more there are.
 * (A store that fails is given more time: DEFAULT_BACKOFF.)
 */
const RACE_PAUSE = { baseMs: 5, capMs: 100 };

/** @throws TableError COMMIT_CONTENTION | COMMIT_INVALID | COMMIT_OUTCOME_UNKNOWN | PROTOCOL_UNSUPPORTED | CHECKSUM_MISMATCH; StoreError; whatever `rebase` throws */
export async function commitTo(
  start: Snapshot,
  first: Proposal,
  rebase: Rebase,
  options: CommitOptions = {},
): Promise<CommitResult> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const attemptsMax = options.attemptsMax ?? ATTEMPTS_MAX;
  const token = (options.newToken ?? randomUUID)();
  let snapshot = start;
  let proposal = first;
  for (let conflicts = 0; conflicts < attemptsMax; conflicts++) {
    const outcome = await tryCommit(snapshot, proposal, token, options);
    if (outcome.kind === 'won') return { version: outcome.snapshot.version, snapshot: outcome.snapshot, conflicts };
    // The pause comes before the look: a proposal that waits is stale by the time it is tried.
    await backoff.sleep(backoffMs({ ...backoff, ...RACE_PAUSE }, conflicts));
    const last = outcome.winners.at(-1)?.version ?? snapshot.version;
    const winners = [...outcome.winners, ...(await readCommitsFrom(snapshot.store, last + 1n, options.backoff))];
    snapshot = advanceSnapshot(snapshot, winners);
    const next = await rebase(proposal, snapshot, winners);
    if (next === null) return { version: null, snapshot, conflicts: conflicts + 1 };
    proposal = next;
  }
  throw new TableError(
    'COMMIT_CONTENTION',
    { table: start.store.uri, version: snapshot.version },
    `other writers won ${attemptsMax} races in a row; nothing was committed. Try again with fewer writers on this table`,
  );
}

export type TryCommitOutcome =
  /** `snapshot` is the table with this commit in it. */
  | { readonly kind: 'won'; readonly snapshot: Snapshot }
  /** All commits after the proposal's snapshot, ascending. */
  | { readonly kind: 'lost'; readonly winners: readonly Commit[] };

/** One try at `snapshot.version + 1`, settled: also a lost answer ends as won or lost. */
export async function tryCommit(
  snapshot: Snapshot,
  proposal: Proposal,
  writerToken: string,
  options: CommitOptions = {},
): Promise<TryCommitOutcome> {
  const { store } = snapshot;
  const now = options.now ?? Date.now;
  const nowMs = now();
  const metadata = proposal.actions.metadata ?? snapshot.metadata;
  const protocol = proposal.actions.protocol ?? snapshot.protocol;
  const { actions: proposed } = proposal;
  if (proposed.metadata !== null || proposed.protocol !== null || proposed.adds.some((file) => file.dataChange))
    assertWritable(protocol, metadata, store.uri);
  else if (proposed.adds.length > 0 || proposed.removes.length > 0) assertRearrangeable(protocol, store.uri);
  else assertMaintainable(protocol, store.uri);
  assertChecksum(snapshot);
  assertCommit(proposal.actions, protocol, metadata, store.uri);
  const current = await assertEndOfLog(snapshot, nowMs, options.backoff);
  const version = snapshot.version + 1n;
  const actions: CommitActions = {
    ...proposal.actions,
    commitInfo: commitInfo(proposal.operation, writerToken, nowMs, snapshot, metadata.configuration),
  };
  const put = await putCommit(store, version, serializeCommit(actions), writerToken, options.backoff);
  if (put.kind === 'won') return { kind: 'won', snapshot: advanceSnapshot(current, [{ version, ...actions }]) };
  const later = await readCommitsFrom(store, version + 1n, options.backoff);
  return { kind: 'lost', winners: [put.winner, ...later] };
}

/**
 * A process that slept for days may hold a version whose successors were cleaned up: the next version's name is then free
 * again, and a conditional put on it would succeed in the middle of history. So an old listing is renewed before a commit.
 */
async function assertEndOfLog(snapshot: Snapshot, nowMs: number, backoff: Backoff | undefined): Promise<Snapshot> {
  if (Math.abs(nowMs - snapshot.listedAtMs) <= LISTING_TRUSTED_MS) return snapshot;
  const { store, version } = snapshot;
  const listing = await listLog(store, version, backoff);
  if (listing.newest !== null && listing.newest > version && !listing.commits.has(version + 1n)) {
    throw new TableError(
      'COMMIT_CONFLICT',
      { table: store.uri, version },
      `the table is at version ${listing.newest} and the commits after the version held here were cleaned up; open it again`,
    );
  }
  return { ...snapshot, listedAtMs: nowMs };
}

function commitInfo(
  operation: Operation,
  txnId: string,
  nowMs: number,
  snapshot: Snapshot,
  configuration: Readonly<Record<string, string>>,
): CommitInfo {
  const stamped = configuration['delta.enableInCommitTimestamps'] === 'true';
  const previousMs = snapshot.inCommitTimestampMs ?? snapshot.committedAtMs;
  return {
    ...(stamped ? { inCommitTimestamp: Math.max(nowMs, previousMs + 1) } : {}),
    timestamp: nowMs,
    operation: operation.name,
    operationParameters: operation.parameters ?? {},
    readVersion: snapshot.version,
    isolationLevel: operation.isolationLevel ?? 'Serializable',
    isBlindAppend: operation.isBlindAppend ?? false,
    operationMetrics: operation.metrics ?? {},
    engineInfo: ENGINE_INFO,
    ...operation.extra,
    txnId,
  };
}
