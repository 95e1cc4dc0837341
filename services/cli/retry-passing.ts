/** Work of a command that another try may do: a connection broke, a server restarts, two transactions met. */
import { DEFAULT_BACKOFF, withRetry, type Backoff } from '../../lakehouse/store/retry.ts';
import { isRetriable } from '../../lakehouse/store/store.ts';

const BACKOFF: Backoff = { ...DEFAULT_BACKOFF, attemptsMax: 5, baseMs: 500, capMs: 5_000 };

/** What reader, log and lake say of their errors. */
export function passes(error: unknown): boolean {
  return isRetriable(error) || (error as { retriable?: unknown } | null)?.retriable === true;
}

export const retryPassing = <T>(work: () => Promise<T>, backoff: Backoff = BACKOFF): Promise<T> =>
  withRetry(work, passes, backoff);
