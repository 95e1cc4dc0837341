/**
 * A user's own function as a sink: a module (TypeScript or JavaScript) whose export `foreachBatch` is called with every
 * batch, `(batch, batchId) => Promise<void>`, just as the merge sink is.
 */
import { pathToFileURL } from 'node:url';
import { resolve } from 'node:path';
import type { BatchSink, StreamBatch } from '../sink.ts';
import { StreamError } from '../stream-error.ts';

export const FOREACH_EXPORT = 'foreachBatch';

/**
 * `importModule` for files that Node itself cannot read (TypeScript on Node 20).
 * @throws StreamError SINK_INVALID when the module cannot be loaded or has no such function
 */
export async function loadForeachBatch(
  path: string,
  importModule: (url: string) => Promise<unknown> = (url) => import(url),
): Promise<BatchSink> {
  let loaded: Record<string, unknown>;
  try {
    loaded = (await importModule(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (cause) {
    throw new StreamError(
      'SINK_INVALID',
      `the module ${path} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      'correct stream.foreachBatch; a TypeScript module needs a loader (node --import tsx) or to be compiled',
      { cause },
    );
  }
  const found = loaded[FOREACH_EXPORT];
  if (typeof found !== 'function')
    throw new StreamError(
      'SINK_INVALID',
      `the module ${path} exports no function named ${FOREACH_EXPORT}`,
      `export async function ${FOREACH_EXPORT}(batch, batchId) { … }`,
    );
  return named(path, found as BatchSink);
}

/** A failure of the user's code stops its query by name; the batch comes again once it is resumed or restarted. */
function named(path: string, sink: BatchSink): BatchSink {
  return async (batch: StreamBatch, batchId) => {
    try {
      await sink(batch, batchId);
    } catch (cause) {
      throw new StreamError(
        'SINK_FAILED',
        `${path}: ${FOREACH_EXPORT} failed on batch ${batchId} of ${batch.queryName}: ${cause instanceof Error ? cause.message : String(cause)}`,
        'mend the function or what it writes to; the same batch is given to it again',
        { cause },
      );
    }
  };
}
