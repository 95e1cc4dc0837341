/**
 * Keys as 16-byte hashes: what the fold groups by and what the key index is sorted by.
 *
 * A key is written in one canonical form, whatever the width of the columns that hold it (an `integer` key that becomes
 * `long` keeps its hash), and hashed with SHA-256, cut to 128 bits. A cryptographic hash because keys are written by the
 * source's users: with a weak one, two chosen keys could be made to meet, and one row would replace the other in silence.
 */
import { hash } from 'node:crypto';
import type { ColumnVector } from '../table/column.ts';
import { isNull } from '../table/column.ts';
import { hashShort, ONE_BLOCK_BYTES } from './short-hash.ts';

/** Raised when the canonical form changes; an index of another format is rebuilt. */
export const KEY_HASH_FORMAT = 1;
export const KEY_HASH_BYTES = 16;
/** 32-bit words a hash. */
export const HASH_WORDS = 4;

/** `hash` takes any encoding of Buffer; its type names only the usual ones. */
const LATIN1 = 'latin1' as 'hex';

const Tag = { null: 0, integer: 1, boolean: 2, float: 3, decimal: 4, bytes: 5, list: 6 } as const;

export class KeyTypeError extends Error {
  readonly code = 'KEY_TYPE_UNSUPPORTED';
  constructor(kind: string) {
    super(`a ${kind} column cannot be part of a key: choose scalar key columns, or lists of them`);
    this.name = 'KeyTypeError';
  }
}

/**
 * Hashes of `rowCount` composite keys, four 32-bit words a row (row i at words 4i .. 4i+3). The words order hashes: compare
 * them as unsigned numbers, first word first. NULL parts hash as NULL; refusing them is the caller's business.
 * @throws KeyTypeError for struct and map columns, and lists of them
 */
export function hashKeys(columns: readonly ColumnVector[], rowCount: number): Uint32Array {
  const out = new Uint32Array(rowCount * HASH_WORDS);
  const outBytes = Buffer.from(out.buffer);
  for (const column of columns) requireKeyType(column);
  const parts = columns.map(keyPart);
  let scratch = Buffer.allocUnsafe(256);
  for (let row = 0; row < rowCount; row++) {
    const need = keyBytes(columns, row);
    if (need > scratch.length) scratch = Buffer.allocUnsafe(need * 2);
    const length = writeKey(parts, row, scratch);
    if (length <= ONE_BLOCK_BYTES) {
      hashShort(scratch, length, out, row * HASH_WORDS);
      continue;
    }
    // `latin1` is the cheapest way out of the native call: one short string, no buffer object a row.
    outBytes.write(hash('sha256', scratch.subarray(0, length), LATIN1), row * KEY_HASH_BYTES, KEY_HASH_BYTES, 'latin1');
  }
  return out;
}

interface KeyPart {
  readonly column: ColumnVector;
  /** Of an int64 column: a bigint a row would be an allocation a row. */
  readonly words: Uint32Array;
  /** Of a list: its elements' column. */
  readonly child: readonly KeyPart[];
}

const NO_WORDS = new Uint32Array(0);

function keyPart(column: ColumnVector): KeyPart {
  const words =
    column.kind === 'int64'
      ? new Uint32Array(column.values.buffer, column.values.byteOffset, column.values.length * 2)
      : NO_WORDS;
  return { column, words, child: column.kind === 'list' ? [keyPart(column.child)] : [] };
}

function requireKeyType(column: ColumnVector): void {
  if (column.kind === 'list') requireKeyType(column.child);
  else if (column.kind === 'struct' || column.kind === 'map') throw new KeyTypeError(column.kind);
}

function keyBytes(columns: readonly ColumnVector[], row: number): number {
  let bytes = 0;
  for (const column of columns) {
    bytes += 18;
    if (column.kind === 'list') {
      const child = [column.child];
      for (let i = column.offsets[row] ?? 0, end = column.offsets[row + 1] ?? 0; i < end; i++)
        bytes += keyBytes(child, i);
    }
    if (column.kind === 'utf8' || column.kind === 'binary')
      bytes += (column.offsets[row + 1] ?? 0) - (column.offsets[row] ?? 0);
  }
  return bytes;
}

/** Canonical bytes: per column a tag, then a fixed-width little-endian value, or length and bytes. Returns the length. */
function writeKey(parts: readonly KeyPart[], row: number, out: Buffer): number {
  let at = 0;
  for (const { column, words, child } of parts) {
    if (isNull(column, row)) {
      out[at++] = Tag.null;
      continue;
    }
    switch (column.kind) {
      case 'int32': {
        const value = column.values[row] ?? 0;
        out[at] = Tag.integer;
        at = writeWord(out, at + 1, value);
        at = writeWord(out, at, value >> 31);
        break;
      }
      case 'int64':
        out[at] = Tag.integer;
        at = writeWord(out, at + 1, words[row * 2] ?? 0);
        at = writeWord(out, at, words[row * 2 + 1] ?? 0);
        break;
      case 'boolean':
        out[at] = Tag.boolean;
        out[at + 1] = ((column.values[row >> 3] ?? 0) >> (row & 7)) & 1;
        at += 2;
        break;
      case 'float32':
      case 'float64': {
        const value = column.values[row] ?? 0;
        out[at] = Tag.float;
        // PostgreSQL holds the two zeros, and all NaNs, to be equal.
        out.writeDoubleLE(value === 0 ? 0 : value, at + 1);
        at += 9;
        break;
      }
      case 'decimal':
        out[at] = Tag.decimal;
        out[at + 1] = column.scale;
        out.writeBigInt64LE(column.values[row * 2] ?? 0n, at + 2);
        out.writeBigInt64LE(column.values[row * 2 + 1] ?? 0n, at + 10);
        at += 18;
        break;
      case 'utf8':
      case 'binary': {
        const start = column.offsets[row] ?? 0;
        const end = column.offsets[row + 1] ?? 0;
        out[at] = Tag.bytes;
        out.writeUInt32LE(end - start, at + 1);
        at += 5;
        // A short copy is cheaper by hand than by a call into the runtime.
        if (end - start <= 32) for (let i = start; i < end; i++) out[at++] = column.data[i] ?? 0;
        else {
          out.set(column.data.subarray(start, end), at);
          at += end - start;
        }
        break;
      }
      case 'list': {
        const start = column.offsets[row] ?? 0;
        const end = column.offsets[row + 1] ?? 0;
        out[at] = Tag.list;
        out.writeUInt32LE(end - start, at + 1);
        at += 5;
        for (let i = start; i < end; i++) at += writeKey(child, i, out.subarray(at));
        break;
      }
      case 'struct':
      case 'map':
        throw new KeyTypeError(column.kind);
    }
  }
  return at;
}

