/**
 * Merging sorted runs. Sources stand newest first; of a key that several hold, only the newest source's entries stay,
 * because every older row of it was deleted when the newer one was written.
 */
import { setImmediate } from 'node:timers/promises';
import { ENTRY_WORDS, FENCE } from './entry.ts';
import { HASH_WORDS } from './key-hash.ts';
import { PAGE_ENTRIES } from './run-file.ts';

export interface MergeSource {
  readonly count: number;
  /** Entries [from, from + n) into `into`; returns n. */
  read(from: number, into: Uint32Array): number;
}

export interface MergeRules {
  /** Whether an entry of this row (or fence, by the second in which it was written) is still of use. */
  keepsRow(file: number, row: number): boolean;
  keepsFence(second: number): boolean;
  /** Keep the entries of every source: for sources that have no age order, as in a rebuild. */
  readonly keepAll: boolean;
}

export function memorySource(entries: Uint32Array): MergeSource {
  const count = entries.length / ENTRY_WORDS;
  return {
    count,
    read(from, into) {
      const n = Math.min(Math.floor(into.length / ENTRY_WORDS), count - from);
      into.set(entries.subarray(from * ENTRY_WORDS, (from + n) * ENTRY_WORDS));
      return n;
    },
  };
}

function compareHashWords(a: Uint32Array, i: number, b: Uint32Array, j: number): number {
  for (let word = 0; word < HASH_WORDS; word++) {
    const difference = (a[i + word] ?? 0) - (b[j + word] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

const BLOCK_ENTRIES = 128 * PAGE_ENTRIES;
const STEP_ENTRIES = 4096;
/** Steps between two turns of the event loop: some ten milliseconds. */
const STEPS_A_YIELD = 16;

interface Cursor {
  readonly source: MergeSource;
  readonly block: Uint32Array;
  /** Words into the block, and the end of what it holds. */
  at: number;
  end: number;
  next: number;
}

/** Entries that a buffer has room for: a block, or all there are, as hundreds of small tables may be merged at once. */
const roomFor = (entries: number): number => Math.min(BLOCK_ENTRIES, Math.max(1, entries)) * ENTRY_WORDS;

/** Merges into `append` (sorted blocks), giving way to other work again and again; memory is at most half a megabyte a source. */
export async function mergeRuns(
  sources: readonly MergeSource[],
  rules: MergeRules,
  append: (entries: Uint32Array, count: number) => Promise<void>,
): Promise<void> {
  const merging: Merging = {
    cursors: sources.map(openCursor),
    rules,
    out: new Uint32Array(roomFor(sources.reduce((sum, { count }) => sum + count, 0))),
    written: 0,
    last: new Uint32Array(HASH_WORDS),
    lastSource: null,
  };
  let steps = 0;
  for (let more = true; more;) {
    more = mergeStep(merging);
    if (merging.written === merging.out.length || !more) {
      if (merging.written > 0) await append(merging.out, merging.written / ENTRY_WORDS);
      merging.written = 0;
    }
    if (++steps % STEPS_A_YIELD === 0) await setImmediate();
  }
}

interface Merging {
  readonly cursors: readonly Cursor[];
  readonly rules: MergeRules;
  readonly out: Uint32Array;
  /** Words. */
  written: number;
  readonly last: Uint32Array;
  lastSource: Cursor | null;
}

/**
 * Some entries, until the block is full: false at the end. A function that is called often is compiled once; the loop of a
 * whole merge was compiled again in each.
 */
function mergeStep(merging: Merging): boolean {
  const { cursors, rules, out, last } = merging;
  let { written, lastSource } = merging;
  let more = true;
  for (let left = STEP_ENTRIES; left > 0 && written < out.length; left--) {
    const cursor = smallest(cursors);
    if (cursor === null) {
      more = false;
      break;
    }
    const { block, at } = cursor;
    const repeated = lastSource !== null && compareHashWords(block, at, last, 0) === 0;
    if (!repeated || cursor === lastSource || rules.keepAll) {
      if (!repeated) for (let word = 0; word < HASH_WORDS; word++) last[word] = block[at + word] ?? 0;
      lastSource = cursor;
      const file = block[at + HASH_WORDS] ?? 0;
      if (
        file === FENCE
          ? rules.keepsFence(block[at + HASH_WORDS + 1] ?? 0)
          : rules.keepsRow(file, block[at + HASH_WORDS + 1] ?? 0)
      ) {
        for (let word = 0; word < ENTRY_WORDS; word++) out[written + word] = block[at + word] ?? 0;
        written += ENTRY_WORDS;
      }
    }
    cursor.at += ENTRY_WORDS;
    if (cursor.at === cursor.end) refill(cursor);
  }
  merging.written = written;
  merging.lastSource = lastSource;
  return more;
}

function openCursor(source: MergeSource): Cursor {
  const cursor = { source, block: new Uint32Array(roomFor(source.count)), at: 0, end: 0, next: 0 };
  refill(cursor);
  return cursor;
}

function refill(cursor: Cursor): void {
  const n = cursor.next < cursor.source.count ? cursor.source.read(cursor.next, cursor.block) : 0;
  cursor.next += n;
  cursor.at = 0;
  cursor.end = n * ENTRY_WORDS;
}

/** Of equal hashes the earlier source, which is the newer one. */
function smallest(cursors: readonly Cursor[]): Cursor | null {
  let best: Cursor | null = null;
  for (const cursor of cursors) {
    if (cursor.at === cursor.end) continue;
    if (best === null || compareHashWords(cursor.block, cursor.at, best.block, best.at) < 0) best = cursor;
  }
  return best;
}
