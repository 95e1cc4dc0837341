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
/** Entries between two turns of the event loop: some ten milliseconds. */
const YIELD_ENTRIES = 65_536;

interface Cursor {
  readonly source: MergeSource;
  readonly block: Uint32Array;
  /** Words into the block, and the end of what it holds. */
  at: number;
  end: number;
  next: number;
}

/** Merges into `append` (sorted blocks), giving way to other work again and again; memory is half a megabyte a source. */
export async function mergeRuns(
  sources: readonly MergeSource[],
  rules: MergeRules,
  append: (entries: Uint32Array, count: number) => Promise<void>,
): Promise<void> {
  const cursors = sources.map(openCursor);
  const out = new Uint32Array(BLOCK_ENTRIES * ENTRY_WORDS);
  const last = new Uint32Array(HASH_WORDS);
  let lastSource: Cursor | null = null;
  let written = 0;
  let sinceYield = 0;
  for (;;) {
    const cursor = smallest(cursors);
    if (cursor === null) break;
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
        if (written === out.length) {
          await append(out, BLOCK_ENTRIES);
          written = 0;
        }
      }
    }
    cursor.at += ENTRY_WORDS;
    if (cursor.at === cursor.end) refill(cursor);
    if (++sinceYield === YIELD_ENTRIES) {
      sinceYield = 0;
      await setImmediate();
    }
  }
  if (written > 0) await append(out, written / ENTRY_WORDS);
}

function openCursor(source: MergeSource): Cursor {
  const cursor = { source, block: new Uint32Array(BLOCK_ENTRIES * ENTRY_WORDS), at: 0, end: 0, next: 0 };
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
