/** The thread of file-thread.ts. A batch waits for it, so it runs at the priority of the main thread. */
import { collectGarbage } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runFileJob } from './file-body.ts';
import type { FileJobApart } from './file-thread.ts';

/**
 * The last job, whose columns' memory has moved away with its result. V8 throws the code away that it compiled for a form of
 * objects when none of them is left, and behind a job none would be: half of what is compiled in a load was compiled again.
 */
const kept: { job: unknown } = { job: null };

serveJobs(
  async (job) => {
    const { room } = job as FileJobApart;
    const { body, stats } = await runFileJob(job as FileJobApart);
    kept.job = job;
    // Whole buffers move; a view's is its neighbours' too.
    const own = body.byteLength === body.buffer.byteLength ? body : new Uint8Array(body);
    return { value: { body: own, stats, room }, transfer: [own.buffer as ArrayBuffer, room] };
  },
  { waitedFor: true, afterJob: collectGarbage },
);
