/**
 * Brings the key index to a snapshot: after a restart, after other writers' commits, after a lost race; or builds it anew.
 *
 *   same version                          -> nothing
 *   every commit in between can be read   -> index the living rows of files that came, forget those that went, load the
 *                                            fences those commits name; vectors on known files need nothing (key-index.ts)
 *   empty, or a commit is gone            -> forget all; index every file; load every fence
 *
 * A file is indexed again when it comes back after having been removed, or when its vector shrinks (RESTORE does both):
 * rows of it live again that newer entries may hide.
 */
import { ENTRY_WORDS, FENCE, FOUND_WORDS, sortEntries } from '../index/entry.ts';
import { HASH_WORDS, sortStrided } from '../index/key-hash.ts';
import type { KeyIndex } from '../index/key-index.ts';
import { newestTruncate } from '../index/manifest.ts';
import { createRunBuilder } from '../index/run-builder.ts';
import type { AddFile, Commit } from '../table/actions.ts';
import { canonicalPath } from '../table/file-path.ts';
import { readCommit } from '../table/log-reader.ts';
import { containsRow } from '../table/row-bitmap.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { fencesNamedBy, loadAllFences, readFences, type FenceKeys, type LoadedFences } from './fences.ts';
import { assertKeyColumns, fileEntries } from './file-entries.ts';
import { NO_ROWS, type VectorCache } from './vector-cache.ts';

/** Commits followed one by one before a rebuild is the shorter way. */
const FOLLOW_COMMITS_MAX = 5_000n;
const READ_PARALLEL = 16;
const NOT_YET = -1n;

export interface FollowedTable {
  readonly index: KeyIndex;
  readonly vectors: VectorCache;
  readonly keyColumns: readonly string[];
  readonly keys: FenceKeys;
}

export type FollowKind = 'current' | 'followed' | 'rebuilt';

export async function followTable(table: FollowedTable, snapshot: Snapshot): Promise<FollowKind> {
  const { index } = table;
  const from = index.version();
  if (from === snapshot.version) return 'current';
  index.forgetPlaces();
  assertKeyColumns(snapshot, table.keyColumns);
  if (from !== null && from < snapshot.version && snapshot.version - from <= FOLLOW_COMMITS_MAX) {
    const commits = await readCommits(snapshot, from);
    if (commits !== null) {
      await applyCommits(table, snapshot, commits);
      return 'followed';
    }
  }
  await rebuild(table, snapshot);
  return 'rebuilt';
}

async function readCommits(snapshot: Snapshot, from: bigint): Promise<readonly Commit[] | null> {
  const commits: Commit[] = [];
  for (let at = from + 1n; at <= snapshot.version; at += BigInt(READ_PARALLEL)) {
    const versions = Array.from({ length: READ_PARALLEL }, (_, i) => at + BigInt(i)).filter(
      (version) => version <= snapshot.version,
    );
    for (const commit of await Promise.all(versions.map((version) => readCommit(snapshot.store, version)))) {
      if (commit === null) return null;
      commits.push(commit);
    }
  }
  return commits;
}

async function rebuild(table: FollowedTable, snapshot: Snapshot): Promise<void> {
  const { index, keys } = table;
  await index.reset();
  const fences = await loadAllFences(snapshot.store, keys, snapshot.version);
  // Below every version until the rows are there: a failure in between must not look like a finished index.
  await applyFences(index, NOT_YET, fences);
  await indexFiles(table, snapshot, [...snapshot.files], [], null);
}

async function applyFences(index: KeyIndex, version: bigint, fences: LoadedFences): Promise<void> {
  const newest = newestTruncate(index.truncate(), fences.truncate);
  if (fences.entries.length === 0 && newest === index.truncate()) return;
  // Several fences of one key: the newest position is to be found.
  await index.apply({ version, entries: newestFences(fences.entries), added: [], removed: [], truncate: newest });
}

