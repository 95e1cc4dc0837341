/** Rewriting files beside the main thread, so that batches go on meanwhile; one group at a time, whatever the table. */
import type { VectorCache } from '../merge/vector-cache.ts';
import { answerStore, type StoreQuestion } from '../store/asked-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { createThread } from '../thread/thread.ts';
import type { Answer } from '../thread/thread-messages.ts';
import { runRewriteJob, type IndexedBin, type RewriteJob } from './rewrite-job.ts';

const thread = createThread({ module: './rewrite-worker', from: import.meta.url });

export interface RewriteOptions {
  /** In the other thread, or here. */
  readonly apart: boolean;
  /** Of the caller; the other thread reads vectors for itself. */
  readonly vectors: VectorCache;
  readonly signal: AbortSignal | undefined;
}

export async function rewriteApart(
  job: RewriteJob,
  store: ObjectStore,
  { apart, vectors, signal }: RewriteOptions,
): Promise<readonly IndexedBin[]> {
  if (!apart) return runRewriteJob(job, store, vectors, signal);
  const answer = (question: unknown): Promise<Answer> => answerStore(store, question as StoreQuestion);
  return (await thread.run(job, { answer, ...(signal === undefined ? {} : { signal }) })) as readonly IndexedBin[];
}
