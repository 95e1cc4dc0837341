/** Sorted runs of any length from unsorted entries, within a bound of memory: sorted chunks on disk, then one merge. */
import { unlink } from 'node:fs/promises';
import { ENTRY_WORDS, sortEntries } from './entry.ts';
import type { KeyIndex } from './key-index.ts';
import { createRun, openRun, type FileRun } from './run-file.ts';
import { memorySource, mergeRuns, type MergeSource } from './run-merge.ts';

/** Entries sorted in memory at a time: 40 MB. */
const CHUNK_ENTRIES = 1_000_000;

export type BuiltRun =
  | { readonly kind: 'memory'; readonly entries: Uint32Array }
  | { readonly kind: 'file'; readonly name: string };

export interface RunBuilder {
  add(entries: Uint32Array): Promise<void>;
  finish(): Promise<BuiltRun>;
  /** The same, always as a file; its name, or null when there is no entry. */
  finishFile(): Promise<string | null>;
  /** Removes what is left of unfinished work. */
  dispose(): Promise<void>;
}

export function createRunBuilder(index: Pick<KeyIndex, 'newRunPath'>, chunkEntries = CHUNK_ENTRIES): RunBuilder {
  let pending: Uint32Array[] = [];
  let pendingWords = 0;
  const chunks: string[] = [];

  function sortedChunk(): Uint32Array {
    const all = new Uint32Array(pendingWords);
    let at = 0;
    for (const part of pending) {
      all.set(part, at);
      at += part.length;
    }
    pending = [];
    pendingWords = 0;
    return sortEntries(all);
  }
  async function spill(): Promise<void> {
    const entries = sortedChunk();
    const { path } = index.newRunPath();
    chunks.push(path);
    const writer = await createRun(path, entries.length / ENTRY_WORDS);
    await writer.append(entries, entries.length / ENTRY_WORDS);
    await writer.finish();
  }

  async function finish(): Promise<BuiltRun> {
    const rest = sortedChunk();
    if (chunks.length === 0) return { kind: 'memory', entries: rest };
    const runs: FileRun[] = chunks.map((path) => openRun(path));
    try {
      return { kind: 'file', name: await writeFile([...runs, memorySource(rest)]) };
    } finally {
      for (const run of runs) run.close();
    }
  }
  async function writeFile(sources: readonly MergeSource[]): Promise<string> {
    const { name, path } = index.newRunPath();
    const writer = await createRun(
      path,
      sources.reduce((sum, source) => sum + source.count, 0),
    );
    const keepAll = { keepsRow: () => true, keepsFence: () => true, keepAll: true };
    await mergeRuns(sources, keepAll, (entries, count) => writer.append(entries, count));
    await writer.finish();
    return name;
  }

  return {
    async add(entries) {
      if (entries.length === 0) return;
      pending.push(entries);
      pendingWords += entries.length;
      if (pendingWords >= chunkEntries * ENTRY_WORDS) await spill();
    },
    finish,
    async finishFile() {
      const built = await finish();
      if (built.kind === 'file') return built.name;
      return built.entries.length === 0 ? null : writeFile([memorySource(built.entries)]);
    },
    async dispose() {
      for (const path of chunks) await unlink(path).catch(() => undefined);
    },
  };
}