function newestFences(entries: Uint32Array): Uint32Array {
  const sorted = sortEntries(entries);
  let kept = 0;
  for (let at = 0; at < sorted.length; at += ENTRY_WORDS) {
    const previous = kept - ENTRY_WORDS;
    const same = previous >= 0 && sameHash(sorted, previous, at);
    if (same && !laterPosition(sorted, at, sorted, previous)) continue;
    sorted.copyWithin(same ? previous : kept, at, at + ENTRY_WORDS);
    if (!same) kept += ENTRY_WORDS;
  }
  return sorted.slice(0, kept);
}

/**
 * Fences without those that the index knows better than: of keys whose row lives (deleted and inserted again before), and
 * of deletes older than the newest one known. Joined fence files tell of every delete there was.
 */
async function fencesThatHold(table: FollowedTable, snapshot: Snapshot, entries: Uint32Array): Promise<Uint32Array> {
  if (entries.length === 0) return entries;
  const { index } = table;
  const hashes = hashesOf(entries);
  const count = entries.length / ENTRY_WORDS;
  const { found } = index.lookup(hashes, sortStrided(hashes, count, HASH_WORDS));
  const living = new Set<string>();
  const standing = await standingElsewhere(table, snapshot, entries, new Set());
  for (let at = 0; at < standing.length; at += ENTRY_WORDS) living.add(standing.subarray(at, at + HASH_WORDS).join());
  const kept: number[] = [];
  for (let fence = 0; fence < count; fence++) {
    const at = fence * ENTRY_WORDS;
    if (living.has(entries.subarray(at, at + HASH_WORDS).join())) continue;
    const known = found.subarray(fence * FOUND_WORDS, (fence + 1) * FOUND_WORDS);
    if (known[0] === FENCE && !laterPosition(entries, at, known, -HASH_WORDS)) continue;
    kept.push(at);
  }
  const out = new Uint32Array(kept.length * ENTRY_WORDS);
  kept.forEach((at, i) => out.set(entries.subarray(at, at + ENTRY_WORDS), i * ENTRY_WORDS));
  return out;
}

function hashesOf(entries: Uint32Array): Uint32Array {
  const count = entries.length / ENTRY_WORDS;
  const hashes = new Uint32Array(count * HASH_WORDS);
  for (let i = 0; i < count; i++)
    hashes.set(entries.subarray(i * ENTRY_WORDS, i * ENTRY_WORDS + HASH_WORDS), i * HASH_WORDS);
  return hashes;
}

function sameHash(entries: Uint32Array, a: number, b: number): boolean {
  for (let word = 0; word < 4; word++) if (entries[a + word] !== entries[b + word]) return false;
  return true;
}

