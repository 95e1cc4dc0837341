/**
 * The fold: a batch of events → at most one row a key, each column at its newest known value. Pure and columnar: it returns
 * which input row each output cell comes from, and copies nothing.
 *
 * Rules (DESIGN invariants 6 and 7):
 *  - only (epoch, lsn, ord) orders events; the same position twice is a duplicate, an older one is stale;
 *  - an absent column (unchanged TOAST) takes the value of the newest earlier event of its key that carries it, else it stays
 *    absent and the table's row is its base; never through a delete: what was before it is gone;
 *  - the insert half of a key change continues the row of the old key, as it was just before the change, in the batch or in
 *    the table (`baseRow`);
 *  - a truncate takes every event older than itself;
 *  - a row whose absent column has no base anywhere is `missing`; the state before it still applies.
 */
import { MergeOp } from '../../lakehouse/merge/merge.ts';
import type { RowPosition } from '../../lakehouse/merge/merge.ts';

/** What an event does to its key's row. */
export const EventKind = {
  upsert: 0,
  delete: 1,
  /** Columns of a snapshot row that no event of the chunk's window carried. Never brings a deleted row back. */
  fill: 2,
} as const;

export interface FoldInput {
  readonly rowCount: number;
  /** EventKind a row. Rows of one key stand in log order. */
  readonly kinds: Uint8Array;
  /** Dense key numbers from 0. */
  readonly keyIds: Int32Array;
  readonly keyCount: number;
  /** Insert half of a key change: number of the old key; else -1. */
  readonly otherKeyIds: Int32Array;
  readonly epochs: Int32Array;
  readonly lsns: BigUint64Array;
  readonly ords: Int32Array;
  /** Per column: bit set = not carried; null when every row carries it. */
  readonly absent: readonly (Uint8Array | null)[];
  /** Newest truncate of the batch. */
  readonly truncate: RowPosition | null;
}

export interface Folded {
  readonly rowCount: number;
  /** Input row that gives each output row its position, and its columns unless `gather` says otherwise. */
  readonly rows: Int32Array;
  /** MergeOp a row. */
  readonly ops: Uint8Array;
  /** Per column: input row of each output cell; null = `rows`. */
  readonly gather: readonly (Int32Array | null)[];
  /** Per column: bit set = still absent, the table's row is the base; null = none. */
  readonly absent: readonly (Uint8Array | null)[];
  /** Output row whose key's row in the *table* is the base of this row's absent columns; -1 = its own. Null when all are. */
  readonly baseRow: Int32Array | null;
  /** Input rows without a base for an absent column. */
  readonly missing: Int32Array;
  /** Event before each input row of the same key that counted; -1 = none. Walk it to list what a row was folded from. */
  readonly previous: Int32Array;
  readonly folded: number;
  readonly duplicates: number;
  readonly stale: number;
  /** Fills of a row that is gone. */
  readonly noop: number;
}

/** No base: the walk met a delete. */
const NO_BASE = -2;
const RESOLVED = -1;

interface Work {
  readonly input: FoldInput;
  /** Two 32-bit words an LSN, low first: a bigint a comparison would be an allocation a comparison. */
  readonly words: Uint32Array;
  readonly partial: Uint8Array | null;
  readonly last: Int32Array;
  readonly previous: Int32Array;
  readonly rows: Int32Array;
  readonly outputOf: Int32Array;
  readonly gather: (Int32Array | null)[];
  readonly absent: (Uint8Array | null)[];
  /** Key whose table row is the base, an output row each; RESOLVED where nothing is absent. */
  readonly baseKeys: Int32Array;
  outputs: number;
  missing: number[];
  noop: number;
  /** Columns still absent during a walk. */
  readonly pending: Int32Array;
}

