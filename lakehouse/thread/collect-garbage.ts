/** Column buffers lie outside of the heap that V8 watches: without a word, some hundred megabytes of them gather in a thread. */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collectGarbage = runInNewContext('gc') as () => void;

/** Told of the bytes of columns that were used up; collects when there are `bytesMax` of them. */
export function createGarbageCount(bytesMax: number): (bytes: number) => void {
  let gathered = 0;
  return (bytes) => {
    gathered += bytes;
    if (gathered < bytesMax) return;
    gathered = 0;
    collectGarbage();
  };
}

/**
 * Looks, when it is called, at what lies outside of the heap; collects when there are `bytesMax` more than there were at least
 * since the last collection. V8 lets it grow by as much as was left, and that may be much.
 */
export function createGarbageWatch(bytesMax: number): () => void {
  let least = Number.POSITIVE_INFINITY;
  return () => {
    const bytes = getHeapStatistics().external_memory;
    if (bytes < least) least = bytes;
    if (bytes - least < bytesMax) return;
    collectGarbage();
    least = getHeapStatistics().external_memory;
  };
}
