/** Drives one table: steps while there is work, backs off on failures, stops by name, pauses. One table never stops another. */
import { MergeError } from '../../lakehouse/merge/merge-error.ts';
import { failureCode } from '../runtime/failure-code.ts';
import type { QueryPosition, StepResult } from '../stream/stream.ts';
import { StreamError } from '../stream/stream-error.ts';
import { nextDelayMs } from '../stream/triggers.ts';
import type { Clock } from '../stream/triggers.ts';
import type { ByteBudget } from './byte-budget.ts';
import type { IngestTable } from './ingest-table.ts';

/** STREAMING and PAUSED go on by themselves or by a command; any other name says why the table is stopped. */
export type RunnerState = 'STREAMING' | 'PAUSED' | StoppedState;
export type StoppedState = StreamError['code'];

export interface Stopped {
  readonly state: StoppedState;
  readonly message: string;
  readonly remedy: string;
}

/** What a runner drives: one table of one query. */
export interface Steppable {
  readonly topic: string;
  step(barrier: number | null): Promise<StepResult>;
  position(): QueryPosition;
  /** A full batch more waits. */
  backlog(): boolean;
  /** Events that the last batch applied; null = the query does not count them. */
  appliedLast(): number | null;
  /** The contract is another one than the last batch was planned with. */
  contractChanged?(): Promise<boolean>;
}

export interface RunnerOptions<T extends Steppable> {
  readonly id: string;
  readonly table: T;
  readonly clock: Clock;
  /** Least time between the starts of two batches while no backlog waits; 0 = none. */
  readonly intervalMs: number;
  readonly budget: ByteBudget;
  readonly batchBytesEstimate: number;
  /** Mark that the next batch may not pass, for a table that stands at `sequence`; null = none. */
  readonly barrier: (sequence: number) => number | null;
  readonly signal: AbortSignal;
  /** Called after each step, before the next one may begin. */
  readonly afterStep: (result: StepResult) => void;
  readonly onFailure: (failure: Failure) => void;
}

export interface Failure {
  readonly id: string;
  readonly error: unknown;
  /** Null: it is tried again after `retryInMs`. */
  readonly stopped: Stopped | null;
  readonly retryInMs: number;
}

export interface TableRunner<T extends Steppable = IngestTable> {
  readonly id: string;
  readonly table: T;
  state(): RunnerState;
  stopped(): Stopped | null;
  /** Code or name of the failure that is being retried. */
  retrying(): string | null;
  /** Its message. */
  retryingWhy(): string | null;
  pause(): void;
  /** Goes on after a pause or a stop. */
  resume(): void;
  /** Goes on after a stop; a pause stays. */
  goOn(): void;
  /** Stops by name, as a step that failed so would. */
  halt(error: unknown): void;
  /** New marks have come. */
  wake(): void;
  /** Runs work on the table between two of its batches. */
  exclusive<R>(work: (table: T) => Promise<R>): Promise<R>;
  /** Resolves when the loop has ended. */
  readonly done: Promise<void>;
}

/**
 * Another stream worker commits this table. While tables change hands that is over at once; where two pipelines write one lake
 * we stand by, and take over when the other no longer does.
 */
export const OWNER_CONFLICT = 'OWNER_CONFLICT';
const OWNED_RETRY_MIN_MS = 500;
const OWNED_RETRY_MAX_MS = 15_000;
/** States that an edit of the contract may end: looked for this often, so that nothing has to be started again. */
const ENDED_BY_CONTRACT: readonly string[] = ['CONTRACT_FAILED', 'SCHEMA_CONFLICT'];
const CONTRACT_LOOK_MS = 1_000;
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 30_000;
/** Batches that only move offsets come at most this often, once several follow each other (cases.md 44). */
const EMPTY_COMMIT_MS = 10_000;
const EMPTY_COMMITS_FREE = 3;

