/** The thread of rewrite-thread.ts: decodes, joins, encodes and indexes; objects go through the owner's store. */
import { createVectorCache } from '../merge/vector-cache.ts';
import { askedStore } from '../store/asked-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { collectGarbage } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runRewriteJob, type RewriteJob } from './rewrite-job.ts';

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
