/**
 * What each row of a batch will do, decided from the index's answers. Pure.
 *
 * Per row, newer wins by (epoch, lsn, ord): a row is held against the living row of its key, or where there is none
 * against the fence of the key's delete; equal means the same event again. The last TRUNCATE fences every key.
 */
import { ABSENT, FENCE, FOUND_WORDS, type Lookup } from '../index/entry.ts';
import type { TruncatePosition } from '../index/manifest.ts';
import { MergeOp, RowOutcome } from './merge.ts';
import type { Positions } from './position-columns.ts';

/** In the index's epoch word: the row stands for a delete (soft-delete mode). */
export const SOFT_DELETED_BIT = 0x8000_0000;

export const NO_BASE = 0xffff_ffff;

export interface ResolveInput {
  readonly rowCount: number;
  readonly ops: Uint8Array;
  readonly positions: Positions;
  readonly absent: readonly (Uint8Array | null)[];
  /** MergeBatch.baseRow. */
  readonly donors: Int32Array | null;
  readonly lookup: Lookup;
  /** Whether the row still stands in the table's snapshot. */
  readonly isLive: (file: number, row: number) => boolean;
  /** Rows of the table below it go with this batch. */
  readonly truncate: TruncatePosition | null;
  /** Soft-delete mode: a row that the truncate clears still stands, as deleted, and is what the batch's row replaces. */
  readonly keepsCleared: boolean;
  /** The last one that was applied. */
  readonly lastTruncate: TruncatePosition | null;
}

export interface Resolution {
  /** RowOutcome a row. */
  readonly outcomes: Uint8Array;
  /** File ordinal and row of the key's living row (soft-deleted ones too), NO_BASE without one. */
  readonly baseFile: Uint32Array;
  readonly baseRow: Uint32Array;
  /** Batch row whose place in the table gives a row its absent columns; -1 = its own place. Null = all their own. */
  readonly donors: Int32Array | null;
  /** Batch row, file, row, …: more living rows of a written key (another writer repeated it); they go too. */
  readonly extra: readonly number[];
}

export function resolveRows(input: ResolveInput): Resolution {
  const { rowCount, ops, positions, lookup, isLive, truncate, lastTruncate } = input;
  const { found } = lookup;
  const outcomes = new Uint8Array(rowCount);
  const baseFile = new Uint32Array(rowCount).fill(NO_BASE);
  const baseRow = new Uint32Array(rowCount);
  const incomplete = rowsWithAbsent(input.absent, rowCount);
  const promoted = promoteExtras(lookup, isLive);
  for (let row = 0; row < rowCount; row++) {
    const at = row * FOUND_WORDS;
    const file = found[at] ?? ABSENT;
    const isDelete = ops[row] === MergeOp.delete;
    if (truncate !== null && isBefore(positions, row, truncate)) {
      outcomes[row] = RowOutcome.stale;
      continue;
    }
    if (lastTruncate !== null && !isAfter(positions, row, lastTruncate)) {
      outcomes[row] = RowOutcome.stale;
      continue;
    }
    const standing = file !== ABSENT && file !== FENCE && isLive(file, found[at + 1] ?? 0);
    const cleared = standing && truncate !== null && entryBefore(found, at, truncate);
    if ((standing || file === FENCE) && !isNewer(positions, row, found, at)) {
      outcomes[row] = RowOutcome.stale;
      continue;
    }
    const living = standing && !cleared && ((found[at + 2] ?? 0) & SOFT_DELETED_BIT) === 0;
    if (standing && (!cleared || input.keepsCleared)) {
      baseFile[row] = file;
      baseRow[row] = found[at + 1] ?? 0;
    }
    if (isDelete) outcomes[row] = living ? RowOutcome.delete : RowOutcome.noop;
    else if (living) outcomes[row] = RowOutcome.update;
    else if (((incomplete[row >> 3] ?? 0) & (1 << (row & 7))) !== 0) outcomes[row] = RowOutcome.missingBase;
    else outcomes[row] = RowOutcome.insert;
  }
  const living = (row: number): boolean => {
    const at = row * FOUND_WORDS;
    const stands = baseFile[row] !== NO_BASE && ((found[at + 2] ?? 0) & SOFT_DELETED_BIT) === 0;
    return stands && !(truncate !== null && entryBefore(found, at, truncate));
  };
  if (input.donors !== null) takeDonors(input.donors, outcomes, incomplete, living);
  const extra = livingExtras(promoted, outcomes, isLive);
  return { outcomes, baseFile, baseRow, donors: input.donors, extra };
}