function writeWord(out: Buffer, at: number, word: number): number {
  out[at] = word & 0xff;
  out[at + 1] = (word >>> 8) & 0xff;
  out[at + 2] = (word >>> 16) & 0xff;
  out[at + 3] = word >>> 24;
  return at + 4;
}

/** Order of hash i of `a` against hash j of `b`: negative, 0, positive. */
export function compareHash(a: Uint32Array, i: number, b: Uint32Array, j: number): number {
  const x = i * HASH_WORDS;
  const y = j * HASH_WORDS;
  for (let word = 0; word < HASH_WORDS; word++) {
    const difference = (a[x + word] ?? 0) - (b[y + word] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Row numbers in ascending hash order; equal hashes keep their row order. */
export function sortByHash(hashes: Uint32Array, rowCount: number): Uint32Array {
  return sortStrided(hashes, rowCount, HASH_WORDS);
}

/** As `sortByHash`, for records of `stride` words that begin with the hash. */
export function sortStrided(records: Uint32Array, rowCount: number, stride: number): Uint32Array {
  let from = new Uint32Array(rowCount);
  let to = new Uint32Array(rowCount);
  for (let i = 0; i < rowCount; i++) from[i] = i;
  // Radix over the first word, least digit first, 11 bits a pass; hashes are spread evenly, so ties are rare after it.
  for (let shift = 0; shift < 32; shift += 11) {
    const starts = new Uint32Array(2049);
    for (let i = 0; i < rowCount; i++) {
      const digit = ((records[i * stride] ?? 0) >>> shift) & 2047;
      starts[digit + 1] = (starts[digit + 1] ?? 0) + 1;
    }
    for (let digit = 0; digit < 2048; digit++) starts[digit + 1] = (starts[digit + 1] ?? 0) + (starts[digit] ?? 0);
    for (let i = 0; i < rowCount; i++) {
      const row = from[i] ?? 0;
      const digit = ((records[row * stride] ?? 0) >>> shift) & 2047;
      const place = starts[digit] ?? 0;
      starts[digit] = place + 1;
      to[place] = row;
    }
    [from, to] = [to, from];
  }
  settleTies(records, from, stride);
  return from;
}

/** Insertion sort on the remaining words within runs of an equal first word. */
function settleTies(records: Uint32Array, order: Uint32Array, stride: number): void {
  for (let i = 1; i < order.length; i++) {
    const row = order[i] ?? 0;
    let j = i - 1;
    while (j >= 0 && compareStrided(records, order[j] ?? 0, row, stride) > 0) {
      order[j + 1] = order[j] ?? 0;
      j--;
    }
    order[j + 1] = row;
  }
}

function compareStrided(records: Uint32Array, a: number, b: number, stride: number): number {
  const x = a * stride;
  const y = b * stride;
  for (let word = 0; word < HASH_WORDS; word++) {
    const difference = (records[x + word] ?? 0) - (records[y + word] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export interface KeyGroups {
  /** Group of each row: dense numbers in the order of first appearance. */
  readonly groupOf: Uint32Array;
  readonly groupCount: number;
}

/** Rows of equal key, for folding: one open-addressing pass, no objects. */
export function groupByHash(hashes: Uint32Array, rowCount: number): KeyGroups {
  let slots = 16;
  while (slots < rowCount * 2) slots *= 2;
  const mask = slots - 1;
  const table = new Int32Array(slots).fill(-1);
  const groupOf = new Uint32Array(rowCount);
  let groupCount = 0;
  for (let row = 0; row < rowCount; row++) {
    let slot = (hashes[row * HASH_WORDS] ?? 0) & mask;
    for (;;) {
      const seen = table[slot] ?? -1;
      if (seen === -1) {
        table[slot] = row;
        groupOf[row] = groupCount++;
        break;
      }
      if (compareHash(hashes, seen, hashes, row) === 0) {
        groupOf[row] = groupOf[seen] ?? 0;
        break;
      }
      slot = (slot + 1) & mask;
    }
  }
  return { groupOf, groupCount };
}

/** The first eight bytes as text: names a key in a message without showing it. */
export function hashText(hashes: Uint32Array, row: number): string {
  const word = (offset: number): string => (hashes[row * HASH_WORDS + offset] ?? 0).toString(16).padStart(8, '0');
  return word(0) + word(1);
}
