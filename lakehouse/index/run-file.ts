/**
 * A sorted run on disk: an immutable file of index entries in hash order, cut into pages.
 *
 *   entries (40 bytes each) | first hash word of each page | CRC-32 of each page | Bloom filter | tail (32 bytes)
 *   tail, little-endian u32: magic "SLXR" | format | entry count (2 words) | page count | Bloom bytes | CRC-32 of all
 *   between entries and tail | CRC-32 of the seven words before
 *
 * Only the page table stays in memory (8 bytes a page), and the Bloom filter (10 bits a key) from the first lookup that asks it;
 * a lookup reads one page a key, in hash order, neighbouring pages together. Reads are synchronous on purpose: a page comes
 * from the page cache in two microseconds, an asynchronous read costs fifty.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { open, rename, unlink } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { bloomAdd, bloomBytes, bloomHas, openBloom } from './bloom.ts';
import { ENTRY_BYTES, ENTRY_WORDS, compareEntry, searchEntries, type Lookup } from './entry.ts';
import { IndexError } from './index-error.ts';
import { HASH_WORDS } from './key-hash.ts';

export const RUN_FORMAT = 1;
const MAGIC = 0x52584c53;
const TAIL_BYTES = 32;
/** 4,080 bytes: as much as fits a disk block. */
export const PAGE_ENTRIES = 102;
const PAGE_BYTES = PAGE_ENTRIES * ENTRY_BYTES;
/** Pages read at once when a batch is dense in the run. */
const READ_PAGES_MAX = 64;
const READ_GAP_PAGES_MAX = 3;

export interface FileRun {
  readonly path: string;
  readonly count: number;
  /** Bytes kept in memory. */
  readonly residentBytes: number;
  /**
   * Looks up the pending keys (numbers into `hashes`, in hash order); those not found are moved to the front of `pending`.
   * Returns how many they are. `useBloom` false spares the filter's test where most keys are expected to be here.
   * @throws IndexError INDEX_CORRUPT
   */
  find(hashes: Uint32Array, pending: Uint32Array, pendingCount: number, into: Lookup, useBloom: boolean): number;
  /** Entries [from, from + n) for merging; n <= `into`'s room. Returns n. Checks the pages' CRCs. */
  read(from: number, into: Uint32Array): number;
  close(): void;
}

