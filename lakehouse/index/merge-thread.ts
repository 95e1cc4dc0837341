/** Merges of index runs beside the main thread: ten million entries take seconds, and batches do not wait for them. */
import { createThread } from '../thread/thread.ts';
import { runMergeJob, type MergeJob } from './merge-job.ts';
import { ENTRY_WORDS } from './entry.ts';

/** Below this many entries the work is done in place: some ten milliseconds, less than handing it over costs. */
const APART_ENTRIES = 40_000;
const JOBS_MAX = 8;

/** One for all indexes of the process. */
const thread = createThread({ module: './merge-worker', from: import.meta.url, jobsMax: JOBS_MAX });

/** @param fileEntries entries of the job's files together */
export async function mergeApart(job: MergeJob, fileEntries: number): Promise<number> {
  const inMemory = job.memory.reduce((sum, { entries }) => sum + entries.length / ENTRY_WORDS, 0);
  if (inMemory + fileEntries < APART_ENTRIES) return runMergeJob(job);
  // Moved, not copied, where the entries are a copy already.
  const transfer = job.memory.filter(({ sorted }) => !sorted).map(({ entries }) => entries.buffer as ArrayBuffer);
  return (await thread.run(job, { transfer })) as number;
}
