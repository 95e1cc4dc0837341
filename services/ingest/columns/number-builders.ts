import type { Cell } from '../../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import { INITIAL_ROWS, RowState, widen } from './column-builder.ts';
import type { ColumnBuilder } from './column-builder.ts';

const TWO_32 = 4294967296;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** boolean: one bit a row. */
export class BooleanBuilder extends RowState implements ColumnBuilder {
  private values = new Uint8Array(INITIAL_ROWS >> 3);
  protected grow(capacity: number): void {
    this.values = widen(this.values, capacity >> 3);
  }
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'boolean') return false;
    this.ensureRow();
    const at = this.length >> 3;
    const bit = 1 << (this.length & 7);
    this.values[at] = cell ? (this.values[at] ?? 0) | bit : (this.values[at] ?? 0) & ~bit;
    this.pushValid();
    return true;
  }
  /** Rows from..to of a block: 1 and 0, NULL where the length is negative. */
  pushRun(values: Float64Array, lengths: Int32Array, from: number, to: number): void {
    this.ensureRows(to - from);
    const bits = this.values;
    for (let i = from, row = this.length; i < to; i++, row++) {
      const bit = 1 << (row & 7);
      const at = row >> 3;
      bits[at] = values[i] === 1 ? (bits[at] as number) | bit : (bits[at] as number) & ~bit;
    }
    this.pushRows(lengths, from, to);
  }
  appendNull(): void {
    this.ensureRow();
    this.pushNull(false);
  }
  appendAbsent(): void {
    this.ensureRow();
    this.pushNull(true);
  }
  override reset(): void {
    super.reset();
    this.values.fill(0);
  }
  finish(): ColumnVector {
    return {
      kind: 'boolean',
      length: this.length,
      validity: this.validity(),
      values: this.values.subarray(0, (this.length + 7) >> 3),
    };
  }
  bytesHeld(): number {
    return this.values.byteLength + this.bitmapBytes();
  }
}

/** byte, short, integer (bounds given), and the day numbers that the date builder writes. */
export class Int32Builder extends RowState implements ColumnBuilder {
  private values = new Int32Array(INITIAL_ROWS);
  private readonly min: number;
  private readonly max: number;
  constructor(min: number, max: number) {
    super();
    this.min = min;
    this.max = max;
  }
  protected grow(capacity: number): void {
    const wider = new Int32Array(capacity);
    wider.set(this.values);
    this.values = wider;
  }
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'number' || !Number.isInteger(cell) || cell < this.min || cell > this.max) return false;
    this.push(cell);
    return true;
  }
  /** `value` must be an integer within the bounds. */
  push(value: number): void {
    this.ensureRow();
    this.values[this.length] = value;
    this.pushValid();
  }
  /** Rows from..to of a block, all within the bounds; NULL where the length is negative. */
  pushRun(values: Float64Array, lengths: Int32Array, from: number, to: number): void {
    this.ensureRows(to - from);
    const target = this.values;
    for (let i = from, row = this.length; i < to; i++, row++) target[row] = values[i] as number;
    this.pushRows(lengths, from, to);
  }
  appendNull(): void {
    this.ensureRow();
    this.values[this.length] = 0;
    this.pushNull(false);
  }
  appendAbsent(): void {
    this.ensureRow();
    this.values[this.length] = 0;
    this.pushNull(true);
  }
  finish(): ColumnVector {
    return {
      kind: 'int32',
      length: this.length,
      validity: this.validity(),
      values: this.values.subarray(0, this.length),
    };
  }
  bytesHeld(): number {
    return this.values.byteLength + this.bitmapBytes();
  }
}

/**
 * long, and the microseconds that the timestamp builder writes. Words are written as two 32-bit halves: a bigint per
 * cell would be an allocation per cell. Halves of a *safe* integer are exact in double arithmetic.
 */
