/** Encoding a batch's data files beside the main thread, which reads from the source and decodes other batches meanwhile. */
import { createIdleTimer } from '../thread/idle-timer.ts';
import { batchBytes, packBatch } from '../table/pack-batch.ts';
import { createThread } from '../thread/thread.ts';
import { runFileJob, type FileBody, type FileJob } from './file-body.ts';

/**
 * `apartBytes` of batches: below this much a file is made in place, for that takes some twenty milliseconds, and a small batch
 * must not wait for a thread to start.
 */
export const APART_BYTES = 2 * 1024 * 1024;

/** One for all tables of the process, so that its memory is that of one file. */
const thread = createThread({ module: './file-worker', from: import.meta.url });

/**
 * @param apartBytes size from which on the other thread makes it; Infinity where this is one already
 * @throws ParquetError PARQUET_ENCODE_FAILED; Error when the thread died: the batch is then tried again
 */
export async function makeFileBody(job: FileJob, apartBytes: number): Promise<FileBody> {
  if (batchBytes(job.batch) < apartBytes) return runFileJob(job);
  // A copy: the batch's own memory may be another batch's before the thread is done with it, if this one is given up.
  const taken = room;
  room = null;
  const { batch, buffer } = packBatch(job.batch, taken);
  const made = (await thread.run({ ...job, batch })) as FileBody;
  room = buffer;
  roomIsIdle.touch();
  return made;
}

/** Memory of the last batch, for the next one: batches follow one another in a load, and what is taken anew each time is cleared, faulted in, and garbage. */
let room: SharedArrayBuffer | null = null;
const ROOM_IDLE_MS = 2_000;
const roomIsIdle = createIdleTimer(ROOM_IDLE_MS, () => (room = null));
