import type { Cell } from '../../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import { INITIAL_ROWS, RowState } from './column-builder.ts';
import type { ColumnBuilder } from './column-builder.ts';

const TWO_32 = 4294967296;
/** Digits whose unscaled value is a safe integer whatever they are. */
const SAFE_DIGITS = 15;
const ZERO = 48;

/**
 * decimal(p,s) from PostgreSQL's text: unscaled 128-bit two's complement, low word first. Text with more fraction digits
 * than the scale, or more integer digits than fit, or NaN / Infinity, is refused; it is never rounded.
 */
export class DecimalBuilder extends RowState implements ColumnBuilder {
  private values = new BigInt64Array(INITIAL_ROWS * 2);
  private words = new Int32Array(this.values.buffer);
  private readonly precision: number;
  private readonly scale: number;
  private readonly limit: bigint;
  constructor(precision: number, scale: number) {
    super();
    this.precision = precision;
    this.scale = scale;
    this.limit = 10n ** BigInt(precision);
  }
  protected grow(capacity: number): void {
    const wider = new BigInt64Array(capacity * 2);
    wider.set(this.values);
    this.values = wider;
    this.words = new Int32Array(wider.buffer);
  }
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell === 'string') return this.appendText(cell);
    // Numbers reach a decimal only from foreign topics; integers are exact, fractions in a double are not.
    if (typeof cell === 'bigint' || (typeof cell === 'number' && Number.isSafeInteger(cell)))
      return this.appendText(String(cell));
    return false;
  }

  private appendText(text: string): boolean {
    const length = text.length;
    let at = 0;
    const negative = text.charCodeAt(0) === 45;
    if (negative) at = 1;
    let value = 0;
    let digits = 0;
    let fraction = -1;
    for (; at < length; at++) {
      const code = text.charCodeAt(at);
      if (code === 46 && fraction < 0) {
        fraction = 0;
        continue;
      }
      const digit = code - ZERO;
      if (digit < 0 || digit > 9) return code === 101 || code === 69 ? this.appendExponent(text) : false;
      if (digits < SAFE_DIGITS) value = value * 10 + digit;
      digits++;
      if (fraction >= 0) fraction++;
    }
    if (digits === 0) return false;
    const written = fraction < 0 ? 0 : fraction;
    if (written > this.scale) return this.appendBig(text, negative, written);
    const pad = this.scale - written;
    if (digits + pad > SAFE_DIGITS) return this.appendBig(text, negative, written);
    if (digits + pad > this.precision) return this.appendBig(text, negative, written);
    for (let i = 0; i < pad; i++) value *= 10;
    this.pushSafe(negative ? -value : value);
    return true;
  }

  private appendBig(text: string, negative: boolean, written: number): boolean {
    let body = (negative ? text.slice(1) : text).replace('.', '');
    let pad = this.scale - written;
    // Trailing zeros beyond the scale change nothing; any other digit there would have to be rounded.
    while (pad < 0) {
      if (!body.endsWith('0')) return false;
      body = body.slice(0, -1);
      pad++;
    }
    if (body.length > 1100) return false;
    const magnitude = BigInt(`${body === '' ? '0' : body}${'0'.repeat(pad)}`);
    if (magnitude >= this.limit) return false;
    this.pushBig(negative ? -magnitude : magnitude);
    return true;
  }

  /** `1.5E-7`: PostgreSQL never prints a numeric so; foreign writers do. */
  private appendExponent(text: string): boolean {
    const match = /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d{1,3})$/.exec(text);
    if (match === null) return false;
    const [, sign = '', whole = '', part = '', power = '0'] = match;
    const shift = Number(power) - part.length;
    const digits = whole + part;
    const plain =
      shift >= 0
        ? digits + '0'.repeat(shift)
        : `${digits.padStart(1 - shift, '0').slice(0, shift)}.${digits.padStart(1 - shift, '0').slice(shift)}`;
    return this.appendText(sign + plain);
  }

  private pushSafe(value: number): void {
    this.ensureRow();
    const high = Math.floor(value / TWO_32);
    const at = this.length << 2;
    const words = this.words;
    words[at] = value - high * TWO_32;
    words[at + 1] = high;
    const sign = value < 0 ? -1 : 0;
    words[at + 2] = sign;
    words[at + 3] = sign;
    this.pushValid();
  }
  /** Rows from..to of a block, unscaled safe integers; NULL where the length is negative. */
  pushRun(values: Float64Array, lengths: Int32Array, from: number, to: number): void {
    this.ensureRows(to - from);
    const { words } = this;
    for (let i = from, at = this.length << 2; i < to; i++, at += 4) {
      const value = values[i] as number;
      const high = Math.floor(value / TWO_32);
      const sign = value < 0 ? -1 : 0;
      words[at] = value - high * TWO_32;
      words[at + 1] = high;
      words[at + 2] = sign;
      words[at + 3] = sign;
    }
    this.pushRows(lengths, from, to);
  }
  private pushBig(value: bigint): void {
    this.ensureRow();
    const at = this.length << 1;
    this.values[at] = BigInt.asIntN(64, value);
    this.values[at + 1] = value >> 64n;
    this.pushValid();
  }
  private clearRow(): void {
    this.ensureRow();
    const at = this.length << 1;
    this.values[at] = 0n;
    this.values[at + 1] = 0n;
  }
  appendNull(): void {
    this.clearRow();
    this.pushNull(false);
  }
  appendAbsent(): void {
    this.clearRow();
    this.pushNull(true);
  }
  finish(): ColumnVector {
    return {
      kind: 'decimal',
      precision: this.precision,
      scale: this.scale,
      length: this.length,
      validity: this.validity(),
      values: this.values.subarray(0, this.length * 2),
    };
  }
  bytesHeld(): number {
    return this.values.byteLength + this.bitmapBytes();
  }
}
