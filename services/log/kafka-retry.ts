/** Waiting out what passes by itself at the brokers. */
import { setTimeout as delay } from 'node:timers/promises';
import { brokerErrorType } from './kafka-error.ts';
import { LogError } from './log.ts';

/** While a transaction is still being completed at the brokers, the next one is refused for some milliseconds. */
const CONCURRENT_PAUSE_MS = 5;
const AWAY_PAUSE_MS = 100;

/**
 * Tries again while the last transaction's markers are still on their way, and while the coordinator moves, comes up or is
 * away; until `signal`. Only for requests that may be repeated.
 */
export async function whileBusy<T>(limitMs: number, action: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let waitedMs = 0; ;) {
    try {
      return await action();
    } catch (error) {
      const type = brokerErrorType(error instanceof LogError ? error.cause : error);
      const away = error instanceof LogError && error.code === 'LOG_UNAVAILABLE' && error.retriable;
      if (signal?.aborted === true || waitedMs >= limitMs || (type !== 'CONCURRENT_TRANSACTIONS' && !away)) throw error;
      const pauseMs = type === 'CONCURRENT_TRANSACTIONS' ? CONCURRENT_PAUSE_MS : AWAY_PAUSE_MS;
      await delay(pauseMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
      waitedMs += pauseMs;
    }
  }
}
