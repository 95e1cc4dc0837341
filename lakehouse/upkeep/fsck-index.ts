/**
 * The key index against its table, both ways: each living row is found under its key at its place and position, and nothing
 * else that the index takes for a living row is there. Reads only; the index is checked as it lies on disk, at the version
 * that it mirrors. What is wrong with it can be rebuilt from the table (`rebuildIndex`).
 */
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { ENTRY_WORDS, FENCE, FOUND_WORDS, emptyLookup, type Lookup } from '../index/entry.ts';
import { IndexError } from '../index/index-error.ts';
import { HASH_WORDS, sortStrided } from '../index/key-hash.ts';
import { openKeyIndex } from '../index/key-index.ts';
import { loadManifest, type Manifest } from '../index/manifest.ts';
import { openRun, type FileRun } from '../index/run-file.ts';
import { mergeRuns } from '../index/run-merge.ts';
import { assertKeyColumns, fileEntries } from '../merge/file-entries.ts';
import { followTable } from '../merge/follow.ts';
import { NO_ROWS, createVectorCache, type VectorCache } from '../merge/vector-cache.ts';
import type { ObjectStore } from '../store/store.ts';
import type { AddFile } from '../table/actions.ts';
import { canonicalPath } from '../table/file-path.ts';
import { containsRow, type RowSet } from '../table/row-bitmap.ts';
import { openSnapshot, type Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';

export type IndexFindingKind = 'index-corrupt' | 'index-ahead' | 'index-lacks' | 'index-strays';

export interface IndexFinding {
  readonly kind: IndexFindingKind;
  /** Path of the data file as in the log, or of the index's own file. */
  readonly file: string;
  readonly message: string;
}

export interface IndexCheck {
  /** Null: there is none here, so there is nothing that could be wrong. */
  readonly version: bigint | null;
  readonly rowsChecked: number;
  readonly findings: readonly IndexFinding[];
  /** Why it was not checked against rows; null when it was. */
  readonly skipped: string | null;
}

const REBUILD = 'rebuild it with --repair';

/** @throws TableError; StoreError; IndexError INDEX_FORMAT_NEWER */
export async function checkIndex(store: ObjectStore, folder: string, signal?: AbortSignal): Promise<IndexCheck> {
  const runs: FileRun[] = [];
  try {
    const manifest = await loadManifest(folder);
    if (manifest === null) return { version: null, rowsChecked: 0, findings: [], skipped: null };
    for (const name of manifest.runs) runs.push(openRun(join(folder, name)));
    return await checkOpened(store, folder, manifest, runs, signal);
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!missing && !(error instanceof IndexError && error.code === 'INDEX_CORRUPT')) throw error;
    const file = error instanceof IndexError ? error.path : ((error as NodeJS.ErrnoException).path ?? folder);
    const what = missing ? 'a run of the index is gone' : (error as Error).message;
    const finding: IndexFinding = { kind: 'index-corrupt', file, message: `${what}; ${REBUILD}` };
    return { version: null, rowsChecked: 0, findings: [finding], skipped: null };
  } finally {
    for (const run of runs) run.close();
  }
}

async function checkOpened(
  store: ObjectStore,
  folder: string,
  manifest: Manifest,
  runs: readonly FileRun[],
  signal: AbortSignal | undefined,
): Promise<IndexCheck> {
  const version = manifest.tableVersion;
  const none = { version, rowsChecked: 0, findings: [], skipped: null };
  let snapshot: Snapshot;
  try {
    snapshot = await openSnapshot(store, { version });
  } catch (error) {
    if (!(error instanceof TableError) || error.code !== 'VERSION_NOT_FOUND') throw error;
    const newest = (await openSnapshot(store)).version;
    if (newest > version)
      return { ...none, skipped: `the log of version ${version}, which the index mirrors, is gone` };
    const message = `the index mirrors version ${version}, the table is at ${newest}: another table, or one set back; ${REBUILD}`;
    return { ...none, findings: [{ kind: 'index-ahead', file: folder, message }] };
  }
  if (snapshot.metadata.id !== manifest.tableId)
    return { ...none, skipped: 'the index is of another table that stood here; it is rebuilt at its next use' };
  return compare(snapshot, manifest, runs, signal);
}

