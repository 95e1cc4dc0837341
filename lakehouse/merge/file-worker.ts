/** The thread of file-thread.ts. A batch waits for it, so it runs at the priority of the main thread. */
import { collectGarbage } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runFileJob, type FileJob } from './file-body.ts';

serveJobs(
  async (job) => {
    const { body, stats } = await runFileJob(job as FileJob);
    // Whole buffers move; a view's is its neighbours' too.
    const own = body.byteLength === body.buffer.byteLength ? body : new Uint8Array(body);
    return { value: { body: own, stats }, transfer: [own.buffer as ArrayBuffer] };
  },
  { waitedFor: true, afterJob: collectGarbage },
);
