/**
 * The key index: key hash → place and position of its row, or the fence of its delete. A cache of what the table says; it
 * names the table version that it mirrors, and `follow.ts` brings it to the snapshot before use.
 *
 * A log-structured merge: each commit's entries go to a table in memory; when it holds MEMORY_ENTRIES it becomes a sorted
 * file, and files of like size are merged, both in another thread. Runs stand newest first, and the newest run that holds a key
 * holds all its living rows. An entry can be outdated in one way only: its row was deleted (by a vector or with its file) by
 * another writer. The reader of an answer checks that against the snapshot, so foreign deletes need no work here.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ENTRY_WORDS, emptyLookup, type Lookup } from './entry.ts';
import { createPlaces, type HeldPlace } from './held-places.ts';
import { IndexError } from './index-error.ts';
import { loadManifest, newestTruncate, saveManifest, type Manifest, type TruncatePosition } from './manifest.ts';
import { memoryOfTheProcess, type MemoryShare } from './memory-share.ts';
import { mergeApart } from './merge-thread.ts';
import { openRun, type FileRun } from './run-file.ts';
import { createMemoryTable, sortedTable, type MemoryTable } from './memory-table.ts';

/** Entries kept in memory before they go to disk: 10 MB. */
export const MEMORY_ENTRIES = 262_144;
/**
 * A change of so large a part of that stays as it comes, sorted: to look keys up in it is a walk beside them, and to hash its
 * entries would cost more than all its lookups. Smaller ones are hashed, for there would be too many to walk through.
 */
const BULK_PART = 16;
/** Above this much, a commit waits for the disk. */
const MEMORY_ENTRIES_MAX = MEMORY_ENTRIES * 2;
/** An entry, its slot and its links. */
const MEMORY_ENTRY_BYTES = 64;
/** Files of one size class before they are merged. */
const CLASS_RUNS_MAX = 4;

export interface IndexIdentity {
  readonly tableId: string;
  /** `name:type` of each key column, in key order. */
  readonly keyColumns: readonly string[];
}

export interface IndexChange {
  /** Version of the table after this change. */
  readonly version: bigint;
  /** Sorted entries (entry.ts), newer than all before. */
  readonly entries: Uint32Array;
  readonly added: readonly { readonly ordinal: number; readonly path: string }[];
  readonly removed: readonly string[];
  readonly truncate: TruncatePosition | null;
}

export interface KeyIndex {
  /** Table version mirrored, or null when empty (new, of another table, corrupt): then it is to be rebuilt. */
  version(): bigint | null;
  truncate(): TruncatePosition | null;
  pathOf(ordinal: number): string | undefined;
  ordinalOf(path: string): number | undefined;
  paths(): Iterable<string>;
  /** A number for a file to be; it counts once `apply` names it. */
  reserveOrdinal(): number;
  /** Where the next number stands, for threads that number files too: `Atomics.add` to it. */
  ordinalCounter(): SharedArrayBuffer;
  /**
   * Keeps a place between what is in the index now and what comes. A compaction takes it with the snapshot that it reads: its
   * run goes there, below what was written meanwhile, whose keys then need not be taken out of it.
   */
  holdPlace(): HeldPlace;
  /** Says that entries came in another order than commits of this writer: held places are of no use any more. */
  forgetPlaces(): void;
  /** `order`: row numbers in hash order. @throws IndexError INDEX_CORRUPT */
  lookup(hashes: Uint32Array, order: Uint32Array): Lookup;
  /** @throws IndexError INDEX_CORRUPT: nothing was taken over; to be reset */
  apply(change: IndexChange): Promise<void>;
  /**
   * Adds run files built elsewhere (in the index's folder, of different keys) as the newest, or at a held place, and saves.
   * False, and nothing done, when the place was lost: the index is then brought up by following the log.
   * @throws IndexError INDEX_CORRUPT, as apply
   */
  applyRuns(change: Omit<IndexChange, 'entries'>, fileNames: readonly string[], place?: HeldPlace): Promise<boolean>;
  /** Forgets everything, on disk too. */
  reset(): Promise<void>;
  /** Name and path for a run file to be built in the folder. */
  newRunPath(): { readonly name: string; readonly path: string };
  /** Waits for background work, writes what is in memory, and saves. */
  flush(): Promise<void>;
  close(): Promise<void>;
  stats(): IndexStats;
}

export interface IndexStats {
  readonly memoryEntries: number;
  readonly fileEntries: number;
  readonly runs: number;
  readonly residentBytes: number;
}

