/**
 * One column of a block of rows, from PostgreSQL's text to numbers, in one loop a type. A value that is none of the plain
 * kind (more digits than a double holds, a year before 1, an array) is left to its cell: `odd`. Text needs no parsing at all.
 */
import { isUtf8 } from 'node:buffer';
import { daysOf } from '../../../lakehouse/table/calendar.ts';
import type { BlockColumn } from '../../log/row-block.ts';

const ZERO = 48;
const NINE = 57;
const MINUS = 45;
const DOT = 46;
const COLON = 58;
/** So many digits are exact in a double, whatever they are. */
const EXACT_DIGITS = 15;
const POWERS = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
/** Seconds of which the microseconds are a safe integer. */
const SAFE_SECONDS = 9_007_199_253;

/** Writes the numbers of rows from..to; NaN = odd. NULL rows get 0. Whether any is odd (of floats none ever is). */
export type ColumnParser = (column: BlockColumn, values: Float64Array, from: number, to: number) => boolean;

/** Whole numbers within the bounds. */
export function integerParser(min: number, max: number): ColumnParser {
  return ({ bytes, starts, lengths }, values, from, to) => {
    let odd = false;
    for (let row = from; row < to; row++) {
      const length = lengths[row] as number;
      if (length < 0) {
        values[row] = 0;
        continue;
      }
      let at = starts[row] as number;
      const end = at + length;
      const negative = bytes[at] === MINUS;
      if (negative) at++;
      let value = 0;
      let plain = end > at && end - at <= EXACT_DIGITS;
      for (; plain && at < end; at++) {
        const code = bytes[at] as number;
        if (code < ZERO || code > NINE) plain = false;
        else value = value * 10 + (code - ZERO);
      }
      if (negative && value !== 0) value = -value;
      if (plain && value >= min && value <= max) values[row] = value;
      else {
        values[row] = Number.NaN;
        odd = true;
      }
    }
    return odd;
  };
}

/** Every float has a number; a NaN among them is the value NaN. */
export const parseFloats: ColumnParser = ({ bytes, starts, lengths }, values, from, to) => {
  for (let row = from; row < to; row++) {
    const length = lengths[row] as number;
    values[row] = length < 0 ? 0 : floatAt(bytes, starts[row] as number, (starts[row] as number) + length);
  }
  return false;
};

/** Up to 15 digits by a power of ten are one exact division; anything longer is the engine's business. */
function floatAt(bytes: Buffer, start: number, end: number): number {
  let at = start;
  const negative = bytes[at] === MINUS;
  if (negative) at++;
  let value = 0;
  let digits = 0;
  let point = -1;
  for (; at < end; at++) {
    const code = bytes[at] as number;
    if (code === DOT && point < 0) point = at;
    else if (code >= ZERO && code <= NINE && digits < EXACT_DIGITS) {
      value = value * 10 + (code - ZERO);
      digits++;
    } else return Number(bytes.toString('latin1', start, end));
  }
  if (digits === 0) return Number(bytes.toString('latin1', start, end));
  if (point >= 0) value /= POWERS[end - point - 1] as number;
  return negative ? -value : value;
}

export const parseBooleans: ColumnParser = ({ bytes, starts, lengths }, values, from, to) => {
  for (let row = from; row < to; row++)
    values[row] = (lengths[row] as number) > 0 && bytes[starts[row] as number] === 0x74 ? 1 : 0;
  return false;
};

/** Unscaled values of up to 15 digits. */
export function decimalParser(precision: number, scale: number): ColumnParser {
  const digitsMax = Math.min(precision, EXACT_DIGITS);
  return ({ bytes, starts, lengths }, values, from, to) => {
    let odd = false;
    for (let row = from; row < to; row++) {
      const length = lengths[row] as number;
      values[row] = 0;
      if (length < 0) continue;
      let at = starts[row] as number;
      const end = at + length;
      const negative = bytes[at] === MINUS;
      if (negative) at++;
      let value = 0;
      let digits = 0;
      let point = -1;
      let plain = true;
      for (; plain && at < end; at++) {
        const code = bytes[at] as number;
        if (code === DOT && point < 0) point = at;
        else if (code < ZERO || code > NINE || digits >= digitsMax) plain = false;
        else {
          value = value * 10 + (code - ZERO);
          digits++;
        }
      }
      const pad = scale - (point < 0 ? 0 : end - point - 1);
      if (!plain || digits === 0 || pad < 0 || digits + pad > digitsMax) {
        values[row] = Number.NaN;
        odd = true;
        continue;
      }
      value *= POWERS[pad] as number;
      values[row] = negative && value !== 0 ? -value : value;
    }
    return odd;
  };
}