export function startTableRunner<T extends Steppable>(options: RunnerOptions<T>): TableRunner<T> {
  const { id, table, clock, signal } = options;
  let paused = false;
  let stopped: Stopped | null = null;
  let failures = 0;
  let retrying: string | null = null;
  let retryingWhy: string | null = null;
  let woken = false;
  let wakeUp: (() => void) | null = null;
  let emptyCommits = 0;
  let cutShort = false;

  /** Steps and other work on the table, one at a time. */
  let turn: Promise<unknown> = Promise.resolve();
  function inTurn<R>(work: () => Promise<R>): Promise<R> {
    const mine = turn.then(work, work);
    turn = mine.catch(() => undefined);
    return mine;
  }

  const wake = (): void => {
    woken = true;
    wakeUp?.();
  };
  signal.addEventListener('abort', wake, { once: true });

  /** Until new marks, a command, or the end. */
  async function rest(): Promise<void> {
    if (!woken && !signal.aborted) await new Promise<void>((resolve) => (wakeUp = resolve));
    wakeUp = null;
    woken = false;
  }

  /** A table that its contract stopped goes on when the contract is another one. */
  async function revived(): Promise<boolean> {
    if (table.contractChanged === undefined || !(await table.contractChanged().catch(() => false))) return false;
    stopped = null;
    failures = 0;
    return true;
  }

  async function restAtMost(ms: number): Promise<void> {
    const over = new AbortController();
    await Promise.race([rest(), clock.sleep(ms, AbortSignal.any([signal, over.signal])).catch(() => undefined)]);
    over.abort();
  }

  function fail(error: unknown): number {
    stopped = stopOf(error);
    failures++;
    const owned = error instanceof MergeError && error.code === 'MERGE_TXN_CONFLICT';
    const [least, most] = owned ? [OWNED_RETRY_MIN_MS, OWNED_RETRY_MAX_MS] : [BACKOFF_MIN_MS, BACKOFF_MAX_MS];
    const backoff = Math.min(most, least * 2 ** Math.min(failures - (owned ? 1 : 0), 10));
    const retryInMs = stopped === null ? backoff : 0;
    retrying = stopped !== null ? null : owned ? OWNER_CONFLICT : failureCode(error);
    retryingWhy = retrying === null ? null : error instanceof Error ? error.message : String(error);
    options.onFailure({ id, error, stopped, retryInMs });
    return retryInMs;
  }

  async function one(): Promise<StepResult> {
    const before = table.position().markSequence;
    const limit = options.barrier(before);
    const result = await options.budget.run(options.batchBytesEstimate, () => inTurn(() => table.step(limit)));
    failures = 0;
    retrying = null;
    if (result === 'ran') emptyCommits = table.appliedLast() === 0 ? emptyCommits + 1 : 0;
    const reached = table.position().markSequence;
    cutShort = limit !== null && reached === limit && reached > before;
    options.afterStep(result);
    return result;
  }

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      if (paused || stopped !== null) {
        if (stopped !== null && !paused && ENDED_BY_CONTRACT.includes(stopped.state)) {
          if (!(await revived())) await restAtMost(CONTRACT_LOOK_MS);
        } else await rest();
        continue;
      }
      const startedMs = clock.now();
      let result: StepResult;
      try {
        result = await one();
      } catch (error) {
        if (signal.aborted) return;
        const retryInMs = fail(error);
        if (retryInMs > 0) await clock.sleep(retryInMs, signal);
        continue;
      }
      // A barrier is no reason to wait: what lies behind it is due by the same trigger.
      if (cutShort) continue;
      if (result === 'idle') await rest();
      const wait =
        emptyCommits > EMPTY_COMMITS_FREE ? Math.max(EMPTY_COMMIT_MS, options.intervalMs) : options.intervalMs;
      if (wait > 0 && !signal.aborted && !table.backlog())
        await clock.sleep(nextDelayMs(wait, startedMs, clock.now()), signal);
    }
  }

  return {
    id,
    table,
    state: () => stopped?.state ?? (paused ? 'PAUSED' : 'STREAMING'),
    stopped: () => stopped,
    retrying: () => retrying,
    retryingWhy: () => (retrying === null ? null : retryingWhy),
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
      stopped = null;
      failures = 0;
      wake();
    },
    goOn() {
      stopped = null;
      failures = 0;
      wake();
    },
    halt(error) {
      if (stopped !== null || signal.aborted) return;
      fail(error);
      wake();
    },
    wake,
    exclusive: (work) => inTurn(() => work(table)),
    done: loop(),
  };
}

function stopOf(error: unknown): Stopped | null {
  // What a user's sink writes to may come back: it is tried again, with the same batch.
  if (error instanceof StreamError && error.code === 'SINK_FAILED') return null;
  if (error instanceof StreamError) return { state: error.code, message: error.message, remedy: error.remedy };
  if (!(error instanceof MergeError)) return null;
  const { code, message } = error;
  if (code === 'MERGE_TYPE_MISMATCH' || code === 'MERGE_BAD_BATCH' || code === 'MERGE_TABLE_REPLACED')
    return {
      state: 'SCHEMA_CONFLICT',
      message,
      remedy: 'correct the contract, then `sluice repair` on the table: it is rewritten in the types of its contract',
    };
  return null;
}
