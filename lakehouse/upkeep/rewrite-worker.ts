/** The thread of rewrite-thread.ts: decodes, joins, encodes and indexes; objects go through the owner's store. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createVectorCache } from '../merge/vector-cache.ts';
import { askedStore } from '../store/asked-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runRewriteJob, type RewriteJob } from './rewrite-job.ts';

/** Column buffers lie outside of the heap that V8 watches: without a word, hundreds of megabytes of them gather. */
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

serveJobs(async (given, ask) => {
  const job = given as RewriteJob;
  const store = askedStore(job.table.uri, ask);
  const tidy: ObjectStore = {
    ...store,
    async put(key, body) {
      await store.put(key, body);
      collectGarbage();
    },
  };
  const bins = await runRewriteJob(job, tidy, createVectorCache());
  const origins = bins.flatMap(({ outputs }) => outputs.flatMap(({ fromFile, fromRow }) => [fromFile, fromRow]));
  // Views of larger buffers are copied; whole ones move.
  const whole = origins.filter((part) => part.byteLength === part.buffer.byteLength);
  return { value: bins, transfer: [...new Set(whole.map((part) => part.buffer as ArrayBuffer))] };
});
