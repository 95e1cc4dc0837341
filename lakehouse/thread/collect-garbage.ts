/** Column buffers lie outside of the heap that V8 watches: without a word, hundreds of megabytes of them gather in a thread. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collectGarbage = runInNewContext('gc') as () => void;
