/** A group of bins rewritten, as a job of its own: in the caller's thread or in another one. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { createRunBuilder, type RunBuilder } from '../index/run-builder.ts';
import type { FileSettings } from '../merge/data-files.ts';
import type { VectorCache } from '../merge/vector-cache.ts';
import type { ObjectStore } from '../store/store.ts';
import type { MetadataAction } from '../table/actions.ts';
import type { StructType } from '../table/schema.ts';
import type { Bin } from './compact-plan.ts';
import { rewriteBin, type RewrittenBin } from './rewrite-bin.ts';
import type { RowOrder } from './row-order.ts';

export interface RewriteJob {
  readonly table: {
    readonly uri: string;
    readonly version: bigint;
    readonly metadata: MetadataAction;
    readonly schema: StructType;
  };
  readonly bins: readonly Bin[];
  readonly settings: Pick<FileSettings, 'codec' | 'fileRowsMax' | 'fileBytesMax' | 'nowMs'>;
  readonly order: RowOrder | null;
  /** Where rows are indexed: the index's folder, and its counter of file ordinals. */
  readonly index: {
    readonly folder: string;
    readonly keyColumns: readonly string[];
    readonly counter: SharedArrayBuffer;
  } | null;
}

export interface IndexedBin extends RewrittenBin {
  /** Run file in the index's folder with an entry for each row written; null where rows are not indexed. */
  readonly run: string | null;
}

/** Index entries sorted at a time: 8 MB, and as much again for the sorted ones. */
const CHUNK_ENTRIES = 200_000;

export async function runRewriteJob(
  job: RewriteJob,
  store: ObjectStore,
  vectors: VectorCache,
  signal?: AbortSignal,
): Promise<readonly IndexedBin[]> {
  const { table, index } = job;
  const counter = index === null ? null : new Uint32Array(index.counter);
  const settings: FileSettings = {
    ...job.settings,
    store,
    metadata: table.metadata,
    schema: table.schema,
    reserveOrdinal: counter === null ? null : () => Atomics.add(counter, 0, 1),
    dataChange: false,
    apartBytes: Number.POSITIVE_INFINITY,
  };
  const bins: IndexedBin[] = [];
  for (const bin of job.bins) {
    signal?.throwIfAborted();
    const builder =
      index === null ? null : createRunBuilder({ newRunPath: () => newRunPath(index.folder) }, CHUNK_ENTRIES);
    try {
      const rewritten = await rewriteBin(
        {
          snapshot: { store, version: table.version, metadata: table.metadata },
          settings,
          vectors,
          keyColumns: index?.keyColumns ?? null,
          order: job.order,
          onEntries: async (entries) => builder?.add(entries),
        },
        bin,
      );
      bins.push({ ...rewritten, run: await finishRun(builder) });
    } finally {
      await builder?.dispose();
    }
  }
  return bins;
}

async function finishRun(builder: RunBuilder | null): Promise<string | null> {
  return builder === null ? null : builder.finishFile();
}

function newRunPath(folder: string): { name: string; path: string } {
  const name = `${randomUUID()}.run`;
  return { name, path: join(folder, name) };
}