/** @throws IndexError INDEX_CORRUPT, INDEX_FORMAT_NEWER */
export function openRun(path: string): FileRun {
  const fd = openSync(path, 'r');
  try {
    return runOver(path, fd);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Pages are read and searched in one turn, so all runs of a thread share the room: each its own was most of a small table's memory. */
let pagesInHand: Uint32Array | null = null;

function runOver(path: string, fd: number): FileRun {
  const { count, fences, crcs, filterBytes } = readTail(path, fd);
  let filter: Uint8Array | null = null;
  const buffer = (pagesInHand ??= new Uint32Array((READ_PAGES_MAX * PAGE_BYTES) / 4));
  const bytes = Buffer.from(buffer.buffer);
  const pageEntries = (page: number): number => Math.min(PAGE_ENTRIES, count - page * PAGE_ENTRIES);

  function readPages(first: number, last: number): void {
    const start = first * PAGE_BYTES;
    const length = Math.min((last + 1) * PAGE_BYTES, count * ENTRY_BYTES) - start;
    if (readSync(fd, bytes, 0, length, start) !== length)
      throw new IndexError('INDEX_CORRUPT', path, 'the run is cut short');
  }
  /** Pages found whole once: a page does not go bad while it is in use. */
  const checkedPages = new Uint8Array((fences.length + 7) >> 3);
  function check(page: number, atPage: number): void {
    const flag = 1 << (page & 7);
    if (((checkedPages[page >> 3] ?? 0) & flag) !== 0) return;
    const start = atPage * PAGE_BYTES;
    if (crc32(bytes.subarray(start, start + pageEntries(page) * ENTRY_BYTES)) !== crcs[page])
      throw new IndexError('INDEX_CORRUPT', path, `page ${page} has a wrong checksum`);
    checkedPages[page >> 3] = (checkedPages[page >> 3] ?? 0) | flag;
  }

  return {
    path,
    count,
    get residentBytes() {
      return fences.byteLength + crcs.byteLength + (filter?.byteLength ?? 0);
    },
    find(hashes, pending, pendingCount, into, useBloom) {
      const pages = new Uint32Array(pendingCount);
      const candidates = new Uint32Array(pendingCount);
      const bloom = useBloom ? (filter ??= readFilter(path, fd, count, fences.length, filterBytes)) : null;
      const asked = pagesOf(hashes, pending, pendingCount, { bloom, fences, pages, candidates });
      const left = pendingCount - asked;
      const missed = new Uint32Array(asked);
      let missedCount = 0;
      for (let i = 0; i < asked;) {
        const first = pages[i] ?? 0;
        let last = first;
        let end = i + 1;
        while (end < asked) {
          const next = pages[end] ?? 0;
          if (next - last > READ_GAP_PAGES_MAX || next - first >= READ_PAGES_MAX) break;
          last = next;
          end++;
        }
        readPages(first, last);
        let checked = -1;
        for (; i < end; i++) {
          const key = candidates[i] ?? 0;
          const wanted = pages[i] ?? 0;
          if (wanted !== checked) check((checked = wanted), wanted - first);
          const base = (wanted - first) * PAGE_ENTRIES;
          const entries = pageEntries(wanted);
          const end = searchEntries(buffer, base + entries, hashes, key, into, base);
          // A key whose place is the page's end may go on in the next page: rare, so read apart.
          const place = end < 0 ? -end - 1 : end;
          const more =
            place === base + entries &&
            wanted + 1 < fences.length &&
            goesOn(hashes, key, wanted + 1, into, buffer, first, last);
          if (end < 0 && more !== true) missed[missedCount++] = key;
        }
      }
      return mergePending(hashes, pending, left, missed, missedCount);
    },
    read(from, into) {
      const room = Math.floor(into.length / ENTRY_WORDS);
      const n = Math.min(room, count - from);
      if (from % PAGE_ENTRIES !== 0) throw new RangeError('a run is read from a page border');
      const target = Buffer.from(into.buffer, into.byteOffset, n * ENTRY_BYTES);
      if (readSync(fd, target, 0, n * ENTRY_BYTES, from * ENTRY_BYTES) !== n * ENTRY_BYTES)
        throw new IndexError('INDEX_CORRUPT', path, 'the run is cut short');
      for (let start = 0; start < n; start += PAGE_ENTRIES) {
        const page = (from + start) / PAGE_ENTRIES;
        const length = Math.min(PAGE_ENTRIES, n - start);
        if (length === pageEntries(page)) {
          const piece = target.subarray(start * ENTRY_BYTES, (start + length) * ENTRY_BYTES);
          if (crc32(piece) !== crcs[page])
            throw new IndexError('INDEX_CORRUPT', path, `page ${page} has a wrong checksum`);
        }
      }
      return n;
    },
    close: () => closeSync(fd),
  };

  /** Looks the key up in the pages from `page` on, as far as it reaches; then restores the pages that were in the buffer. */
  function goesOn(
    hashes: Uint32Array,
    key: number,
    page: number,
    into: Lookup,
    held: Uint32Array,
    first: number,
    last: number,
  ): boolean {
    if ((fences[page] ?? 0) !== (hashes[key * HASH_WORDS] ?? 0)) return false;
    let found = false;
    for (let next = page; next < fences.length; next++) {
      readPages(next, next);
      check(next, 0);
      const end = searchEntries(held, pageEntries(next), hashes, key, into);
      if (end > 0) found = true;
      if ((end < 0 ? -end - 1 : end) < pageEntries(next)) break;
    }
    readPages(first, last);
    return found;
  }
}

/**
 * Which page may hold each key; keys that the filter denies move to the front of `pending`. Returns how many may be held.
 * Outside of the run, as `addToBloom`: each run's own function would be compiled anew.
 */
function pagesOf(
  hashes: Uint32Array,
  pending: Uint32Array,
  pendingCount: number,
  run: {
    readonly bloom: Uint8Array | null;
    readonly fences: Uint32Array;
    readonly pages: Uint32Array;
    readonly candidates: Uint32Array;
  },
): number {
  const { bloom, fences, pages, candidates } = run;
  let left = 0;
  let asked = 0;
  let page = 0;
  for (let at = 0; at < pendingCount; at++) {
    const key = pending[at] ?? 0;
    const h0 = hashes[key * HASH_WORDS] ?? 0;
    if (bloom !== null && !bloomHas(bloom, h0, bloomStep(hashes, key * HASH_WORDS))) {
      pending[left++] = key;
      continue;
    }
    page = firstPage(fences, h0, page);
    pages[asked] = page;
    candidates[asked++] = key;
  }
  return asked;
}

function addToBloom(bloom: Uint8Array, entries: Uint32Array, from: number, to: number): void {
  for (let at = from * ENTRY_WORDS; at < to * ENTRY_WORDS; at += ENTRY_WORDS)
    bloomAdd(bloom, entries[at] ?? 0, bloomStep(entries, at));
}

const bloomStep = (words: Uint32Array, at: number): number => ((words[at + 1] ?? 0) | 1) >>> 0;

/** The first page that may hold a hash beginning with `h0`: the one before the first page that begins at or above it. */
function firstPage(fences: Uint32Array, h0: number, from: number): number {
  let low = from;
  let high = fences.length;
  // Keys come in order: look near the last page first.
  let step = 1;
  while (low + step < high && (fences[low + step] ?? 0) < h0) {
    low += step;
    step *= 2;
  }
  high = Math.min(high, low + step + 1);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((fences[middle] ?? 0) < h0) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : low - 1;
}

/** Both lists are in hash order; so is the result, written to the front of `pending`. */
function mergePending(
  hashes: Uint32Array,
  pending: Uint32Array,
  left: number,
  missed: Uint32Array,
  missedCount: number,
): number {
  if (missedCount === 0) return left;
  const denied = pending.slice(0, left);
  let i = 0;
  let j = 0;
  let out = 0;
  while (i < left || j < missedCount) {
    const a = denied[i] ?? 0;
    const b = missed[j] ?? 0;
    const takeDenied =
      j >= missedCount || (i < left && compareEntry(hashes, a * HASH_WORDS, hashes, b * HASH_WORDS) < 0);
    pending[out++] = takeDenied ? a : b;
    if (takeDenied) i++;
    else j++;
  }
  return out;
}

interface RunTables {
  readonly count: number;
  readonly fences: Uint32Array;
  readonly crcs: Uint32Array;
  readonly filterBytes: number;
}

/** Bytes of a filter that are read at a time to check it. */
const FILTER_BLOCK_BYTES = 1024 * 1024;

function readTail(path: string, fd: number): RunTables {
  const size = fstatSync(fd).size;
  const corrupt = (what: string): IndexError => new IndexError('INDEX_CORRUPT', path, what);
  if (size < TAIL_BYTES) throw corrupt('the run is cut short');
  const tail = new Uint32Array(TAIL_BYTES / 4);
  readSync(fd, Buffer.from(tail.buffer), 0, TAIL_BYTES, size - TAIL_BYTES);
  const [magic, format, countLow = 0, countHigh = 0, pages = 0, filterBytes = 0, tablesCrc, tailCrc] = tail;
  if (magic !== MAGIC) throw corrupt('the run has no tail');
  if (format !== RUN_FORMAT)
    throw new IndexError('INDEX_FORMAT_NEWER', path, `run format ${format}, this version reads ${RUN_FORMAT}`);
  if (crc32(Buffer.from(tail.buffer, 0, TAIL_BYTES - 4)) !== tailCrc) throw corrupt('the tail has a wrong checksum');
  const count = countHigh * 2 ** 32 + countLow;
  const tablesBytes = pages * 8 + filterBytes;
  if (size !== count * ENTRY_BYTES + tablesBytes + TAIL_BYTES) throw corrupt('the run has a wrong length');
  const start = count * ENTRY_BYTES;
  const tables = new Uint32Array(pages * 2);
  readAt(path, fd, Buffer.from(tables.buffer), start);
  let crc = crc32(Buffer.from(tables.buffer));
  // Checked here as all of the tail, held only when a lookup asks it.
  const block = Buffer.alloc(Math.min(FILTER_BLOCK_BYTES, filterBytes));
  for (let at = 0; at < filterBytes; at += block.length) {
    const part = block.subarray(0, Math.min(block.length, filterBytes - at));
    readAt(path, fd, part, start + pages * 8 + at);
    crc = crc32(part, crc);
  }
  if (crc !== tablesCrc) throw corrupt('the page table has a wrong checksum');
  return { count, fences: tables.subarray(0, pages), crcs: tables.subarray(pages), filterBytes };
}

function readFilter(path: string, fd: number, count: number, pages: number, filterBytes: number): Uint8Array {
  const filter = Buffer.alloc(filterBytes);
  readAt(path, fd, filter, count * ENTRY_BYTES + pages * 8);
  return filter;
}

function readAt(path: string, fd: number, into: Buffer, at: number): void {
  if (readSync(fd, into, 0, into.length, at) !== into.length)
    throw new IndexError('INDEX_CORRUPT', path, 'the run is cut short');
}

export interface RunWriter {
  /** Appends sorted entries (all above those before). */
  append(entries: Uint32Array, count: number): Promise<void>;
  /** Flushes, syncs and names the file; it is whole or absent. Returns the entry count. */
  finish(): Promise<number>;
  abort(): Promise<void>;
}

const WRITE_PAGES = 256;

/**
 * Writes a run to `path`; `countMax` bounds the entries and sizes the Bloom filter.
 * @param filtered false for the run that most keys are in: its filter is never asked (it says maybe to every key), and to make
 *   it would take memory as the table grows
 */
export async function createRun(path: string, countMax: number, filtered = true): Promise<RunWriter> {
  const temporary = `${path}.tmp`;
  const file = await open(temporary, 'w');
  const bloom = filtered ? new Uint8Array(bloomBytes(countMax)) : openBloom();
  const pagesMax = Math.ceil(countMax / PAGE_ENTRIES);
  const fences = new Uint32Array(pagesMax);
  const crcs = new Uint32Array(pagesMax);
  const room = Math.min(WRITE_PAGES, Math.max(1, pagesMax)) * PAGE_ENTRIES;
  const buffer = new Uint32Array(room * ENTRY_WORDS);
  const bytes = Buffer.from(buffer.buffer);
  let buffered = 0;
  let count = 0;
  let pages = 0;

  async function flush(): Promise<void> {
    for (let start = 0; start < buffered; start += PAGE_ENTRIES) {
      const end = Math.min(start + PAGE_ENTRIES, buffered);
      fences[pages] = buffer[start * ENTRY_WORDS] ?? 0;
      crcs[pages] = crc32(bytes.subarray(start * ENTRY_BYTES, end * ENTRY_BYTES));
      pages++;
    }
    await file.write(bytes, 0, buffered * ENTRY_BYTES);
    buffered = 0;
  }

  return {
    async append(entries, n) {
      for (let done = 0; done < n;) {
        const take = Math.min(n - done, room - buffered);
        buffer.set(entries.subarray(done * ENTRY_WORDS, (done + take) * ENTRY_WORDS), buffered * ENTRY_WORDS);
        if (filtered) addToBloom(bloom, entries, done, done + take);
        done += take;
        buffered += take;
        count += take;
        if (buffered === room) await flush();
      }
    },
    async finish() {
      await flush();
      const tables = [Buffer.from(fences.buffer, 0, pages * 4), Buffer.from(crcs.buffer, 0, pages * 4), bloom];
      const tail = Uint32Array.of(
        MAGIC,
        RUN_FORMAT,
        count >>> 0,
        Math.floor(count / 2 ** 32),
        pages,
        bloom.length,
        tables.reduce((crc, table) => crc32(table, crc), 0),
        0,
      );
      tail[7] = crc32(Buffer.from(tail.buffer, 0, TAIL_BYTES - 4));
      for (const table of tables) await file.write(table);
      await file.write(Buffer.from(tail.buffer));
      await file.datasync();
      await file.close();
      await rename(temporary, path);
      return count;
    },
    async abort() {
      await file.close();
      await unlink(temporary);
    },
  };
}
