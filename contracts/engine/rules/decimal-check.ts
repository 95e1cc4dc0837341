/**
 * Checks on numeric's text as PostgreSQL prints it (`-12.30`, `0.001`, `NaN`, `Infinity`), digit by digit: nothing is
 * parsed or allocated for a good value. Exponents (other producers write them) take the slow way through decimal-text.ts.
 */
import { compareDecimals, isMultipleOf, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';

/** `plain`: a finite number; `special`: NaN or an infinity. */
export type DecimalClass = 'plain' | 'special' | 'invalid';

export function classifyDecimal(text: string): DecimalClass {
  const { length } = text;
  let at = text.charCodeAt(0) === 45 ? 1 : 0;
  const first = at;
  while (at < length && isDigit(text.charCodeAt(at))) at++;
  const whole = at - first;
  if (at === length && whole > 0) return 'plain';
  if (text.charCodeAt(at) === 46) {
    const point = at;
    at++;
    while (at < length && isDigit(text.charCodeAt(at))) at++;
    if (at === length && whole + at - point > 1) return 'plain';
  }
  if (text === 'NaN' || text === 'Infinity' || text === '-Infinity') return 'special';
  return parseDecimal(text) === null ? 'invalid' : 'plain';
}

/** A plain text is exactly representable as decimal(precision, scale): no digit is lost on either side. */
export function fitsDecimal(text: string, precision: number, scale: number): boolean {
  const { length } = text;
  let at = text.charCodeAt(0) === 45 ? 1 : 0;
  while (at < length && text.charCodeAt(at) === 48) at++;
  const first = at;
  while (at < length && isDigit(text.charCodeAt(at))) at++;
  if (at - first > precision - scale) return false;
  if (at === length) return true;
  if (text.charCodeAt(at) !== 46) return fitsSlowly(text, precision, scale);
  const point = at;
  let last = length;
  while (last > point + 1 && text.charCodeAt(last - 1) === 48) last--;
  if (last - point - 1 > scale) return false;
  for (let i = point + 1; i < last; i++) if (!isDigit(text.charCodeAt(i))) return fitsSlowly(text, precision, scale);
  return true;
}

function fitsSlowly(text: string, precision: number, scale: number): boolean {
  const value = parseDecimal(text);
  if (value === null) return false;
  const step: Decimal = { unscaled: 1n, scale };
  const limit: Decimal = { unscaled: 10n ** BigInt(precision - scale), scale: 0 };
  const size: Decimal = { unscaled: value.unscaled < 0n ? -value.unscaled : value.unscaled, scale: value.scale };
  return isMultipleOf(value, step) && compareDecimals(size, limit) < 0;
}

/** A bound prepared once. */
export interface DecimalBound {
  readonly value: Decimal;
  readonly negative: boolean;
  readonly whole: string;
  readonly fraction: string;
}

/** Null when the text is no number. */
export function decimalBound(text: string): DecimalBound | null {
  const value = parseDecimal(text);
  if (value === null) return null;
  const negative = value.unscaled < 0n;
  const all = (negative ? -value.unscaled : value.unscaled).toString().padStart(value.scale + 1, '0');
  const whole = all.slice(0, all.length - value.scale).replace(/^0+/, '');
  const fraction = all.slice(all.length - value.scale).replace(/0+$/, '');
  return { value, negative, whole, fraction: value.scale === 0 ? '' : fraction };
}

/** Sign of (text − bound) in PostgreSQL's order: NaN above everything, then Infinity. The text is plain or special. */
export function compareDecimalText(text: string, bound: DecimalBound): number {
  const code = text.charCodeAt(0);
  if (code === 78 || code === 73) return 1;
  const negative = code === 45;
  if (negative && text.charCodeAt(1) === 73) return -1;
  const magnitude = compareMagnitude(text, negative ? 1 : 0, bound);
  if (magnitude === null) return compareSlowly(text, bound);
  // A zero has no sign: -0.00 equals 0.
  const boundIsZero = bound.whole === '' && bound.fraction === '';
  if (!boundIsZero && negative !== bound.negative) {
    if (isZero(text)) return bound.negative ? 1 : -1;
    return negative ? -1 : 1;
  }
  return negative ? 0 - magnitude : magnitude;
}

/** |text| against |bound|: more whole digits are more, else the first differing digit decides. Null: not plain digits. */
function compareMagnitude(text: string, start: number, bound: DecimalBound): number | null {
  const { length } = text;
  let at = start;
  while (at < length && text.charCodeAt(at) === 48) at++;
  const first = at;
  while (at < length && isDigit(text.charCodeAt(at))) at++;
  if (at < length && text.charCodeAt(at) !== 46) return null;
  const wholeDigits = at - first;
  if (wholeDigits !== bound.whole.length) return wholeDigits < bound.whole.length ? -1 : 1;
  for (let i = 0; i < wholeDigits; i++) {
    const difference = text.charCodeAt(first + i) - bound.whole.charCodeAt(i);
    if (difference !== 0) return difference < 0 ? -1 : 1;
  }
  const { fraction } = bound;
  const digitsLeft = Math.max(fraction.length, length - at - 1);
  for (let i = 0; i < digitsLeft; i++) {
    const position = at + 1 + i;
    const a = position < length ? text.charCodeAt(position) : 48;
    if (!isDigit(a)) return null;
    const difference = a - (i < fraction.length ? fraction.charCodeAt(i) : 48);
    if (difference !== 0) return difference < 0 ? -1 : 1;
  }
  return 0;
}

function compareSlowly(text: string, bound: DecimalBound): number {
  const value = parseDecimal(text);
  return value === null ? 0 : compareDecimals(value, bound.value);
}

function isZero(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 48 && code <= 57) return false;
  }
  return true;
}

/** Exact: 143.48 is a multiple of 0.01, which no double can say. NaN and the infinities are not. */
export function isDecimalMultiple(text: string, step: Decimal): boolean {
  const value = parseDecimal(text);
  return value !== null && isMultipleOf(value, step);
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}
