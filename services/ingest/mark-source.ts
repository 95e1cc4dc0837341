/** Where a pipeline's marks come from: the reader's `__progress`, or the ends of foreign topics. Goes on trying until the signal. */
import type { Mark } from '../log/event.ts';
import type { LogReader } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import { followMarks, progressBounds } from '../stream/sources/mark-feed.ts';
import type { Clock } from '../stream/triggers.ts';

export interface MarkSourceOptions {
  readonly reader: LogReader;
  readonly name: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onMark: (mark: Mark, offset: bigint) => Promise<void>;
  /** All marks that came together have been given. */
  readonly onMarks: () => void;
  readonly onFailure: (error: unknown) => void;
}

const RETRY_MS = 500;

/** `first`: offset of the first mark that any table needs; null = all of them. Asked once. */
export async function feedMarks(options: MarkSourceOptions, first: () => Promise<bigint | null>): Promise<void> {
  const { reader, name, clock, signal, onMark, onMarks } = options;
  let next: LogOffset | null = null;
  while (!signal.aborted) {
    try {
      const bounds = await progressBounds(reader, name);
      if (bounds === null) {
        await clock.sleep(RETRY_MS, signal);
        continue;
      }
      next ??= ((await first()) ?? bounds.earliest) as LogOffset;
      // Beyond the end: the marks' topic was made again.
      if (next < bounds.earliest || next > bounds.end) next = bounds.earliest;
      const seen = async (mark: Mark, offset: bigint): Promise<void> => {
        await onMark(mark, offset);
        next = (offset + 1n) as LogOffset;
      };
      await followMarks({ reader, name, from: next, signal, onMark: seen, onBatch: onMarks });
    } catch (error) {
      if (signal.aborted) return;
      options.onFailure(error);
      await clock.sleep(RETRY_MS, signal);
    }
  }
}

/** `look`: gives the cuts that lead to the topics' present ends. `looked` is called after each whole look. */
export async function feedCuts(
  options: Omit<MarkSourceOptions, 'reader' | 'name'>,
  look: () => Promise<readonly Mark[]>,
  looked: () => void,
): Promise<void> {
  const { clock, signal, onMark, onMarks } = options;
  while (!signal.aborted) {
    try {
      const marks = await look();
      for (const mark of marks) await onMark(mark, 0n);
      if (signal.aborted) return;
      looked();
      if (marks.length > 0) onMarks();
    } catch (error) {
      options.onFailure(error);
    }
    await clock.sleep(RETRY_MS, signal);
  }
}
