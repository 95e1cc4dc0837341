import { expect, it } from 'vitest';
import { DEFAULT_BACKOFF } from '../../lakehouse/store/retry.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import { LogError } from '../log/log.ts';
import { ReaderError } from '../reader/reader-error.ts';
import { retryPassing } from './retry-passing.ts';

it('tries again what passes, within a bound, and nothing else', async () => {
  const atOnce = { ...DEFAULT_BACKOFF, attemptsMax: 4, sleep: () => Promise.resolve() };
  const failing =
    (...errors: Error[]) =>
    async () => {
      const error = errors.shift();
      if (error !== undefined) throw error;
      return Promise.resolve('done');
    };
  const lost = new ReaderError('SOURCE_LOST', 'the connection was lost');
  const away = new LogError('LOG_UNAVAILABLE', 'no broker');
  const busy = new StoreError('STORE_THROTTLED', 'k', '503');
  expect(await retryPassing(failing(lost, away, busy), atOnce)).toBe('done');
  await expect(retryPassing(failing(lost, lost, lost, lost), atOnce)).rejects.toBe(lost);
  const final = new StoreError('STORE_ACCESS_DENIED', 'k', '403');
  await expect(retryPassing(failing(final), atOnce)).rejects.toBe(final);
});