/** Days since 1970-01-01. */
export const parseDates: ColumnParser = ({ bytes, starts, lengths }, values, from, to) => {
  let odd = false;
  for (let row = from; row < to; row++) {
    const length = lengths[row] as number;
    const days = length < 0 ? 0 : length === 10 ? dateAt(bytes, starts[row] as number) : Number.NaN;
    values[row] = days;
    if (Number.isNaN(days)) odd = true;
  }
  return odd;
};

/** Microseconds since 1970-01-01, of text with or without `+00`. */
export function timestampParser(zoned: boolean): ColumnParser {
  return ({ bytes, starts, lengths }, values, from, to) => {
    let odd = false;
    for (let row = from; row < to; row++) {
      const length = lengths[row] as number;
      const micros = length < 0 ? 0 : timestampAt(bytes, starts[row] as number, length, zoned);
      values[row] = micros;
      if (Number.isNaN(micros)) odd = true;
    }
    return odd;
  };
}

/** Rows one after the other mostly share their date. */
let lastDate = -1;
let lastDays = 0;

/** `YYYY-MM-DD`; NaN when it is no such date, or one that the calendar decides. */
function dateAt(bytes: Buffer, at: number): number {
  const year = two(bytes, at) * 100 + two(bytes, at + 2);
  const month = two(bytes, at + 5);
  const day = two(bytes, at + 8);
  // A pair that is no number makes the whole negative, as far below zero as it takes.
  if (year < 1 || month < 1 || month > 12 || day < 1 || bytes[at + 4] !== MINUS || bytes[at + 7] !== MINUS)
    return Number.NaN;
  if (day > 28 && day > monthDays(year, month)) return Number.NaN;
  const date = (year * 16 + month) * 32 + day;
  if (date === lastDate) return lastDays;
  lastDate = date;
  lastDays = daysOf(year, month, day);
  return lastDays;
}

function timestampAt(bytes: Buffer, start: number, length: number, zoned: boolean): number {
  let end = start + length;
  if (zoned) {
    if (bytes[end - 3] !== 0x2b || bytes[end - 2] !== ZERO || bytes[end - 1] !== ZERO) return Number.NaN;
    end -= 3;
  }
  if (end - start < 19) return Number.NaN;
  const days = dateAt(bytes, start);
  const hour = two(bytes, start + 11);
  const minute = two(bytes, start + 14);
  const second = two(bytes, start + 17);
  const wellFormed = bytes[start + 10] === 0x20 && bytes[start + 13] === COLON && bytes[start + 16] === COLON;
  if (!wellFormed || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return Number.NaN;
  const micros = end === start + 19 ? 0 : fractionAt(bytes, start + 19, end);
  const seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
  // A date that is none, or a fraction that is none, is NaN all through.
  return seconds < SAFE_SECONDS && seconds > -SAFE_SECONDS ? seconds * 1_000_000 + micros : Number.NaN;
}

/** `.123456`, up to six digits. */
function fractionAt(bytes: Buffer, start: number, end: number): number {
  const digits = end - start - 1;
  if (bytes[start] !== DOT || digits < 1 || digits > 6) return Number.NaN;
  let value = 0;
  for (let at = start + 1; at < end; at++) {
    const code = bytes[at] as number;
    if (code < ZERO || code > NINE) return Number.NaN;
    value = value * 10 + (code - ZERO);
  }
  return value * (POWERS[6 - digits] as number);
}

const NO_NUMBER = -1_000_000;

function two(bytes: Buffer, at: number): number {
  const tens = (bytes[at] as number) - ZERO;
  const ones = (bytes[at + 1] as number) - ZERO;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : NO_NUMBER;
}

function monthDays(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Whether every cell of a gathered column is UTF-8 by itself: all of them in the first `end` bytes. A database in SQL_ASCII may send anything. */
export function isCleanText({ bytes, starts, lengths }: BlockColumn, end: number, from: number, to: number): boolean {
  if (!isUtf8(bytes.subarray(0, end))) return false;
  for (let row = from; row < to; row++)
    if ((lengths[row] as number) > 0 && ((bytes[starts[row] as number] as number) & 0xc0) === 0x80) return false;
  return true;
}