export function fold(input: FoldInput): Folded {
  const { rowCount, keyCount } = input;
  const work: Work = {
    input,
    words: new Uint32Array(input.lsns.buffer, input.lsns.byteOffset, rowCount * 2),
    partial: unionOf(input.absent),
    last: new Int32Array(keyCount).fill(-1),
    previous: new Int32Array(rowCount).fill(-1),
    rows: new Int32Array(keyCount),
    outputOf: new Int32Array(keyCount).fill(-1),
    gather: input.absent.map(() => null),
    absent: input.absent.map(() => null),
    baseKeys: new Int32Array(keyCount).fill(RESOLVED),
    outputs: 0,
    missing: [],
    noop: 0,
    pending: new Int32Array(input.absent.length),
  };
  const linked = linkChains(work);
  for (let key = 0; key < keyCount; key++) settleKey(work, key);
  const count = work.outputs;
  const ops = new Uint8Array(count);
  for (let i = 0; i < count; i++)
    ops[i] = input.kinds[work.rows[i] ?? 0] === EventKind.delete ? MergeOp.delete : MergeOp.upsert;
  return {
    rowCount: count,
    rows: work.rows.subarray(0, count),
    ops,
    gather: work.gather.map((rows) => rows?.subarray(0, count) ?? null),
    absent: work.absent.map((bits) => bits?.subarray(0, (count + 7) >> 3) ?? null),
    baseRow: baseRows(work),
    missing: Int32Array.from(work.missing),
    previous: work.previous,
    folded: linked.chained + linked.truncated - count - work.missing.length - work.noop,
    duplicates: linked.duplicates,
    stale: linked.stale,
    noop: work.noop,
  };
}

/** Links each key's events newest first; leaves out duplicates, stale events and those that a truncate took. */
function linkChains(work: Work): { chained: number; truncated: number; duplicates: number; stale: number } {
  const { input, last, previous } = work;
  const { keyIds, rowCount, truncate } = input;
  let chained = 0;
  let truncated = 0;
  let duplicates = 0;
  let stale = 0;
  for (let row = 0; row < rowCount; row++) {
    if (truncate !== null && compareTo(work, row, truncate) < 0) {
      truncated++;
      continue;
    }
    const key = keyIds[row] ?? 0;
    const before = last[key] ?? -1;
    if (before >= 0) {
      const order = compareRows(work, row, before);
      if (order <= 0) {
        if (order === 0) duplicates++;
        else stale++;
        continue;
      }
    }
    previous[row] = before;
    last[key] = row;
    chained++;
  }
  return { chained, truncated, duplicates, stale };
}

/** Finds the newest state of a key that has a base, and emits it. */
function settleKey(work: Work, key: number): void {
  const { input, last, previous, partial } = work;
  let head = last[key] ?? -1;
  while (head >= 0) {
    const kind = input.kinds[head];
    if (kind === EventKind.delete || partial === null || !bit(partial, head)) {
      emit(work, key, head, RESOLVED);
      return;
    }
    const before = previous[head] ?? -1;
    if (kind === EventKind.fill && before >= 0 && input.kinds[before] === EventKind.delete) {
      work.noop++;
      head = before;
      continue;
    }
    if (resolve(work, key, head)) return;
    head = giveUp(work, head);
  }
}

/** Marks the events from `head` back to the delete (or key change) that cut them off from a base; returns what is before. */
function giveUp(work: Work, head: number): number {
  const { input, previous } = work;
  let row = head;
  for (;;) {
    work.missing.push(row);
    const before = previous[row] ?? -1;
    if (before < 0 || input.kinds[before] === EventKind.delete || (input.otherKeyIds[row] ?? -1) >= 0) return before;
    row = before;
  }
}

/** Walks back from `head` until every absent column has a source or the table is the base. False: there is no base. */
function resolve(work: Work, key: number, head: number): boolean {
  const { input, pending } = work;
  let open = 0;
  input.absent.forEach((bits, column) => {
    if (bits !== null && bit(bits, head)) pending[open++] = column;
  });
  const found: number[] = [];
  let chain = key;
  let row = head;
  let base = RESOLVED;
  while (open > 0) {
    const other = input.otherKeyIds[row] ?? -1;
    let next: number;
    if (other >= 0 && input.kinds[row] !== EventKind.delete) {
      chain = other;
      next = newestBefore(work, other, row);
    } else next = work.previous[row] ?? -1;
    if (next < 0) {
      base = chain;
      break;
    }
    if (input.kinds[next] === EventKind.delete) {
      base = NO_BASE;
      break;
    }
    let still = 0;
    for (let i = 0; i < open; i++) {
      const column = pending[i] ?? 0;
      const bits = input.absent[column] ?? null;
      if (bits !== null && bit(bits, next)) pending[still++] = column;
      else found.push(column, next);
    }
    open = still;
    row = next;
  }
  // A key change whose old key has no event left in the batch cannot name its base row.
  if (base === NO_BASE || (base >= 0 && base !== key && (work.last[base] ?? -1) < 0)) return false;
  const output = emit(work, key, head, base);
  for (let i = 0; i < found.length; i += 2) gatherOf(work, found[i] ?? 0)[output] = found[i + 1] ?? 0;
  for (let i = 0; i < open; i++) setAbsent(work, pending[i] ?? 0, output);
  return true;
}

