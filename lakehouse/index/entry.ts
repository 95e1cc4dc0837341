/**
 * One entry of the key index: where the row of a key lies and which event wrote it, or (a fence) which event deleted it.
 *
 * Ten little-endian 32-bit words, 40 bytes:
 *   0-3 key hash | 4 file ordinal | 5 row in the file | 6 epoch | 7 ord | 8 lsn, low word | 9 lsn, high word
 * A fence has file FENCE and, in place of the row, the second (since 1970) in which it was written, for its retention.
 */
import { HASH_WORDS, sortStrided } from './key-hash.ts';

export const ENTRY_WORDS = 10;
export const ENTRY_BYTES = ENTRY_WORDS * 4;
export const FENCE = 0xffff_ffff;
/** In a lookup's answer: the key is unknown. */
export const ABSENT = 0xffff_fffe;

/** Words of an answer a key: an entry without its hash (file, row, epoch, ord, lsn low, lsn high). */
export const FOUND_WORDS = ENTRY_WORDS - HASH_WORDS;

/** Entries in ascending hash order, equal hashes side by side. */
export function sortEntries(entries: Uint32Array): Uint32Array {
  const count = entries.length / ENTRY_WORDS;
  const order = sortStrided(entries, count, ENTRY_WORDS);
  const out = new Uint32Array(entries.length);
  for (let i = 0; i < count; i++) {
    const from = (order[i] ?? 0) * ENTRY_WORDS;
    const to = i * ENTRY_WORDS;
    for (let word = 0; word < ENTRY_WORDS; word++) out[to + word] = entries[from + word] ?? 0;
  }
  return out;
}

/** Answers of a lookup, a slot a key. */
export interface Lookup {
  /** FOUND_WORDS a key; file is ABSENT where no run holds the key. */
  readonly found: Uint32Array;
  /** Further rows of a key that stands in the table more than once (another writer's doing): key, file, row, … */
  readonly extra: number[];
}

export function emptyLookup(keyCount: number): Lookup {
  const found = new Uint32Array(keyCount * FOUND_WORDS);
  for (let key = 0; key < keyCount; key++) found[key * FOUND_WORDS] = ABSENT;
  return { found, extra: [] };
}

/** Order of entry words (at `a`, beginning with the hash) against a hash (at `b`). */
export function compareEntry(entries: Uint32Array, a: number, hashes: Uint32Array, b: number): number {
  for (let word = 0; word < HASH_WORDS; word++) {
    const difference = (entries[a + word] ?? 0) - (hashes[b + word] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Looks one key up among `count` sorted entries. Returns its place, or where it would stand as -place - 1; every entry of it
 * goes into the answer (a fence only if no row stands beside it).
 * @param from no entry before it is of the key, or greater
 * @param until the entry there, if there is one, is of the key or greater
 */
export function searchEntries(
  entries: Uint32Array,
  count: number,
  hashes: Uint32Array,
  key: number,
  into: Lookup,
  from = 0,
  until = count,
): number {
  const hashAt = key * HASH_WORDS;
  let low = from;
  let high = until;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareEntry(entries, middle * ENTRY_WORDS, hashes, hashAt) < 0) low = middle + 1;
    else high = middle;
  }
  const first = low;
  while (low < count && compareEntry(entries, low * ENTRY_WORDS, hashes, hashAt) === 0) {
    addAnswer(entries, low * ENTRY_WORDS + HASH_WORDS, key, into);
    low++;
  }
  return low > first ? low : -first - 1;
}

/** Adds an entry's words (behind its hash) to the answer of a key. */
export function addAnswer(entries: Uint32Array, at: number, key: number, into: Lookup): void {
  const { found, extra } = into;
  const to = key * FOUND_WORDS;
  const file = entries[at] ?? 0;
  const held = found[to] ?? ABSENT;
  if (held !== ABSENT && held !== FENCE) {
    if (file !== FENCE) extra.push(key, file, entries[at + 1] ?? 0);
    return;
  }
  for (let word = 0; word < FOUND_WORDS; word++) found[to + word] = entries[at + word] ?? 0;
}