async function compare(
  snapshot: Snapshot,
  manifest: Manifest,
  runs: readonly FileRun[],
  signal: AbortSignal | undefined,
): Promise<IndexCheck> {
  const keyColumns = manifest.keyColumns.map((column) => column.slice(0, column.lastIndexOf(':')));
  assertKeyColumns(snapshot, keyColumns);
  const ordinals = new Map(manifest.files.map(([ordinal, path]) => [path, ordinal]));
  const vectors = createVectorCache();
  const findings: IndexFinding[] = [];
  /** By ordinal: path and deleted rows of a file that lives, and how many rows of it live. */
  const living = new Map<number, { readonly path: string; readonly dead: RowSet; rows: number }>();
  let rowsChecked = 0;
  for (const file of snapshot.files) {
    signal?.throwIfAborted();
    const path = canonicalPath(file.path);
    const ordinal = ordinals.get(file.path) ?? ordinals.get(path);
    const dead = await deadRows(snapshot, vectors, file);
    const counts = { path: file.path, dead, rows: 0 };
    if (ordinal !== undefined) living.set(ordinal, counts);
    let lacking = 0;
    const alive = { has: (row: number): boolean => containsRow(dead, row) };
    for await (const entries of fileEntries(snapshot, file, keyColumns, ordinal ?? FENCE - 2, alive)) {
      counts.rows += entries.length / ENTRY_WORDS;
      lacking += ordinal === undefined ? entries.length / ENTRY_WORDS : countLacking(runs, entries);
    }
    rowsChecked += counts.rows;
    if (lacking > 0) {
      const message = `${lacking} of its ${counts.rows} living rows are not found by their key; an update would double them. ${REBUILD}`;
      findings.push({ kind: 'index-lacks', file: file.path, message });
    }
  }
  const claimed = await countClaimed(runs, living);
  for (const [ordinal, { path, rows }] of living) {
    const extra = (claimed.get(ordinal) ?? 0) - rows;
    if (extra <= 0) continue;
    const message = `${extra} entries name living rows of it under keys that are not theirs; ${REBUILD}`;
    findings.push({ kind: 'index-strays', file: path, message });
  }
  return { version: snapshot.version, rowsChecked, findings, skipped: null };
}

async function deadRows(snapshot: Snapshot, vectors: VectorCache, file: AddFile): Promise<RowSet> {
  return (await vectors.rowsOf(snapshot.store, [file])).get(file.path) ?? NO_ROWS;
}

/** Entries of living rows that a lookup of their key does not answer with this place and position. */
function countLacking(runs: readonly FileRun[], entries: Uint32Array): number {
  const count = entries.length / ENTRY_WORDS;
  const hashes = new Uint32Array(count * HASH_WORDS);
  for (let i = 0; i < count; i++)
    for (let word = 0; word < HASH_WORDS; word++) hashes[i * HASH_WORDS + word] = entries[i * ENTRY_WORDS + word] ?? 0;
  const answer = lookup(runs, hashes, count);
  const further = new Set<string>();
  for (let i = 0; i < answer.extra.length; i += 3)
    further.add(`${answer.extra[i]}/${answer.extra[i + 1]}/${answer.extra[i + 2]}`);
  let lacking = 0;
  for (let i = 0; i < count; i++) {
    let same = true;
    for (let word = 0; word < FOUND_WORDS; word++)
      if (answer.found[i * FOUND_WORDS + word] !== entries[i * ENTRY_WORDS + HASH_WORDS + word]) same = false;
    const [file, row] = [entries[i * ENTRY_WORDS + HASH_WORDS], entries[i * ENTRY_WORDS + HASH_WORDS + 1]];
    if (!same && !further.has(`${i}/${file}/${row}`)) lacking++;
  }
  return lacking;
}

function lookup(runs: readonly FileRun[], hashes: Uint32Array, count: number): Lookup {
  const into = emptyLookup(count);
  const pending = sortStrided(hashes, count, HASH_WORDS).slice();
  let left = count;
  for (const run of runs) left = run.find(hashes, pending, left, into, true);
  return into;
}

/** By ordinal: entries that count, the newest of their key, and that name a living row. */
async function countClaimed(
  runs: readonly FileRun[],
  living: ReadonlyMap<number, { readonly dead: RowSet }>,
): Promise<ReadonlyMap<number, number>> {
  const claimed = new Map<number, number>();
  // What hides an older entry stays in, also a fence or a dead row: only then does the newest answer.
  const all = { keepAll: false, keepsRow: () => true, keepsFence: () => true };
  await mergeRuns(runs, all, async (entries, count) => {
    for (let i = 0; i < count; i++) {
      const file = entries[i * ENTRY_WORDS + HASH_WORDS] ?? FENCE;
      const found = file === FENCE ? undefined : living.get(file);
      if (found === undefined || containsRow(found.dead, entries[i * ENTRY_WORDS + HASH_WORDS + 1] ?? 0)) continue;
      claimed.set(file, (claimed.get(file) ?? 0) + 1);
    }
    await setImmediate();
  });
  return claimed;
}

/**
 * Builds the index anew from the table's newest version; no process may have it open. Null when its manifest does not say
 * what the key is: then what lies there is removed, and its next use builds it.
 */
export async function rebuildIndex(store: ObjectStore, folder: string): Promise<bigint | null> {
  const manifest = await loadManifest(folder).catch((error: unknown) => {
    if (error instanceof IndexError && error.code === 'INDEX_CORRUPT') return null;
    throw error;
  });
  const snapshot = await openSnapshot(store);
  const identity = { tableId: snapshot.metadata.id, keyColumns: manifest?.keyColumns ?? [] };
  const index = await openKeyIndex(folder, identity, { fenceCutoffSecond: () => 0 });
  try {
    await index.reset();
    if (manifest === null) return null;
    const keyColumns = manifest.keyColumns.map((column) => column.slice(0, column.lastIndexOf(':')));
    const fields = keyColumns.flatMap((name) => snapshot.schema.fields.find((field) => field.name === name) ?? []);
    await followTable({ index, vectors: createVectorCache(), keyColumns, keys: { fields } }, snapshot);
    return snapshot.version;
  } finally {
    await index.close();
  }
}