/** A key change whose event left columns out: the old key's row is their base, never a row that stood under the new key. */
function takeDonors(
  donors: Int32Array,
  outcomes: Uint8Array,
  incomplete: Uint8Array,
  living: (row: number) => boolean,
): void {
  donors.forEach((donor, row) => {
    const outcome = outcomes[row];
    const writes = outcome === RowOutcome.insert || outcome === RowOutcome.update || outcome === RowOutcome.missingBase;
    if (donor < 0 || !writes || ((incomplete[row >> 3] ?? 0) & (1 << (row & 7))) === 0) return;
    if (!living(donor)) outcomes[row] = RowOutcome.missingBase;
    else if (outcome === RowOutcome.missingBase) outcomes[row] = RowOutcome.insert;
  });
}

function rowsWithAbsent(absent: readonly (Uint8Array | null)[], rowCount: number): Uint8Array {
  const any = new Uint8Array((rowCount + 7) >> 3);
  for (const bits of absent)
    if (bits !== null) for (let i = 0; i < any.length; i++) any[i] = (any[i] ?? 0) | (bits[i] ?? 0);
  return any;
}

/** Where the first answer of a key is dead but a further one lives, the living one becomes the answer. */
function promoteExtras(lookup: Lookup, isLive: (file: number, row: number) => boolean): readonly number[] {
  const { found, extra } = lookup;
  const kept: number[] = [];
  for (let i = 0; i < extra.length; i += 3) {
    const key = extra[i] ?? 0;
    const file = extra[i + 1] ?? 0;
    const row = extra[i + 2] ?? 0;
    const at = key * FOUND_WORDS;
    if (!isLive(file, row)) continue;
    if (isLive(found[at] ?? ABSENT, found[at + 1] ?? 0)) kept.push(key, file, row);
    else {
      found[at] = file;
      found[at + 1] = row;
    }
  }
  return kept;
}

function livingExtras(
  extras: readonly number[],
  outcomes: Uint8Array,
  isLive: (file: number, row: number) => boolean,
): readonly number[] {
  const out: number[] = [];
  for (let i = 0; i < extras.length; i += 3) {
    const key = extras[i] ?? 0;
    const outcome = outcomes[key];
    const writes = outcome === RowOutcome.update || outcome === RowOutcome.delete;
    if (writes && isLive(extras[i + 1] ?? 0, extras[i + 2] ?? 0)) out.push(key, extras[i + 1] ?? 0, extras[i + 2] ?? 0);
  }
  return out;
}

/** Row's position against that of an answer (found words: file, row, epoch, ord, lsn low, lsn high). */
function isNewer(positions: Positions, row: number, found: Uint32Array, at: number): boolean {
  const epoch = (positions.epoch[row] ?? 0) - ((found[at + 2] ?? 0) & ~SOFT_DELETED_BIT);
  if (epoch !== 0) return epoch > 0;
  const high = (positions.lsnWords[row * 2 + 1] ?? 0) - (found[at + 5] ?? 0);
  if (high !== 0) return high > 0;
  const low = (positions.lsnWords[row * 2] ?? 0) - (found[at + 4] ?? 0);
  if (low !== 0) return low > 0;
  return (positions.ord[row] ?? 0) >>> 0 > (found[at + 3] ?? 0);
}

function compareTo(epoch: number, lsnLow: number, lsnHigh: number, ord: number, other: TruncatePosition): number {
  if (epoch !== other.epoch) return epoch - other.epoch;
  const high = lsnHigh - Number(other.lsn >> 32n);
  if (high !== 0) return high;
  const low = lsnLow - Number(other.lsn & 0xffff_ffffn);
  if (low !== 0) return low;
  return ord - other.ord;
}

export function comparePositionAt(positions: Positions, row: number, other: TruncatePosition): number {
  return compareTo(
    positions.epoch[row] ?? 0,
    positions.lsnWords[row * 2] ?? 0,
    positions.lsnWords[row * 2 + 1] ?? 0,
    positions.ord[row] ?? 0,
    other,
  );
}
const isBefore = (positions: Positions, row: number, other: TruncatePosition): boolean =>
  comparePositionAt(positions, row, other) < 0;
const isAfter = (positions: Positions, row: number, other: TruncatePosition): boolean =>
  comparePositionAt(positions, row, other) > 0;

function entryBefore(found: Uint32Array, at: number, other: TruncatePosition): boolean {
  const epoch = (found[at + 2] ?? 0) & ~SOFT_DELETED_BIT;
  return compareTo(epoch, found[at + 4] ?? 0, found[at + 5] ?? 0, found[at + 3] ?? 0, other) < 0;
}