/** Whether the entry at `i` of `a` is of a later event than that at `j` of `b`. */
function laterPosition(a: Uint32Array, i: number, b: Uint32Array, j: number): boolean {
  for (const word of [6, 9, 8, 7]) {
    const difference = (a[i + word] ?? 0) - (b[j + word] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

async function applyCommits(table: FollowedTable, snapshot: Snapshot, commits: readonly Commit[]): Promise<void> {
  const { index, keys } = table;
  const named = commits.flatMap(fencesNamedBy);
  if (named.length > 0) {
    const fences = await readFences(snapshot.store, keys, named).catch(() =>
      // Compacted meanwhile.
      loadAllFences(snapshot.store, keys, snapshot.version),
    );
    const entries = await fencesThatHold(table, snapshot, newestFences(fences.entries));
    await applyFences(index, index.version() ?? NOT_YET, { ...fences, entries });
  }
  const changed = changedFiles(index, snapshot, commits);
  const isLive = (path: string): boolean => snapshot.files.get(path) !== null;
  const removed = [...index.paths()].filter((path) => !isLive(path));
  await indexFiles(table, snapshot, changed.files, removed, changed.mayRepeat ? 'look-for-repeated-keys' : null);
}

/** Files to index: those that the index does not know, and those of which rows may live again. */
function changedFiles(
  index: KeyIndex,
  snapshot: Snapshot,
  commits: readonly Commit[],
): { readonly files: readonly AddFile[]; readonly mayRepeat: boolean } {
  const again = new Set<string>();
  const gone = new Set<string>();
  let mayRepeat = false;
  for (const commit of commits) {
    const removes = new Map(commit.removes.map((remove) => [canonicalPath(remove.path), remove]));
    const added = new Set<string>();
    for (const add of commit.adds) {
      const path = canonicalPath(add.path);
      added.add(path);
      const remove = removes.get(path);
      const before = remove?.deletionVector?.cardinality ?? 0n;
      const after = add.deletionVector?.cardinality ?? 0n;
      if (gone.has(path) || (remove !== undefined && after < before)) again.add(add.path);
      if (add.dataChange && remove === undefined) mayRepeat = true;
    }
    for (const path of removes.keys()) if (!added.has(path)) gone.add(path);
  }
  const files: AddFile[] = [];
  for (const file of snapshot.files)
    if (index.ordinalOf(file.path) === undefined || again.has(file.path)) files.push(file);
  return { files, mayRepeat };
}

/** Adds the living rows of `files` as one run, newer than all before. */
async function indexFiles(
  table: FollowedTable,
  snapshot: Snapshot,
  files: readonly AddFile[],
  removed: readonly string[],
  repeated: 'look-for-repeated-keys' | null,
): Promise<void> {
  const { index, vectors, keyColumns } = table;
  const added = files.map((file) => ({ ordinal: index.reserveOrdinal(), path: file.path }));
  const builder = createRunBuilder(index);
  try {
    for (const [i, file] of files.entries()) {
      const dead = (await vectors.rowsOf(snapshot.store, [file])).get(file.path) ?? NO_ROWS;
      const groups = fileEntries(snapshot, file, keyColumns, added[i]?.ordinal ?? 0, {
        has: (row) => containsRow(dead, row),
      });
      for await (const entries of groups) {
        await builder.add(entries);
        if (repeated !== null) await builder.add(await standingElsewhere(table, snapshot, entries, new Set(removed)));
      }
    }
    const change = { version: snapshot.version, added, removed, truncate: null };
    const built = await builder.finish();
    if (built.kind === 'memory') await index.apply({ ...change, entries: built.entries });
    else await index.applyRuns(change, [built.name]);
  } finally {
    await builder.dispose();
  }
}

/**
 * Entries of rows that already stand in the table under the keys of `entries`: another writer repeated a key. All living
 * rows of a key must be in its newest run, so that the next write of the key replaces them all.
 */
async function standingElsewhere(
  table: FollowedTable,
  snapshot: Snapshot,
  entries: Uint32Array,
  removed: ReadonlySet<string>,
): Promise<Uint32Array> {
  const { index, vectors } = table;
  const count = entries.length / ENTRY_WORDS;
  const hashes = hashesOf(entries);
  const { found, extra } = index.lookup(hashes, sortStrided(hashes, count, 4));
  const hits: { key: number; file: AddFile; ordinal: number; row: number }[] = [];
  const note = (key: number, ordinal: number, row: number): void => {
    const path = index.pathOf(ordinal);
    const file = path === undefined || removed.has(path) ? null : snapshot.files.get(path);
    if (file !== null) hits.push({ key, file, ordinal, row });
  };
  for (let key = 0; key < count; key++) note(key, found[key * FOUND_WORDS] ?? 0, found[key * FOUND_WORDS + 1] ?? 0);
  for (let i = 0; i < extra.length; i += 3) note(extra[i] ?? 0, extra[i + 1] ?? 0, extra[i + 2] ?? 0);
  const dead = await vectors.rowsOf(snapshot.store, new Set(hits.map((hit) => hit.file)));
  const living = hits.filter((hit) => !containsRow(dead.get(hit.file.path) ?? NO_ROWS, hit.row));
  const out = new Uint32Array(living.length * ENTRY_WORDS);
  living.forEach(({ key, ordinal, row }, i) => {
    out.set(hashes.subarray(key * 4, key * 4 + 4), i * ENTRY_WORDS);
    out.set(found.subarray(key * FOUND_WORDS, (key + 1) * FOUND_WORDS), i * ENTRY_WORDS + 4);
    out[i * ENTRY_WORDS + 4] = ordinal;
    out[i * ENTRY_WORDS + 5] = row;
  });
  return out;
}
