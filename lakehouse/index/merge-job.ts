/** One merge of runs into a new run file, as a job of its own: everything it needs, nothing that is shared. */
import { unlink } from 'node:fs/promises';
import { sortEntries } from './entry.ts';
import { createRun, openRun, type FileRun } from './run-file.ts';
import { memorySource, mergeRuns, type MergeSource } from './run-merge.ts';

export interface MergeJob {
  /** File to be made. */
  readonly path: string;
  /** Entries that are in memory only, newer than the files; newest first. `sorted` false: in any order. */
  readonly memory: readonly { readonly entries: Uint32Array; readonly sorted: boolean }[];
  /** Run files, newest first. */
  readonly files: readonly string[];
  /** The new run stands below all others: most keys are in it, and its filter is of no use. */
  readonly undermost: boolean;
  /** Ordinals below `known` that are not among `living` mean files that are gone. */
  readonly known: number;
  readonly living: Uint32Array;
  /** Fences written before this second are forgotten. */
  readonly fenceCutoffSecond: number;
}

/** Entries in the new run; 0: nothing of the sources is of use any more, and there is no file. */
export async function runMergeJob(job: MergeJob): Promise<number> {
  const opened: FileRun[] = [];
  try {
    for (const path of job.files) opened.push(openRun(path));
    const memory = job.memory.map(({ entries, sorted }) => memorySource(sorted ? entries : sortEntries(entries)));
    const sources: MergeSource[] = [...memory, ...opened].filter((source) => source.count > 0);
    const lives = membership(job.living, job.known);
    const rules = {
      keepAll: false,
      keepsRow: (file: number): boolean => file >= job.known || lives(file),
      keepsFence: (second: number): boolean => second >= job.fenceCutoffSecond,
    };
    const total = sources.reduce((sum, source) => sum + source.count, 0);
    const writer = await createRun(job.path, total, !job.undermost);
    let count: number;
    try {
      await mergeRuns(sources, rules, (entries, n) => writer.append(entries, n));
      count = await writer.finish();
    } catch (error) {
      await writer.abort().catch(() => undefined);
      throw error;
    }
    if (count === 0) await unlink(job.path);
    return count;
  } finally {
    for (const run of opened) run.close();
  }
}

function membership(living: Uint32Array, known: number): (file: number) => boolean {
  const bits = new Uint8Array((known + 7) >>> 3);
  for (const file of living) bits[file >>> 3] = (bits[file >>> 3] ?? 0) | (1 << (file & 7));
  return (file) => ((bits[file >>> 3] ?? 0) & (1 << (file & 7))) !== 0;
}
