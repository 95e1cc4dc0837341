/** When a query looks for its next batch. */
export type Trigger =
  /** Every `intervalMs`; at once again while batches come out full. */
  | { readonly kind: 'interval'; readonly intervalMs: number }
  /** Everything that stands in the log now, in as many batches as the limits make, then the query ends. */
  | { readonly kind: 'available-now' };

export interface Clock {
  /** Wall clock, ms since 1970. */
  now(): number;
  /** Resolves after `ms`, or at once when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      const done = (): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done, { once: true });
    }),
};

/** ms to wait before the next look, on the grid of the interval: a slow batch delays the next, it never bunches them. */
export function nextDelayMs(intervalMs: number, startedMs: number, nowMs: number): number {
  if (intervalMs <= 0) return 0;
  const elapsed = nowMs - startedMs;
  return elapsed < 0 ? intervalMs : intervalMs - (elapsed % intervalMs);
}
