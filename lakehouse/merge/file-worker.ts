/** The thread of file-thread.ts. A batch waits for it, so it runs at the priority of the main thread. */
import { batchBytes } from '../table/pack-batch.ts';
import { createGarbageCount } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runFileJob, type FileJob } from './file-body.ts';

/**
 * The last job. V8 throws the code away that it compiled for a form of objects when none of them is left, and behind a job none
 * would be: half of what is compiled in a load was compiled again.
 */
const kept: { job: FileJob | null } = { job: null };

/** Columns of jobs after which their garbage is collected: a job leaves as much behind as it was given. */
const GARBAGE_BYTES = 32 * 1024 * 1024;
const usedUp = createGarbageCount(GARBAGE_BYTES);

serveJobs(
  async (job) => {
    const { body, stats } = await runFileJob(job as FileJob);
    kept.job = job as FileJob;
    // Whole buffers move; a view's is its neighbours' too.
    const own = body.byteLength === body.buffer.byteLength ? body : new Uint8Array(body);
    return { value: { body: own, stats }, transfer: [own.buffer as ArrayBuffer] };
  },
  { waitedFor: true, afterJob: () => usedUp(kept.job === null ? 0 : batchBytes(kept.job.batch)) },
);
