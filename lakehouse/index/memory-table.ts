/**
 * The newest entries, in memory: an open-addressing hash table over them. A key written again replaces its entry in place,
 * so that a busy key costs one entry; entries are sorted once, when the table goes to disk.
 */
import { ENTRY_WORDS, addAnswer, compareEntry, searchEntries, type Lookup } from './entry.ts';
import { HASH_WORDS } from './key-hash.ts';

const NONE = 0xffff_ffff;
/** Slots and entries to begin with, few, for a pipeline may have hundreds of tables; both double as it fills, to two slots an entry. */
const SLOT_BITS = 9;

export interface MemoryTable {
  /** Entries held. */
  count(): number;
  /** Adds one change's entries; they replace what older changes said of their keys. */
  add(entries: Uint32Array): void;
  /** Looks up the pending keys; those not found move to the front. Returns how many they are. */
  find(hashes: Uint32Array, pending: Uint32Array, pendingCount: number, into: Lookup): number;
  /** A copy of all entries, for a sort elsewhere; `sorted` when they are in hash order already (then it is no copy). */
  entries(): { readonly entries: Uint32Array; readonly sorted: boolean };
}

export function createMemoryTable(): MemoryTable {
  const room = 2 ** (SLOT_BITS - 1);
  let slots = new Uint32Array(2 ** SLOT_BITS).fill(NONE);
  /** The first bits of a hash are its slot: keys come in hash order, and so walk through the slots instead of jumping. */
  let shift = 32 - SLOT_BITS;
  let entries = new Uint32Array(room * ENTRY_WORDS);
  /** Next entry of the same key and change: another writer repeated a key. */
  let next = new Uint32Array(room).fill(NONE);
  /** The change that wrote an entry. */
  let generations = new Uint32Array(room);
  let count = 0;
  let generation = 0;
  /** Entries that nothing leads to any more. */
  let orphans = 0;

  function grow(): void {
    const larger = new Uint32Array(entries.length * 2);
    larger.set(entries);
    entries = larger;
    const moreNext = new Uint32Array(next.length * 2).fill(NONE);
    moreNext.set(next);
    next = moreNext;
    const moreGenerations = new Uint32Array(generations.length * 2);
    moreGenerations.set(generations);
    generations = moreGenerations;
    const old = slots;
    slots = new Uint32Array(old.length * 2).fill(NONE);
    shift--;
    for (const entry of old) if (entry !== NONE) slots[slotOf(entries, entry * ENTRY_WORDS)] = entry;
  }

  /** The slot of a hash, or the free one where it belongs. */
  function slotOf(words: Uint32Array, at: number): number {
    const mask = slots.length - 1;
    let slot = (words[at] ?? 0) >>> shift;
    for (;;) {
      const entry = slots[slot] ?? NONE;
      if (entry === NONE || sameHash(entries, entry * ENTRY_WORDS, words, at)) return slot;
      slot = (slot + 1) & mask;
    }
  }

  function put(from: Uint32Array, at: number, entry: number): void {
    for (let word = 0; word < ENTRY_WORDS; word++) entries[entry * ENTRY_WORDS + word] = from[at + word] ?? 0;
    generations[entry] = generation;
  }

  return {
    count: () => count,
    add(added) {
      generation++;
      for (let at = 0; at < added.length; at += ENTRY_WORDS) {
        if (count === next.length) grow();
        const slot = slotOf(added, at);
        const held = slots[slot] ?? NONE;
        if (held !== NONE && generations[held] !== generation) {
          // What hung on the older entry is older too.
          for (let hung = next[held] ?? NONE; hung !== NONE; hung = next[hung] ?? NONE) orphans++;
          next[held] = NONE;
          put(added, at, held);
          continue;
        }
        const entry = count++;
        put(added, at, entry);
        next[entry] = held;
        slots[slot] = entry;
      }
    },
    find(hashes, pending, pendingCount, into) {
      let left = 0;
      for (let i = 0; i < pendingCount; i++) {
        const key = pending[i] ?? 0;
        let entry = slots[slotOf(hashes, key * HASH_WORDS)] ?? NONE;
        if (entry === NONE) pending[left++] = key;
        for (; entry !== NONE; entry = next[entry] ?? NONE)
          addAnswer(entries, entry * ENTRY_WORDS + HASH_WORDS, key, into);
      }
      return left;
    },
    entries() {
      if (orphans === 0) return { entries: entries.slice(0, count * ENTRY_WORDS), sorted: false };
      const reachable = new Uint32Array((count - orphans) * ENTRY_WORDS);
      let at = 0;
      for (const slot of slots)
        for (let entry = slot; entry !== NONE; entry = next[entry] ?? NONE) {
          for (let word = 0; word < ENTRY_WORDS; word++) reachable[at++] = entries[entry * ENTRY_WORDS + word] ?? 0;
        }
      return { entries: reachable, sorted: false };
    },
  };
}

/** A change too large to be worth hashing, as it comes: sorted. Nothing is added to it. */
export function sortedTable(entries: Uint32Array): MemoryTable {
  const total = entries.length / ENTRY_WORDS;
  return {
    count: () => total,
    add: () => {
      throw new RangeError('a sorted table takes no more entries');
    },
    find: (hashes, pending, pendingCount, into) => findSorted(entries, hashes, pending, pendingCount, into),
    entries: () => ({ entries, sorted: true }),
  };
}

/** Outside of the table: each table's own function would be compiled anew. */
function findSorted(
  entries: Uint32Array,
  hashes: Uint32Array,
  pending: Uint32Array,
  pendingCount: number,
  into: Lookup,
): number {
  const total = entries.length / ENTRY_WORDS;
  let left = 0;
  let from = 0;
  for (let i = 0; i < pendingCount; i++) {
    const key = pending[i] ?? 0;
    // Keys come in hash order, too: a key's place is near that of the one before.
    let until = from;
    for (let step = 1; until < total; step *= 2) {
      if (compareEntry(entries, until * ENTRY_WORDS, hashes, key * HASH_WORDS) >= 0) break;
      from = until + 1;
      until += step;
    }
    const place = searchEntries(entries, total, hashes, key, into, from, Math.min(until, total));
    if (place < 0) pending[left++] = key;
    from = place < 0 ? -place - 1 : place;
  }
  return left;
}

function sameHash(a: Uint32Array, i: number, b: Uint32Array, j: number): boolean {
  return a[i] === b[j] && a[i + 1] === b[j + 1] && a[i + 2] === b[j + 2] && a[i + 3] === b[j + 3];
}