export class Int64Builder extends RowState implements ColumnBuilder {
  private values = new BigInt64Array(INITIAL_ROWS);
  private halves = new Int32Array(this.values.buffer);
  protected grow(capacity: number): void {
    const wider = new BigInt64Array(capacity);
    wider.set(this.values);
    this.values = wider;
    this.halves = new Int32Array(wider.buffer);
  }
  append(cell: Cell): boolean {
    if (typeof cell === 'number') {
      if (!Number.isSafeInteger(cell)) return false;
      this.pushSafe(cell);
      return true;
    }
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'bigint' || cell < INT64_MIN || cell > INT64_MAX) return false;
    this.pushBig(cell);
    return true;
  }
  /** A safe integer. */
  pushSafe(value: number): void {
    this.ensureRow();
    const high = Math.floor(value / TWO_32);
    const at = this.length << 1;
    this.halves[at] = value - high * TWO_32;
    this.halves[at + 1] = high;
    this.pushValid();
  }
  /** Rows from..to of a block, all safe integers; NULL where the length is negative. */
  pushRun(values: Float64Array, lengths: Int32Array, from: number, to: number): void {
    this.ensureRows(to - from);
    const { halves } = this;
    for (let i = from, at = this.length << 1; i < to; i++, at += 2) {
      const value = values[i] as number;
      const high = Math.floor(value / TWO_32);
      halves[at] = value - high * TWO_32;
      halves[at + 1] = high;
    }
    this.pushRows(lengths, from, to);
  }
  pushBig(value: bigint): void {
    this.ensureRow();
    this.values[this.length] = value;
    this.pushValid();
  }
  appendNull(): void {
    this.ensureRow();
    this.values[this.length] = 0n;
    this.pushNull(false);
  }
  appendAbsent(): void {
    this.ensureRow();
    this.values[this.length] = 0n;
    this.pushNull(true);
  }
  finish(): ColumnVector {
    return {
      kind: 'int64',
      length: this.length,
      validity: this.validity(),
      values: this.values.subarray(0, this.length),
    };
  }
  bytesHeld(): number {
    return this.values.byteLength + this.bitmapBytes();
  }
}

/** float and double. NaN, the infinities and -0 are values like any other. */
export class FloatBuilder extends RowState implements ColumnBuilder {
  private readonly wide: boolean;
  private values: Float32Array | Float64Array;
  constructor(wide: boolean) {
    super();
    this.wide = wide;
    this.values = wide ? new Float64Array(INITIAL_ROWS) : new Float32Array(INITIAL_ROWS);
  }
  protected grow(capacity: number): void {
    const wider = this.wide ? new Float64Array(capacity) : new Float32Array(capacity);
    wider.set(this.values);
    this.values = wider;
  }
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    const value = floatOf(cell);
    if (value === undefined) return false;
    this.ensureRow();
    this.values[this.length] = value;
    this.pushValid();
    return true;
  }
  /** Rows from..to of a block; NULL where the length is negative. */
  pushRun(values: Float64Array, lengths: Int32Array, from: number, to: number): void {
    this.ensureRows(to - from);
    this.values.set(values.subarray(from, to), this.length);
    this.pushRows(lengths, from, to);
  }
  appendNull(): void {
    this.ensureRow();
    this.values[this.length] = 0;
    this.pushNull(false);
  }
  appendAbsent(): void {
    this.ensureRow();
    this.values[this.length] = 0;
    this.pushNull(true);
  }
  finish(): ColumnVector {
    const shared = { length: this.length, validity: this.validity() };
    return this.values instanceof Float64Array
      ? { kind: 'float64', ...shared, values: this.values.subarray(0, this.length) }
      : { kind: 'float32', ...shared, values: this.values.subarray(0, this.length) };
  }
  bytesHeld(): number {
    return this.values.byteLength + this.bitmapBytes();
  }
}

function floatOf(cell: Cell): number | undefined {
  if (typeof cell === 'number') return cell;
  // Digits beyond 2^53 reach us as a bigint; the nearest double is what PostgreSQL printed them from.
  if (typeof cell === 'bigint') return Number(cell);
  if (cell === 'NaN') return Number.NaN;
  if (cell === 'Infinity') return Number.POSITIVE_INFINITY;
  if (cell === '-Infinity') return Number.NEGATIVE_INFINITY;
  return undefined;
}
