/** Reads the log's files into a replay, a bounded number of bytes ahead. */
import { getWithRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import type { Commit } from './actions.ts';
import { parseCommit, visitActions } from './action-json.ts';
import { firstWins } from './compacted-log.ts';
import { commitKey } from './log-files.ts';
import { emptyCommit } from './log-segment.ts';
import type { LogStep } from './log-segment.ts';
import type { Replay } from './replay.ts';
import { TableError } from './table-error.ts';

/** Log files requested at once, and the sum of their sizes (one larger file alone is let through). */
const AHEAD_MAX = 32;
const AHEAD_BYTES_MAX = 32 * 1024 * 1024;

/** Applies `steps` in order. */
export async function replaySteps(
  store: ObjectStore,
  steps: readonly LogStep[],
  replay: Replay,
  backoff: Backoff,
): Promise<void> {
  for await (const { step, body } of readAhead(store, steps, backoff)) {
    replay.beginCommit();
    try {
      if (body.length === 0) throw emptyCommit(store.uri, step.fromVersion);
      const single = step.fromVersion === step.toVersion;
      visitActions(body, single ? replay.visitor : firstWins(replay.visitor));
    } catch (error) {
      throw corruptCommit(store.uri, step.fromVersion, step.file.key, error);
    }
  }
}

async function* readAhead(
  store: ObjectStore,
  steps: readonly LogStep[],
  backoff: Backoff,
): AsyncIterable<{ step: LogStep; body: Uint8Array }> {
  const waiting: { step: LogStep; body: Promise<Uint8Array> }[] = [];
  let aheadBytes = 0;
  let next = 0;
  while (next < steps.length || waiting.length > 0) {
    for (let step = steps[next]; step !== undefined && waiting.length < AHEAD_MAX; step = steps[next]) {
      if (waiting.length > 0 && aheadBytes + step.file.sizeBytes > AHEAD_BYTES_MAX) break;
      const body = getWithRetry(store, step.file.key, undefined, backoff);
      // Awaited in turn below; until then a failure must not count as unhandled.
      body.catch(() => {});
      waiting.push({ step, body });
      aheadBytes += step.file.sizeBytes;
      next++;
    }
    const head = waiting.shift();
    if (head === undefined) return;
    yield { step: head.step, body: await head.body };
    aheadBytes -= head.step.file.sizeBytes;
  }
}

/**
 * One commit, or null when there is none with this version.
 * @throws TableError LOG_COMMIT_CORRUPT
 */
export async function readCommit(store: ObjectStore, version: bigint, backoff?: Backoff): Promise<Commit | null> {
  const key = commitKey(version);
  let body: Uint8Array;
  try {
    body = await getWithRetry(store, key, undefined, backoff);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND') return null;
    throw error;
  }
  try {
    if (body.length === 0) throw emptyCommit(store.uri, version);
    return { version, ...parseCommit(body) };
  } catch (error) {
    throw corruptCommit(store.uri, version, key, error);
  }
}

/** Commits from `version` on, until there is none. */
export async function readCommitsFrom(
  store: ObjectStore,
  version: bigint,
  backoff?: Backoff,
): Promise<readonly Commit[]> {
  const commits: Commit[] = [];
  for (let at = version; ; at++) {
    const commit = await readCommit(store, at, backoff);
    if (commit === null) return commits;
    commits.push(commit);
  }
}

function corruptCommit(table: string, version: bigint, file: string, error: unknown): unknown {
  if (!(error instanceof SyntaxError || error instanceof TypeError)) return error;
  return new TableError(
    'LOG_COMMIT_CORRUPT',
    { table, version, file },
    `the commit cannot be read: ${error.message}; restore the file from a backup, or restore the table from before it`,
    { cause: error },
  );
}