export interface IndexOptions {
  /** Fences written before this second (since 1970) may be forgotten. */
  readonly fenceCutoffSecond: () => number;
  readonly memoryEntries?: number;
  /** What it keeps in memory counts there; by default in that of the process. */
  readonly memory?: MemoryShare;
}

/** @throws IndexError INDEX_FORMAT_NEWER; a corrupt index opens empty */
export async function openKeyIndex(dir: string, identity: IndexIdentity, options: IndexOptions): Promise<KeyIndex> {
  await mkdir(dir, { recursive: true });
  const loaded = await loadUsable(dir, identity);
  const index = indexOver(dir, identity, options, loaded?.manifest ?? null, loaded?.runs ?? []);
  await removeStrays(dir, new Set(loaded?.manifest.runs ?? []));
  return index;
}

async function loadUsable(
  dir: string,
  identity: IndexIdentity,
): Promise<{ manifest: Manifest; runs: FileRun[] } | null> {
  const runs: FileRun[] = [];
  try {
    const manifest = await loadManifest(dir);
    if (manifest === null || manifest.tableId !== identity.tableId) return null;
    if (manifest.keyColumns.join('\n') !== identity.keyColumns.join('\n')) return null;
    for (const name of manifest.runs) runs.push(openRun(join(dir, name)));
    return { manifest, runs };
  } catch (error) {
    for (const run of runs) run.close();
    if (error instanceof IndexError && error.code === 'INDEX_FORMAT_NEWER') throw error;
    if (error instanceof IndexError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

async function removeStrays(dir: string, named: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(dir))
    if ((name.endsWith('.run') || name.endsWith('.tmp')) && !named.has(name))
      await rm(join(dir, name), { force: true });
}

function indexOver(
  dir: string,
  identity: IndexIdentity,
  options: IndexOptions,
  manifest: Manifest | null,
  opened: readonly FileRun[],
): KeyIndex {
  const memoryEntriesMax = options.memoryEntries ?? MEMORY_ENTRIES;
  let version = manifest?.tableVersion ?? null;
  let truncate = manifest?.truncate ?? null;
  const counter = new Uint32Array(new SharedArrayBuffer(4));
  counter[0] = manifest?.nextOrdinal ?? 0;
  const pathByOrdinal = new Map(manifest?.files ?? []);
  const ordinalByPath = new Map([...pathByOrdinal].map(([ordinal, path]) => [path, ordinal]));
  /** Newest first: the table that changes go to, then those that are on their way to disk. */
  let memory: MemoryTable[] = [createMemoryTable()];
  let runs: FileRun[] = [...opened];
  const places = createPlaces<MemoryTable | FileRun>();
  let flushLine: Promise<void> = Promise.resolve();
  let mergeLine: Promise<void> = Promise.resolve();
  let saveLine: Promise<void> = Promise.resolve();
  let flushing = 0;
  let merging = false;
  /** Background work begun before a reset comes to nothing. */
  let resets = 0;
  let failure: Error | null = null;
  /** What the runs on disk mirror; later commits are in memory only and are followed again after a restart. */
  let lastSaved: Manifest | null = manifest;

  const memoryCount = (): number => memory.reduce((sum, table) => sum + table.count(), 0);
  const share = options.memory ?? memoryOfTheProcess;
  const leaveShare = share.join({
    held: () => (flushing > 0 ? 0 : memoryCount()),
    flush: async () => flush(),
  });
  const newRunPath = (): { name: string; path: string } => {
    const name = `${randomUUID()}.run`;
    return { name, path: join(dir, name) };
  };

  function currentManifest(): Manifest | null {
    if (version === null) return null;
    return {
      tableId: identity.tableId,
      keyColumns: identity.keyColumns,
      tableVersion: version,
      nextOrdinal: 0,
      truncate,
      files: [...pathByOrdinal],
      runs: [],
    };
  }
  /** One after the other, each with what holds when its turn comes: an older one never ends later. */
  function save(): Promise<void> {
    const write = async (): Promise<void> => {
      if (lastSaved === null) return;
      const names = runs.map((run) => run.path.slice(dir.length + 1));
      // Runs may name ordinals younger than the version that they mirror: no number is given twice.
      await saveManifest(dir, { ...lastSaved, nextOrdinal: Atomics.load(counter, 0), runs: names });
    };
    return (saveLine = saveLine.then(write, write));
  }

  function register(change: Omit<IndexChange, 'entries'>): void {
    version = change.version;
    truncate = newestTruncate(truncate, change.truncate);
    for (const path of change.removed) {
      const ordinal = ordinalByPath.get(path);
      if (ordinal === undefined) continue;
      ordinalByPath.delete(path);
      pathByOrdinal.delete(ordinal);
    }
    for (const { ordinal, path } of change.added) {
      const earlier = ordinalByPath.get(path);
      if (earlier !== undefined) pathByOrdinal.delete(earlier);
      ordinalByPath.set(path, ordinal);
      pathByOrdinal.set(ordinal, path);
    }
  }

  /** Writes tables and files (newest first) as one run; null when nothing of them is of use any more. */
  async function writeRun(tables: readonly MemoryTable[], files: readonly FileRun[]): Promise<FileRun | null> {
    const full = tables.filter((table) => table.count() > 0);
    if (full.length + files.length === 0) return null;
    const { path } = newRunPath();
    const job = {
      path,
      memory: full.map((table) => table.entries()),
      files: files.map((run) => run.path),
      undermost: files.length > 0 && files.at(-1) === runs.at(-1),
      known: Atomics.load(counter, 0),
      living: Uint32Array.from(pathByOrdinal.keys()),
      fenceCutoffSecond: options.fenceCutoffSecond(),
    };
    const count = await mergeApart(
      job,
      files.reduce((sum, run) => sum + run.count, 0),
    );
    return count === 0 ? null : openRun(path);
  }

  /** Replaces neighbouring files by their merge. */
  async function mergeFiles(parts: readonly FileRun[]): Promise<void> {
    const epoch = resets;
    const merged = await writeRun([], parts);
    if (epoch !== resets) return discard(merged);
    const at = runs.indexOf(parts[0] as FileRun);
    places.replace(parts, merged ?? runs[at + parts.length] ?? null);
    runs = [...runs.slice(0, at), ...(merged === null ? [] : [merged]), ...runs.slice(at + parts.length)];
    await save();
    for (const part of parts) await discard(part);
  }

  async function discard(run: FileRun | null): Promise<void> {
    if (run === null) return;
    run.close();
    await rm(run.path, { force: true });
  }

  async function flushMemory(): Promise<void> {
    const epoch = resets;
    const frozen = memory;
    const state = currentManifest();
    memory = [createMemoryTable(), ...frozen];
    const groups = places.cut(frozen);
    const written: (FileRun | null)[] = [];
    for (const group of groups) written.push(await writeRun(group, []));
    if (epoch !== resets) {
      for (const run of written) await discard(run);
      return;
    }
    // Oldest first, so that a place finds the layer below it. Later changes went to newer tables meanwhile.
    for (let i = groups.length - 1; i >= 0; i--) {
      const run = written[i] ?? null;
      if (run !== null) runs = [run, ...runs];
      places.replace(groups[i] ?? [], runs[0] ?? null);
    }
    memory = memory.filter((table) => !frozen.includes(table));
    lastSaved = state;
    await save();
  }

  function flush(): Promise<void> {
    flushing++;
    flushLine = flushLine
      .then(flushMemory)
      .catch(fail)
      .finally(() => {
        flushing--;
        startMerges();
      });
    return flushLine;
  }
  function startMerges(): void {
    if (merging) return;
    merging = true;
    mergeLine = mergeWhileDue()
      .catch(fail)
      .finally(() => {
        merging = false;
      });
  }
  async function mergeWhileDue(): Promise<void> {
    for (;;) {
      let parts: readonly FileRun[] | null = null;
      for (const group of places.cut(runs)) parts ??= pickMerge(group);
      if (parts === null) return;
      await mergeFiles(parts);
    }
  }
  function fail(error: unknown): void {
    failure ??= isGone(error)
      ? new IndexError('INDEX_CORRUPT', dir, 'a file of it is gone: does another process write in this folder?', {
          cause: error,
        })
      : error instanceof Error
        ? error
        : new Error(String(error));
  }
  /** @param damage `keep`: a damaged index is told of where it is next written, for only there it may be emptied. */
  function throwFailure(damage: 'throw' | 'keep' = 'throw'): void {
    if (failure === null || (damage === 'keep' && failure instanceof IndexError)) return;
    const error = failure;
    failure = null;
    throw error;
  }

  return {
    version: () => version,
    truncate: () => truncate,
    pathOf: (ordinal) => pathByOrdinal.get(ordinal),
    ordinalOf: (path) => ordinalByPath.get(path),
    paths: () => ordinalByPath.keys(),
    reserveOrdinal: () => Atomics.add(counter, 0, 1),
    ordinalCounter: () => counter.buffer,
    holdPlace() {
      if ((memory[0]?.count() ?? 0) > 0) memory = [createMemoryTable(), ...memory];
      return places.hold(memory[1] ?? runs[0] ?? null);
    },
    forgetPlaces: () => places.forget(),
    lookup: (hashes, order) => lookupIn(memory, runs, hashes, order),
    async apply(change) {
      throwFailure();
      register(change);
      if (change.entries.length >= (memoryEntriesMax * ENTRY_WORDS) / BULK_PART) {
        const [newest, ...older] = memory;
        // An empty table is no place's layer (see holdPlace).
        memory =
          newest?.count() === 0
            ? [newest, sortedTable(change.entries), ...older]
            : [createMemoryTable(), sortedTable(change.entries), ...memory];
      } else memory[0]?.add(change.entries);
      const count = memoryCount();
      if (count > memoryEntriesMax && flushing === 0) void flush();
      if (count > Math.max(MEMORY_ENTRIES_MAX, memoryEntriesMax * 2)) {
        await flushLine;
        throwFailure();
      }
      await share.relieve();
    },
    async applyRuns(change, fileNames, place) {
      await flush();
      throwFailure();
      if (place?.valid() === false) return false;
      register(change);
      const added = fileNames.map((name) => openRun(join(dir, name)));
      const older = place === undefined ? (runs[0] ?? null) : (places.olderThan(place) as FileRun | null);
      const at = older === null ? runs.length : runs.indexOf(older);
      runs = [...runs.slice(0, at), ...added, ...runs.slice(at)];
      lastSaved = currentManifest();
      await save();
      startMerges();
      return true;
    },
    async reset() {
      await flushLine;
      // Read only now: a flush that ends begins the merges that it made due.
      await mergeLine;
      failure = null;
      resets++;
      places.forget();
      for (const run of runs) run.close();
      runs = [];
      memory = [createMemoryTable()];
      version = null;
      truncate = null;
      lastSaved = null;
      pathByOrdinal.clear();
      ordinalByPath.clear();
      await saveLine;
      await rm(join(dir, 'manifest.json'), { force: true });
      await removeStrays(dir, new Set());
    },
    newRunPath,
    async flush() {
      await flush();
      await mergeLine;
      throwFailure('keep');
    },
    async close() {
      leaveShare();
      await flush();
      await mergeLine;
      for (const run of runs) run.close();
      runs = [];
      throwFailure('keep');
    },
    stats: () => ({
      memoryEntries: memoryCount(),
      fileEntries: runs.reduce((sum, run) => sum + run.count, 0),
      runs: runs.length,
      residentBytes: runs.reduce((sum, run) => sum + run.residentBytes, memoryCount() * MEMORY_ENTRY_BYTES),
    }),
  };
}

const isGone = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

function lookupIn(
  memory: readonly MemoryTable[],
  runs: readonly FileRun[],
  hashes: Uint32Array,
  order: Uint32Array,
): Lookup {
  const into = emptyLookup(order.length);
  const pending = order.slice();
  let left = pending.length;
  for (const table of memory) left = table.find(hashes, pending, left, into);
  const largest = runs.reduce((most, run) => Math.max(most, run.count), 0);
  for (const run of runs) {
    if (left === 0) break;
    // Most keys of a batch are old ones, and those are in the largest run: there the filter would only cost.
    left = run.find(hashes, pending, left, into, run.count < largest);
  }
  return into;
}

/**
 * Size-tiered: the newest runs that fall in one size class (powers of four) once there are CLASS_RUNS_MAX of them; and all
 * of them once the newer ones together outweigh half of the oldest, so that dead entries and filters stay bounded.
 */
export function pickMerge<T extends { readonly count: number }>(files: readonly T[]): readonly T[] | null {
  const oldest = files.at(-1);
  if (oldest === undefined || files.length < 2) return null;
  const newer = files.slice(0, -1);
  if (newer.reduce((sum, run) => sum + run.count, 0) * 2 > oldest.count) return files;
  for (let end = newer.length; end >= CLASS_RUNS_MAX; end--) {
    const sizeClass = Math.max(...newer.slice(0, end).map((run) => Math.floor(Math.log2(run.count + 1) / 2)));
    const same = newer.slice(0, end).filter((run) => Math.floor(Math.log2(run.count + 1) / 2) === sizeClass);
    if (same.length >= CLASS_RUNS_MAX) return newer.slice(0, end);
  }
  return null;
}
