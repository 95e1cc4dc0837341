/** The thread of rewrite-thread.ts: decodes, joins, encodes and indexes; objects go through the owner's store. */
import { createVectorCache } from '../merge/vector-cache.ts';
import { askedStore } from '../store/asked-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { collectGarbage, createGarbageCount } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runRewriteJob, type RewriteJob } from './rewrite-job.ts';

/** Bytes read after which their garbage is collected: each becomes some ten of columns. */
const READ_BYTES = 1024 * 1024;

serveJobs(async (given, ask) => {
  const job = given as RewriteJob;
  const store = askedStore(job.table.uri, ask);
  const usedUp = createGarbageCount(READ_BYTES);
  const tidy: ObjectStore = {
    ...store,
    async get(key, range) {
      const got = await store.get(key, range);
      usedUp(got.length);
      return got;
    },
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
