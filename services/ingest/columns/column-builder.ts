/**
 * Builders that turn decoded cells into Arrow-shaped columns (lakehouse/table/column.ts), one row after another.
 *
 * A row is appended column by column and may fail in the middle, so every builder can go back to a row count. They are
 * classes because this is the hottest loop of the product: one hidden class a kind, fields instead of captured variables,
 * no allocation for a row that fits.
 */
import type { Cell } from '../../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';

export interface ColumnBuilder {
  /** Rows appended so far. */
  readonly length: number;
  /** Room for so many rows more, and for so many bytes of theirs: what is known to come need not be grown into. */
  expect(rows: number, bytes: number): void;
  /** Appends a cell (NULL included). False: the column's type cannot hold it, and nothing was appended. */
  append(cell: Cell): boolean;
  appendNull(): void;
  /** The event did not carry this column: a NULL in the vector plus a bit in `absent`. */
  appendAbsent(): void;
  /** Forgets every row from `length` on. */
  truncate(length: number): void;
  /** Forgets every row, and keeps the memory: of a column that nobody reads any more. */
  reset(): void;
  /** The column so far. Shares memory with the builder, which must not be appended to afterwards. */
  finish(): ColumnVector;
  /** Bit set = row not carried; null when every row carries the column. */
  absent(): Uint8Array | null;
  /** Bytes held, for the batch's memory limit. */
  bytesHeld(): number;
}

const INITIAL_ROWS = 1024;

/** Row count, validity and absence: the part that all builders share. */
export abstract class RowState {
  length = 0;
  protected capacity = INITIAL_ROWS;
  private valid = new Uint8Array(INITIAL_ROWS >> 3);
  private missing: Uint8Array | null = null;
  private nulls = 0;
  private absents = 0;

  protected abstract grow(capacity: number): void;

  /** Marks the next row present and counts it. The value must stand at index `length - 1` afterwards. */
  protected pushValid(): void {
    const row = this.length;
    const at = row >> 3;
    this.valid[at] = (this.valid[at] ?? 0) | (1 << (row & 7));
    if (this.missing !== null) this.missing[at] = (this.missing[at] ?? 0) & ~(1 << (row & 7));
    this.length = row + 1;
  }

  /** As many rows at once, NULL where the length is negative. Their values must stand there already. */
  protected pushRows(lengths: Int32Array, from: number, to: number): void {
    const { valid, missing } = this;
    let row = this.length;
    for (let i = from; i < to; i++, row++) {
      const at = row >> 3;
      const bit = 1 << (row & 7);
      if ((lengths[i] as number) < 0) {
        valid[at] = (valid[at] as number) & ~bit;
        this.nulls++;
      } else valid[at] = (valid[at] as number) | bit;
      if (missing !== null) missing[at] = (missing[at] as number) & ~bit;
    }
    this.length = row;
  }

  protected pushNull(absent: boolean): void {
    const row = this.length;
    const at = row >> 3;
    const bit = 1 << (row & 7);
    this.valid[at] = (this.valid[at] ?? 0) & ~bit;
    this.nulls++;
    if (absent && this.missing === null) this.missing = new Uint8Array(this.capacity >> 3);
    if (this.missing !== null) {
      this.missing[at] = absent ? (this.missing[at] ?? 0) | bit : (this.missing[at] ?? 0) & ~bit;
      if (absent) this.absents++;
    }
    this.length = row + 1;
  }

  /** Room for one more row. */
  protected ensureRow(): void {
    if (this.length < this.capacity) return;
    const capacity = this.capacity * 2;
    this.valid = widen(this.valid, capacity >> 3);
    if (this.missing !== null) this.missing = widen(this.missing, capacity >> 3);
    this.capacity = capacity;
    this.grow(capacity);
  }

  /** Room for so many rows more. */
  protected ensureRows(count: number): void {
    const needed = this.length + count;
    if (needed <= this.capacity) return;
    let { capacity } = this;
    while (capacity < needed) capacity *= 2;
    this.valid = widen(this.valid, capacity >> 3);
    if (this.missing !== null) this.missing = widen(this.missing, capacity >> 3);
    this.capacity = capacity;
    this.grow(capacity);
  }

  expect(rows: number, _bytes: number): void {
    this.ensureRows(rows);
  }

  truncate(length: number): void {
    while (this.length > length) {
      const row = --this.length;
      const bit = 1 << (row & 7);
      if (((this.valid[row >> 3] ?? 0) & bit) === 0) this.nulls--;
      if (this.missing !== null && ((this.missing[row >> 3] ?? 0) & bit) !== 0) this.absents--;
    }
  }

  reset(): void {
    this.length = 0;
    this.valid.fill(0);
    this.missing = null;
    this.nulls = 0;
    this.absents = 0;
  }

  protected validity(): Uint8Array | null {
    return this.nulls === 0 ? null : this.valid.subarray(0, (this.length + 7) >> 3);
  }

  absent(): Uint8Array | null {
    return this.absents === 0 || this.missing === null ? null : this.missing.subarray(0, (this.length + 7) >> 3);
  }

  protected bitmapBytes(): number {
    return this.valid.byteLength + (this.missing?.byteLength ?? 0);
  }
}

export function widen(bytes: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const wider = new Uint8Array(size);
  wider.set(bytes);
  return wider;
}

export { INITIAL_ROWS };
