/**
 * Puts one commit file, and finds out whether it was ours that stands there.
 *
 *   created                          -> won
 *   exists                           -> read back: our writer token = won (an earlier try of this very put), else lost
 *   unknown, throttled, unavailable  -> read back; absent = put the same bytes again (safe: the put is conditional, and a
 *                                       late first put can only land with the same bytes)
 *
 * Nothing is deleted on any path: while an outcome is unknown, a commit that names the data files may stand in the log.
 */
import { DEFAULT_BACKOFF, backoffMs, isRetriableRead } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import type { Commit } from './actions.ts';
import { commitKey } from './log-files.ts';
import { readCommit } from './log-reader.ts';
import { TableError } from './table-error.ts';

export type PutCommitOutcome =
  | { readonly kind: 'won' }
  /** Another writer has this version. */
  | { readonly kind: 'lost'; readonly winner: Commit };

/**
 * @param writerToken what `body` has as `commitInfo.txnId`; fresh for every commit, the same for its tries
 * @throws TableError COMMIT_OUTCOME_UNKNOWN | LOG_COMMIT_CORRUPT; StoreError when the put was refused (nothing is stored)
 */
export async function putCommit(
  store: ObjectStore,
  version: bigint,
  body: Uint8Array,
  writerToken: string,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<PutCommitOutcome> {
  let unsettled: unknown = null;
  for (let attempt = 0; attempt < backoff.attemptsMax; attempt++) {
    if (attempt > 0) await backoff.sleep(backoffMs(backoff, attempt - 1));
    try {
      if ((await store.putIfAbsent(commitKey(version), body)) === 'created') return { kind: 'won' };
    } catch (error) {
      if (!mayBeStored(error)) {
        if (unsettled === null) throw error;
        break;
      }
      unsettled = error;
    }
    let standing: Commit | null;
    try {
      standing = await readCommit(store, version, backoff);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      // What stands there may be ours: a store that refuses to show it (expired credentials) has not refused the put.
      unsettled ??= error;
      if (isRetriableRead(error)) continue;
      break;
    }
    if (standing !== null) {
      const ours = standing.commitInfo?.['txnId'] === writerToken;
      return ours ? { kind: 'won' } : { kind: 'lost', winner: standing };
    }
  }
  throw new TableError(
    'COMMIT_OUTCOME_UNKNOWN',
    { table: store.uri, version, file: commitKey(version) },
    'the store did not say whether the commit was stored; keep the data files, and open the table again once the store answers',
    { cause: unsettled },
  );
}

function mayBeStored(error: unknown): boolean {
  if (!(error instanceof StoreError)) return true;
  return (
    error.code === 'STORE_OUTCOME_UNKNOWN' || error.code === 'STORE_UNAVAILABLE' || error.code === 'STORE_THROTTLED'
  );
}
