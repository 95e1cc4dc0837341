/**
 * Rows of a table without a key, under replica identity FULL: a bag (docs/decisions/0015-tables-without-a-key.md). What
 * identifies a row is its content, so the record's key is a hash of it: all events of equal rows stand in one partition, in
 * their order. Which of several equal rows an event means makes no difference; the lake counts them.
 *
 * The hash is over (name, text) of the columns that are not NULL, in the shape's order: a column that was added, and is NULL
 * in the rows that were there, leaves their hash as it was.
 */
import { hash } from 'node:crypto';
import type { ShapeEncoder } from '../log/envelope-encode.ts';
import { bagKeyOf } from '../log/bag-key.ts';
import { CellKind, type Tuple } from '../log/tuple.ts';

/** Only tables with replica identity FULL are taken without key columns (table-key.ts). */
export function isBag(shape: ShapeEncoder): boolean {
  return shape.keyColumns.length === 0;
}

const names = new WeakMap<ShapeEncoder, readonly Buffer[]>();
let scratch = Buffer.allocUnsafe(64 * 1024);

/** The record's key. The tuple must be complete. */
export function bagKey(shape: ShapeEncoder, tuple: Tuple): Buffer {
  const prefixes = prefixesOf(shape);
  let at = 0;
  for (let i = 0; i < prefixes.length; i++) {
    if (tuple.kinds[i] !== CellKind.text) continue;
    const name = prefixes[i] as Buffer;
    const start = tuple.starts[i] as number;
    const end = tuple.ends[i] as number;
    const need = at + name.length + 4 + end - start;
    if (need > scratch.length) grow(need, at);
    at += name.copy(scratch, at);
    at = scratch.writeUInt32BE(end - start, at);
    at += tuple.bytes.copy(scratch, at, start, end);
  }
  const digest = hash('sha256', scratch.subarray(0, at), 'hex');
  // One wide row must not keep its buffer for ever.
  if (scratch.length > SCRATCH_KEPT) scratch = Buffer.allocUnsafe(64 * 1024);
  return bagKeyOf(digest);
}

const SCRATCH_KEPT = 4 * 1024 * 1024;

function grow(need: number, used: number): void {
  const wider = Buffer.allocUnsafe(Math.max(need, scratch.length * 2));
  scratch.copy(wider, 0, 0, used);
  scratch = wider;
}

/** Length and text of each column's name. */
function prefixesOf(shape: ShapeEncoder): readonly Buffer[] {
  const known = names.get(shape);
  if (known !== undefined) return known;
  const made = shape.shape.columns.map(({ name }) => {
    const text = Buffer.from(name);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(text.length);
    return Buffer.concat([length, text]);
  });
  names.set(shape, made);
  return made;
}

/** Unchanged TOAST under FULL: the old row, in the same message, has it. */
export function completeFromOld(shape: ShapeEncoder, after: Tuple, before: Tuple): void {
  if (before.bytes !== after.bytes) return;
  for (let i = 0; i < shape.columns.length; i++) {
    if (after.kinds[i] !== CellKind.unchanged) continue;
    after.kinds[i] = before.kinds[i] as number;
    after.starts[i] = before.starts[i] as number;
    after.ends[i] = before.ends[i] as number;
  }
}
