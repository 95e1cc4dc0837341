import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Polls until `probe` gives a value other than undefined, null or false, and returns it. An error thrown by the probe counts
 * as "not yet"; the last one is the cause of the failure.
 */
export async function waitFor<T>(
  what: string,
  probe: () => T | Promise<T>,
  options: { readonly deadlineMs?: number; readonly everyMs?: number } = {},
): Promise<Exclude<T, undefined | null | false>> {
  const { deadlineMs = 240_000, everyMs = 50 } = options;
  const deadline = Date.now() + deadlineMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== null && value !== false) {
        return value as Exclude<T, undefined | null | false>;
      }
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (Date.now() >= deadline) throw new Error(`waited ${deadlineMs} ms in vain for ${what}`, { cause });
    await sleep(everyMs);
  }
}
