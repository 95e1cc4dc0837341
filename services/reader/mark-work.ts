/** What is written at the place of a mark in the stream. */
import type { WatermarkWork } from './message-pump.ts';

export interface MarkWork<T> {
  /** Rows that will be written. */
  readonly rows: number;
  /** Asked when the mark comes, and again when its rows are written: the append in between takes its time. */
  readonly isValid: () => boolean;
  /** What whoever waits is told when nothing is written. */
  readonly otherwise: T;
  /** Asked while the stream stands at the mark; false = nothing is written. */
  readonly ready?: () => Promise<boolean>;
  readonly write: () => { readonly outcome: T; readonly lastOrd: number };
}

/** @param waiting whoever is to be told when the reader stops before anything was written */
export function workAtMark<T>(
  { rows, isValid, otherwise, ready, write }: MarkWork<T>,
  settle: (value: T) => void,
  waiting: Set<() => void>,
): WatermarkWork {
  const giveUp = (): void => {
    waiting.delete(giveUp);
    settle(otherwise);
  };
  if (!isValid()) {
    giveUp();
    return null;
  }
  waiting.add(giveUp);
  return {
    rows,
    ...(ready === undefined
      ? {}
      : {
          async ready() {
            const isReady = await ready();
            if (!isReady) giveUp();
            return isReady;
          },
        }),
    write() {
      if (!isValid()) {
        giveUp();
        return 0;
      }
      waiting.delete(giveUp);
      const { outcome, lastOrd } = write();
      settle(outcome);
      return lastOrd;
    },
  };
}