/** Newest event of a key before the delete half that belongs to the insert half `row`. */
function newestBefore(work: Work, key: number, row: number): number {
  const { input, words } = work;
  const limitOrd = (input.ords[row] ?? 0) & ~1;
  const low = words[row * 2] ?? 0;
  const high = words[row * 2 + 1] ?? 0;
  const epoch = input.epochs[row] ?? 0;
  let candidate = work.last[key] ?? -1;
  while (candidate >= 0) {
    const order =
      (input.epochs[candidate] ?? 0) - epoch ||
      (words[candidate * 2 + 1] ?? 0) - high ||
      (words[candidate * 2] ?? 0) - low ||
      (input.ords[candidate] ?? 0) - limitOrd;
    if (order < 0) return candidate;
    candidate = work.previous[candidate] ?? -1;
  }
  return -1;
}

function emit(work: Work, key: number, row: number, baseKey: number): number {
  const output = work.outputs++;
  work.rows[output] = row;
  work.outputOf[key] = output;
  work.baseKeys[output] = baseKey === key ? RESOLVED : baseKey;
  for (const rows of work.gather) if (rows !== null) rows[output] = row;
  return output;
}

function gatherOf(work: Work, column: number): Int32Array {
  const known = work.gather[column];
  if (known != null) return known;
  const rows = Int32Array.from(work.rows);
  work.gather[column] = rows;
  return rows;
}

function setAbsent(work: Work, column: number, output: number): void {
  let bits = work.absent[column] ?? null;
  if (bits === null) {
    bits = new Uint8Array((work.rows.length + 7) >> 3);
    work.absent[column] = bits;
  }
  bits[output >> 3] = (bits[output >> 3] ?? 0) | (1 << (output & 7));
}

function baseRows(work: Work): Int32Array | null {
  const { baseKeys, outputs, outputOf } = work;
  let any: Int32Array | null = null;
  for (let output = 0; output < outputs; output++) {
    const key = baseKeys[output] ?? RESOLVED;
    if (key < 0) continue;
    any ??= new Int32Array(outputs).fill(-1);
    any[output] = outputOf[key] ?? -1;
  }
  return any;
}

function compareRows(work: Work, a: number, b: number): number {
  const { input, words } = work;
  return (
    (input.epochs[a] ?? 0) - (input.epochs[b] ?? 0) ||
    (words[a * 2 + 1] ?? 0) - (words[b * 2 + 1] ?? 0) ||
    (words[a * 2] ?? 0) - (words[b * 2] ?? 0) ||
    (input.ords[a] ?? 0) - (input.ords[b] ?? 0)
  );
}

function compareTo(work: Work, row: number, position: RowPosition): number {
  const { input } = work;
  const epoch = (input.epochs[row] ?? 0) - position.epoch;
  if (epoch !== 0) return epoch;
  const lsn = input.lsns[row] ?? 0n;
  if (lsn !== position.lsn) return lsn < position.lsn ? -1 : 1;
  return (input.ords[row] ?? 0) - position.ord;
}

function unionOf(absent: readonly (Uint8Array | null)[]): Uint8Array | null {
  let union: Uint8Array | null = null;
  for (const bits of absent) {
    if (bits === null) continue;
    if (union === null) union = Uint8Array.from(bits);
    else for (let i = 0; i < bits.length; i++) union[i] = (union[i] ?? 0) | (bits[i] ?? 0);
  }
  return union;
}

function bit(bits: Uint8Array, row: number): boolean {
  return ((bits[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
}
