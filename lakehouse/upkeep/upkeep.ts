/**
 * The jobs of a table in the background: checkpoints when they pay, log cleanup and VACUUM now and then. One `tick` does
 * what is due, one thing after the other, and never throws for a failed job: nothing of it is in the way of writers, each
 * may be killed anywhere and run again, and what failed is tried again at its next turn.
 */
import type { Backoff } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import { openSnapshot, refreshSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { cleanLog } from './clean-log.ts';
import { CHECKPOINT_RULES, checkpointIfDue } from './schedule-checkpoint.ts';
import type { CheckpointRules } from './schedule-checkpoint.ts';
import { vacuum } from './vacuum.ts';

export interface UpkeepOptions {
  /** Rooted at the table. */
  readonly store: ObjectStore;
  readonly checkpoint?: CheckpointRules;
  /** Null: never. Default a day. */
  readonly cleanLogEveryMs?: number | null;
  /** Null: never. Default a day. */
  readonly vacuumEveryMs?: number | null;
  /** Files that one VACUUM deletes at most; default 10,000. */
  readonly vacuumFilesMax?: number;
  readonly now?: () => number;
  /** Uniform in [0, 1): spreads the tables' turns. */
  readonly random?: () => number;
  readonly backoff?: Backoff;
}

export type UpkeepJob = 'checkpoint' | 'clean-log' | 'vacuum';

export interface UpkeepTick {
  /** Version of the checkpoint written, or null. */
  readonly checkpoint: bigint | null;
  readonly logFilesRemoved: number;
  readonly filesDeleted: number;
  readonly failures: readonly { readonly job: UpkeepJob; readonly error: unknown }[];
}

const DAY_MS = 86_400_000;
const VACUUM_FILES_MAX = 10_000;

/** One at a time: a tick that is called while another runs waits for it and answers the same. */
export function createUpkeep(options: UpkeepOptions): { readonly tick: () => Promise<UpkeepTick> } {
  const now = options.now ?? Date.now;
  const random = options.random ?? Math.random;
  const common = { now, ...(options.backoff === undefined ? {} : { backoff: options.backoff }) };
  const turn = (everyMs: number | null | undefined): { dueMs: number; readonly everyMs: number | null } => {
    const every = everyMs === undefined ? DAY_MS : everyMs;
    // Somewhere in the first period: a process that restarts often still comes to it, and tables do not all come at once.
    return { dueMs: now() + random() * (every ?? 0), everyMs: every };
  };
  const cleaning = turn(options.cleanLogEveryMs);
  const vacuuming = turn(options.vacuumEveryMs);
  let snapshot: Snapshot | null = null;
  let running: Promise<UpkeepTick> | null = null;

  const run = async (): Promise<UpkeepTick> => {
    const failures: { job: UpkeepJob; error: unknown }[] = [];
    const attempt = async <T>(job: UpkeepJob, work: () => Promise<T>, otherwise: T): Promise<T> => {
      try {
        return await work();
      } catch (error) {
        failures.push({ job, error });
        return otherwise;
      }
    };
    const isDue = (job: { dueMs: number; readonly everyMs: number | null }): boolean => {
      if (job.everyMs === null || now() < job.dueMs) return false;
      job.dueMs = now() + job.everyMs;
      return true;
    };
    const checkpoint = await attempt(
      'checkpoint',
      async () => {
        snapshot =
          snapshot === null ? await openSnapshot(options.store, common) : await refreshSnapshot(snapshot, common);
        const written = await checkpointIfDue(snapshot, { ...common, rules: options.checkpoint ?? CHECKPOINT_RULES });
        // The next look lists from this checkpoint on.
        if (written !== null) snapshot = { ...snapshot, checkpointVersion: written.version };
        return written?.version ?? null;
      },
      null,
    );
    const cleaned = isDue(cleaning) ? await attempt('clean-log', () => cleanLog(options.store, common), null) : null;
    const filesMax = options.vacuumFilesMax ?? VACUUM_FILES_MAX;
    const swept = isDue(vacuuming)
      ? await attempt('vacuum', () => vacuum(options.store, { ...common, filesMax }), null)
      : null;
    return {
      checkpoint,
      logFilesRemoved: cleaned?.removed.length ?? 0,
      filesDeleted: swept?.deleted.length ?? 0,
      failures,
    };
  };

  return {
    tick: () => {
      running ??= run().finally(() => {
        running = null;
      });
      return running;
    },
  };
}
