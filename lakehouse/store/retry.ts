/**
 * Repeats a store call that failed in a way that waiting may cure. For reads and unconditional writes only: a conditional
 * put is settled by reading back (table/commit.ts).
 */
import { setTimeout as sleepFor } from 'node:timers/promises';
import { StoreError, isRetriable } from './store.ts';
import type { ByteRange, ObjectStore } from './store.ts';

export interface Backoff {
  /** Calls in all, the first included. */
  readonly attemptsMax: number;
  readonly baseMs: number;
  readonly capMs: number;
  readonly sleep: (ms: number) => Promise<void>;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export const DEFAULT_BACKOFF: Backoff = {
  attemptsMax: 6,
  baseMs: 50,
  capMs: 5_000,
  sleep: async (ms) => {
    await sleepFor(ms);
  },
  random: Math.random,
};

/** Full jitter: uniform between 0 and min(cap, base x 2^attempt); `attempt` counts from 0. */
export function backoffMs(backoff: Backoff, attempt: number): number {
  return backoff.random() * Math.min(backoff.capMs, backoff.baseMs * 2 ** Math.min(attempt, 30));
}

/** A body cut off on its way is as curable as a refused connection. */
export function isRetriableRead(error: unknown): boolean {
  return isRetriable(error) || (error instanceof StoreError && error.code === 'STORE_TRUNCATED');
}

export async function withRetry<T>(
  call: () => Promise<T>,
  retriable: (error: unknown) => boolean,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (attempt + 1 >= backoff.attemptsMax || !retriable(error)) throw error;
      await backoff.sleep(backoffMs(backoff, attempt));
    }
  }
}

export async function getWithRetry(
  store: ObjectStore,
  key: string,
  range?: ByteRange,
  backoff: Backoff = DEFAULT_BACKOFF,
): Promise<Uint8Array> {
  return withRetry(() => store.get(key, range), isRetriableRead, backoff);
}
