/** Column buffers lie outside of the heap that V8 watches: without a word, some hundred megabytes of them gather in a thread. */
import { setFlagsFromString } from 'node:v8';
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
