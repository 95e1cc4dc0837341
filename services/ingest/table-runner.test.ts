import { describe, expect, it } from 'vitest';
import { MergeError } from '../../lakehouse/merge/merge-error.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import { LogError } from '../log/log.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { StepResult } from '../stream/stream.ts';
import { createByteBudget } from './byte-budget.ts';
import { startTableRunner, type Failure, type Steppable } from './table-runner.ts';

/** A table whose steps fail with these errors, one after the other, and then find nothing to do. */
async function run(errors: readonly Error[]) {
  const left = [...errors];
  const stop = new AbortController();
  const failures: Failure[] = [];
  const told: (string | null)[] = [];
  const steps: Steppable = {
    topic: 'p.public.t',
    step: (): Promise<StepResult> => {
      const error = left.shift();
      return error === undefined ? Promise.resolve('idle') : Promise.reject(error);
    },
    position: () => ({ batchId: null, nextOffsets: new Map(), markSequence: 0 }),
    backlog: () => false,
    appliedLast: () => null,
  };
  const runner = startTableRunner({
    id: 'public.t',
    table: steps,
    clock: {
      now: () => 0,
      sleep: () => {
        if (runner.stopped() === null) told.push(runner.retrying());
        return new Promise((resolve) => setTimeout(resolve, 1));
      },
    },
    intervalMs: 0,
    budget: createByteBudget(1_000, 1),
    batchBytesEstimate: 1,
    barrier: () => null,
    signal: stop.signal,
    afterStep: () => stop.abort(),
    onFailure: (failure) => failures.push(failure),
  });
  if (errors.some((error) => error instanceof StreamError)) {
    while (runner.stopped() === null) await new Promise((resolve) => setTimeout(resolve, 1));
    stop.abort();
  }
  await runner.done;
  return { runner, failures, told };
}

describe('a table that fails', () => {
  it('stands by as OWNER_CONFLICT while another worker commits it, and takes over when that has gone', async () => {
    const taken = new MergeError('MERGE_TXN_CONFLICT', 'memory://t', 'another owner has taken over');
    const { runner, failures, told } = await run([taken, taken, taken]);
    expect(told).toEqual(['OWNER_CONFLICT', 'OWNER_CONFLICT', 'OWNER_CONFLICT']);
    expect(failures.map(({ retryInMs, stopped }) => ({ retryInMs, stopped }))).toEqual(
      [500, 1_000, 2_000].map((retryInMs) => ({ retryInMs, stopped: null })),
    );
    expect(runner.retrying()).toBeNull();
    expect(runner.state()).toBe('STREAMING');
  });

  it('is told by the full disk under it, whatever met it, and is not stopped', async () => {
    const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    const { told, runner } = await run([
      new StoreError('STORE_DISK_FULL', 'k', 'cannot write "k": ENOSPC', { cause: full }),
      new MergeError('MERGE_BASE_LOST', 'memory://t', 'lost', { cause: full }),
      new StoreError('STORE_ACCESS_DENIED', 'k', 'refused'),
    ]);
    expect(told).toEqual(['STORE_DISK_FULL', 'ENOSPC', 'STORE_ACCESS_DENIED']);
    expect(runner.stopped()).toBeNull();
  });

  it('is tried again where some other topic is not there: its own is named where it is read', async () => {
    const { runner, told } = await run([
      new LogError('LOG_TOPIC_MISSING', 'the log has no topic p.public.t.quarantine'),
    ]);
    expect(told).toEqual(['LOG_TOPIC_MISSING']);
    expect(runner.stopped()).toBeNull();
  });

  it('stops by name where a retry changes nothing', async () => {
    const { runner, told } = await run([new StreamError('CONTRACT_FAILED', 'a rule failed', 'correct it')]);
    expect(told).toEqual([]);
    expect(runner.stopped()).toEqual({ state: 'CONTRACT_FAILED', message: 'a rule failed', remedy: 'correct it' });
  });
});
