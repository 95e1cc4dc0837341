/** The thread of merge-thread.ts. Jobs interleave: a small flush does not wait for a large merge. */
import { collectGarbage } from '../thread/collect-garbage.ts';
import { serveJobs } from '../thread/serve-jobs.ts';
import { runMergeJob, type MergeJob } from './merge-job.ts';

serveJobs(async (job) => ({ value: await runMergeJob(job as MergeJob) }), { afterJob: collectGarbage });
