/** Opening a table: by its number of commits (with the checkpoints that a writer leaves), and by its number of files. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { serializeCommit } from '../../lakehouse/table/action-json.ts';
import { NO_ACTIONS, newAdd, type AddFile } from '../../lakehouse/table/actions.ts';
import { writeCheckpoint } from '../../lakehouse/table/checkpoint.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import { commitKey } from '../../lakehouse/table/log-files.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { BENCH_SCHEMA } from './merge-batches.ts';

export interface OpenBenchOptions {
  /** Commits and files of each table; default 100, 1,000 and 10,000 commits, and 300,000 files in three. */
  readonly tables?: readonly { readonly commits: number; readonly filesACommit: number }[];
}

export interface OpenBenchResult {
  readonly commits: number;
  readonly files: number;
  /** Opening from nothing, the best of three. */
  readonly openMs: number;
  readonly checkpointMs: number;
  readonly checkpointBytes: number;
  /** Largest resident set seen while the checkpoint was written. */
  readonly rssBytes: number;
}

const TABLES = [
  { commits: 100, filesACommit: 1 },
  { commits: 1_000, filesACommit: 1 },
  { commits: 10_000, filesACommit: 1 },
  { commits: 3, filesACommit: 100_000 },
];
/** What follows the newest checkpoint: as many commits as a merge writer lets gather. */
const SINCE_CHECKPOINT = 49;
const ROUNDS = 3;

export async function benchOpen(options: OpenBenchOptions = {}): Promise<OpenBenchResult[]> {
  const results: OpenBenchResult[] = [];
  for (const { commits, filesACommit } of options.tables ?? TABLES)
    results.push(await benchTable(commits, filesACommit));
  return results;
}

async function benchTable(commits: number, filesACommit: number): Promise<OpenBenchResult> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-open-'));
  try {
    const store = createFileStore(folder);
    await createTable(store, { schema: BENCH_SCHEMA });
    let checkpointMs = 0;
    let checkpointBytes = 0;
    let rssBytes = 0;
    const checkpointAt = Math.max(1, commits - SINCE_CHECKPOINT);
    for (let version = 1; version <= commits; version++) {
      const adds = Array.from({ length: filesACommit }, (_, i) => fileOf(version, i));
      // Put plainly: the fsync of ten thousand commits is not what is measured.
      await store.put(commitKey(BigInt(version)), serializeCommit({ ...NO_ACTIONS, commitInfo: { version }, adds }));
      if (version !== checkpointAt && !(filesACommit > 1 && version === commits)) continue;
      const whole = await openSnapshot(store, { tombstones: true });
      const watch = setInterval(() => (rssBytes = Math.max(rssBytes, process.memoryUsage().rss)), 5);
      const from = performance.now();
      checkpointBytes = (await writeCheckpoint(whole)).sizeBytes;
      checkpointMs = performance.now() - from;
      clearInterval(watch);
      rssBytes = Math.max(rssBytes, process.memoryUsage().rss);
    }
    let openMs = Infinity;
    let files = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const from = performance.now();
      files = (await openSnapshot(store)).files.count;
      openMs = Math.min(openMs, performance.now() - from);
    }
    const rounded = { openMs: Math.round(openMs), checkpointMs: Math.round(checkpointMs) };
    return { commits, files, ...rounded, checkpointBytes, rssBytes };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function fileOf(version: number, i: number): AddFile {
  const n = version * 1_000_000 + i;
  return newAdd({
    path: `part-${String(n).padStart(12, '0')}.snappy.parquet`,
    partitionValues: {},
    size: 1_000_000n,
    modificationTime: 1_700_000_000_000n,
    dataChange: true,
    stats: `{"numRecords":1000,"minValues":{"id":${n}},"maxValues":{"id":${n + 999}},"nullCount":{"id":0}}`,
  });
}
