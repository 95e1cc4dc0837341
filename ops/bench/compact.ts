/** Compaction beside merges: rows rewritten a second, and what a batch costs meanwhile and without it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openMergeTable } from '../../lakehouse/merge/merge-writer.ts';
import type { MergeBatch } from '../../lakehouse/merge/merge.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { batchSource } from './merge-batches.ts';

export interface CompactBenchResult {
  readonly tableRows: number;
  /** Taken by the compaction, and what it wrote for them; files of the batches beside it are in neither. */
  readonly filesRewritten: number;
  readonly filesWritten: number;
  readonly bytesRewritten: number;
  readonly bytesWritten: number;
  readonly rowsPurged: number;
  readonly rewrittenRowsPerSecond: number;
  readonly batchMsAlone: number;
  readonly batchMsBeside: number;
  readonly batchesBeside: number;
  readonly rssBytes: number;
}

const LOAD_FILES = 40;
const BATCHES = 20;
/** As the merge writer compacts by itself. */
const FILE_BYTES = 16 * 1024 * 1024;

export async function benchCompact(tableRows = 1_000_000): Promise<CompactBenchResult> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-compact-'));
  const store = createFileStore(join(folder, 'table'));
  const table = await openMergeTable({ store, indexDir: join(folder, 'index'), autoCompact: null });
  const source = batchSource(tableRows);
  let version = 0n;
  let rssBytes = 0;
  const write = async (batch: MergeBatch): Promise<number> => {
    const from = performance.now();
    const txns = [{ appId: 'bench', version: version++ }];
    await table.commit(await table.prepare(batch), { txns, info: {}, timestampMs: Date.now() });
    rssBytes = Math.max(rssBytes, process.memoryUsage().rss);
    return performance.now() - from;
  };
  const mixed = (): MergeBatch => source.mixed(tableRows, Math.min(8_000, tableRows >> 1), 2_000);
  try {
    const step = Math.ceil(tableRows / LOAD_FILES);
    for (let loaded = 0; loaded < tableRows; loaded += step)
      await write(source.load(Math.min(step, tableRows - loaded)));
    const alone: number[] = [];
    for (let i = 0; i < BATCHES; i++) alone.push(await write(mixed()));
    const from = performance.now();
    let running = true;
    const compacting = table.optimize({ fileBytesMax: FILE_BYTES }).finally(() => (running = false));
    const beside: number[] = [];
    while (running) beside.push(await write(mixed()));
    const done = await compacting;
    const seconds = (performance.now() - from) / 1000;
    return {
      tableRows,
      filesRewritten: done.filesRemoved,
      filesWritten: done.filesAdded,
      bytesRewritten: done.bytesRemoved,
      bytesWritten: done.bytesAdded,
      rowsPurged: done.rowsPurged,
      rewrittenRowsPerSecond: Math.round((tableRows + BATCHES * 2_000) / seconds),
      batchMsAlone: median(alone),
      batchMsBeside: median(beside),
      batchesBeside: beside.length,
      rssBytes,
    };
  } finally {
    await table.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function median(times: readonly number[]): number {
  return Math.round([...times].sort((a, b) => a - b)[times.length >> 1] ?? 0);
}
