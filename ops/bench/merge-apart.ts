/**
 * The merge benchmark, each table size in a process of its own: what one size leaves behind is not counted as the next one's
 * memory, and the process is started with the settings of the C library's allocator that `sluice` and its image start with.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { benchMerge, type MergeBenchOptions, type MergeBenchResult } from './merge.ts';

/**
 * Without them glibc keeps what a thread freed in an arena of that thread, and lets every buffer below 32 MB go there once one
 * of that size was freed: a process then holds about twice what it uses. Another C library does not read them.
 */
export const ALLOCATOR = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '1048576' } as const;

type Message = { readonly progress: string } | { readonly results: MergeBenchResult[] };

export async function benchMergeApart(
  sizes: readonly number[],
  { progress, ...options }: Omit<MergeBenchOptions, 'tableRows'>,
): Promise<MergeBenchResult[]> {
  const results: MergeBenchResult[] = [];
  for (const size of sizes) results.push(...(await runApart({ ...options, tableRows: [size] }, progress)));
  return results;
}

function runApart(options: MergeBenchOptions, progress: MergeBenchOptions['progress']): Promise<MergeBenchResult[]> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)], {
      env: { ...process.env, ...ALLOCATOR },
      execArgv: import.meta.url.endsWith('.ts') ? ['--import', 'tsx'] : [],
    });
    child.on('message', (message: Message) => {
      if ('progress' in message) progress?.(message.progress);
      else resolve(message.results);
    });
    child.on('error', reject);
    child.on('exit', (code, signal) => reject(new Error(`the benchmark's process ended with ${signal ?? code}`)));
  });
}

const [, script, given] = process.argv;
if (process.send !== undefined && script === fileURLToPath(import.meta.url)) {
  const send = (message: Message): void => void process.send?.(message);
  const options = JSON.parse(given ?? '{}') as MergeBenchOptions;
  send({ results: await benchMerge({ ...options, progress: (line) => send({ progress: line }) }) });
  process.disconnect();
}
