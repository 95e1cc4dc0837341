/**
 * The stream's heartbeat: a table that has nothing to read, or is paused, does not meet what happened to its topic. Each is
 * looked at from time to time, so that a deleted topic and expired offsets are named before somebody resumes the table.
 */
import { StreamError } from '../stream/stream-error.ts';
import type { Clock } from '../stream/triggers.ts';
import type { TableRunner } from './table-runner.ts';

export interface WatchOptions {
  readonly runners: () => readonly TableRunner[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly everyMs: number;
}

export async function watchContinuity({ runners, clock, signal, everyMs }: WatchOptions): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(everyMs, signal);
    for (const runner of runners()) {
      if (signal.aborted) return;
      if (runner.stopped() !== null) continue;
      try {
        await runner.table.check();
      } catch (error) {
        // A log that does not answer is told by the feed; only what has a name stops the table.
        if (error instanceof StreamError) runner.halt(error);
      }
    }
  }
}
