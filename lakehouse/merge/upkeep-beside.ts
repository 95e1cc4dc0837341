/**
 * The small upkeep that a merge writer does beside its commits, in the background and one at a time: checkpoints, so that
 * opening stays cheap, and joined fence files. A failure loses nothing and stops nothing; it is reported and tried again
 * with a later commit.
 */
import type { ObjectStore } from '../store/store.ts';
import { LAST_CHECKPOINT } from '../table/log-files.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { checkpointIfDue, CHECKPOINT_RULES } from '../upkeep/schedule-checkpoint.ts';
import { NO_FAILPOINT, type FailpointHook } from './failpoint.ts';
import { compactFences, type FenceKeys } from './fences.ts';

export interface UpkeepOptions {
  /** Commits of this writer between two looks at whether a checkpoint is due. */
  readonly checkpointEvery: number;
  readonly fenceRetentionMs: number;
  readonly failpoint: FailpointHook;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export interface UpkeepBeside {
  /** Call after each commit; returns at once. `keys` null: the table has no fences (append mode). */
  afterCommit(snapshot: Snapshot, keys: FenceKeys | null): void;
  /** Runs a piece of work in the same background line. */
  run(work: () => Promise<void>): void;
  settled(): Promise<void>;
}

const FENCE_FILES_MIN = 32;
const FENCE_JOINED_MAX = 16;

export function createUpkeepBeside(options: UpkeepOptions): UpkeepBeside {
  let line: Promise<void> = Promise.resolve();
  let sinceLook = 0;
  const run = (work: () => Promise<void>): void => {
    line = line.then(work).catch(options.onError);
  };

  async function look(snapshot: Snapshot, keys: FenceKeys | null): Promise<void> {
    const rules = { ...CHECKPOINT_RULES, commitsMax: options.checkpointEvery };
    await checkpointIfDue(withHook(snapshot, options.failpoint), { rules, now: options.now });
    if (keys === null) return;
    const nowMs = options.now();
    await compactFences(snapshot.store, keys, snapshot.version, {
      keepSinceMs: nowMs - options.fenceRetentionMs,
      nowMs,
      singlesMin: Math.min(FENCE_FILES_MIN, options.checkpointEvery),
      compactedMax: FENCE_JOINED_MAX,
    });
  }

  return {
    afterCommit(snapshot, keys) {
      if (++sinceLook < options.checkpointEvery) return;
      sinceLook = 0;
      run(() => look(snapshot, keys));
    },
    run,
    settled: () => line,
  };
}

/** The failpoint lies between the checkpoint and the pointer to it. */
function withHook(snapshot: Snapshot, failpoint: FailpointHook): Snapshot {
  if (failpoint === NO_FAILPOINT) return snapshot;
  const { store } = snapshot;
  const hooked: ObjectStore = {
    uri: store.uri,
    get: (key, range) => store.get(key, range),
    head: (key) => store.head(key),
    list: (prefix, listing) => store.list(prefix, listing),
    async put(key, body) {
      if (key === LAST_CHECKPOINT) await failpoint('during-checkpoint');
      return store.put(key, body);
    },
    putIfAbsent: (key, body) => store.putIfAbsent(key, body),
    delete: (keys) => store.delete(keys),
    close: () => store.close(),
  };
  return { ...snapshot, store: hooked };
}
