/**
 * PostgreSQL's ISO date and timestamp text → days and microseconds, by integer arithmetic alone. `Date` is never used: it
 * ends at year 275760 and knows milliseconds only. Years beyond 9999 are legal; BC and infinity are not representable.
 */

import { civilOf, daysOf } from '../../lakehouse/table/calendar.ts';

const ZERO = 48;
const DASH = 45;
const COLON = 58;

const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function monthDays(year: number, month: number): number {
  if (month === 2 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)) return 29;
  return MONTH_DAYS[month - 1] ?? 0;
}

/** Two digits at `at`, or -1. */
function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - ZERO;
  const ones = text.charCodeAt(at + 1) - ZERO;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -1;
}

/** Where the date part ends, set by `parseDatePart`: one parse a cell, so one slot is enough and nothing is allocated. */
let dateEnd = 0;

/** Days, or NaN when the text does not begin with a representable date. */
function parseDatePart(text: string): number {
  let at = 0;
  let year = 0;
  for (; at < text.length; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (digit < 0 || digit > 9) break;
    year = year * 10 + digit;
  }
  if (at < 4 || at > 7 || year === 0 || text.charCodeAt(at) !== DASH || text.charCodeAt(at + 3) !== DASH)
    return Number.NaN;
  const month = twoDigits(text, at + 1);
  const day = twoDigits(text, at + 4);
  if (month < 1 || month > 12 || day < 1 || day > monthDays(year, month)) return Number.NaN;
  dateEnd = at + 6;
  return daysOf(year, month, day);
}

/** `2024-02-29` → days since the epoch; NaN when it is not a date, BC or infinite. */
export function dateTextToDays(text: string): number {
  const days = parseDatePart(text);
  return dateEnd === text.length ? days : Number.NaN;
}

/** A timestamp's two exact parts; `valid` false when the text is not representable. Reused by every call. */
export const timestampParts = { valid: false, seconds: 0, micros: 0 };

/**
 * `2024-01-02T03:04:05.123456`, with `Z` or an offset allowed when `zoned`, none when not; a space may stand for `T`.
 * Leaves seconds since the epoch (UTC) and the microseconds within the second in `timestampParts`.
 */
export function parseTimestampText(text: string, zoned: boolean): boolean {
  timestampParts.valid = false;
  const days = parseDatePart(text);
  if (Number.isNaN(days)) return false;
  let at = dateEnd;
  const separator = text.charCodeAt(at);
  if (separator !== 84 && separator !== 32) return false;
  const hour = twoDigits(text, at + 1);
  const minute = twoDigits(text, at + 4);
  const second = twoDigits(text, at + 7);
  if (hour < 0 || hour > 24 || minute < 0 || minute > 59 || second < 0 || second > 60) return false;
  if (text.charCodeAt(at + 3) !== COLON || text.charCodeAt(at + 6) !== COLON) return false;
  at += 9;
  let micros = 0;
  if (text.charCodeAt(at) === 46) {
    at++;
    let digits = 0;
    for (; digits < 6; digits++, at++) {
      const digit = text.charCodeAt(at) - ZERO;
      if (!(digit >= 0 && digit <= 9)) break;
      micros = micros * 10 + digit;
    }
    if (digits === 0) return false;
    for (; digits < 6; digits++) micros *= 10;
    // Foreign writers print nanoseconds; zeros there lose nothing, other digits would.
    while (text.charCodeAt(at) === ZERO) at++;
  }
  const offset = zoneSeconds(text, at, zoned);
  if (Number.isNaN(offset)) return false;
  timestampParts.seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset;
  timestampParts.micros = micros;
  timestampParts.valid = true;
  return true;
}

/** Seconds east of UTC of what stands at `at` up to the end, NaN when it is not what is expected there. */
function zoneSeconds(text: string, at: number, zoned: boolean): number {
  // Without a zone it is UTC: a contract may keep a `timestamp` column as an instant.
  if (at === text.length) return 0;
  if (!zoned) return Number.NaN;
  const sign = text.charCodeAt(at);
  if (sign === 90) return at + 1 === text.length ? 0 : Number.NaN;
  if (sign !== 43 && sign !== DASH) return Number.NaN;
  const hours = twoDigits(text, at + 1);
  let end = at + 3;
  let minutes = 0;
  if (text.charCodeAt(end) === COLON) {
    minutes = twoDigits(text, end + 1);
    end += 3;
  }
  if (hours < 0 || minutes < 0 || end !== text.length) return Number.NaN;
  const east = hours * 3600 + minutes * 60;
  return sign === 43 ? east : -east;
}

/** Seconds within which seconds × 10^6 stays a safe integer. */
const SAFE_SECONDS = 9_007_199_253;
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** Microseconds of `timestampParts` while they are a safe integer, else NaN: then `bigMicros` has them. */
export function safeMicros(): number {
  const { seconds, micros } = timestampParts;
  return seconds > -SAFE_SECONDS && seconds < SAFE_SECONDS ? seconds * 1_000_000 + micros : Number.NaN;
}

/** Microseconds of `timestampParts` as int64, or null when they do not fit. */
export function bigMicros(): bigint | null {
  const value = BigInt(timestampParts.seconds) * 1_000_000n + BigInt(timestampParts.micros);
  return value < INT64_MIN || value > INT64_MAX ? null : value;
}

const pad = (value: number, width: number): string => String(value).padStart(width, '0');

/** Days since the epoch → `YYYY-MM-DD` as PostgreSQL writes it: no sign before a year of five digits. */
export function daysToDateText(days: number): string {
  const { year, month, day } = civilOf(days);
  return `${pad(year, 4)}-${pad(month, 2)}-${pad(day, 2)}`;
}

/** Microseconds since the epoch → `YYYY-MM-DDTHH:MM:SS[.ffffff]`, trailing zeros of the fraction cut as PostgreSQL does. */
export function microsToText(micros: bigint): string {
  let seconds = micros / 1_000_000n;
  let fraction = Number(micros % 1_000_000n);
  if (fraction < 0) {
    fraction += 1_000_000;
    seconds -= 1n;
  }
  const total = Number(seconds);
  const days = Math.floor(total / 86400);
  const ofDay = total - days * 86400;
  const time = `${pad(Math.floor(ofDay / 3600), 2)}:${pad(Math.floor(ofDay / 60) % 60, 2)}:${pad(ofDay % 60, 2)}`;
  const tail = fraction === 0 ? '' : `.${pad(fraction, 6).replace(/0+$/, '')}`;
  return `${daysToDateText(days)}T${time}${tail}`;
}
