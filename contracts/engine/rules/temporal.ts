/**
 * PostgreSQL's date and timestamp texts (DateStyle ISO) as they stand on the wire: `2024-01-02`,
 * `2024-01-02T03:04:05.123456`, the same with `Z`, `0044-03-15 BC`, `0044-03-15T00:00:00Z BC`, `infinity`, `-infinity`.
 * Years above 9999 have more digits. Scanned by character: no Date, no regular expression, nothing allocated.
 */
export type TemporalKind = 'date' | 'timestamp' | 'timestamptz';

/** What a text is: `plain` has a place in the lake's types; `special` is legal in PostgreSQL only (infinity, BC). */
export type TemporalClass = 'plain' | 'special' | 'invalid';

const DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** PostgreSQL ends there (docs, 8.5); every such year fits in 64-bit microseconds. */
const YEAR_MAX = 5_874_897;

export function classifyTemporal(text: string, kind: TemporalKind): TemporalClass {
  if (text === 'infinity' || text === '-infinity') return 'special';
  const yearEnd = text.indexOf('-', 1);
  if (yearEnd < 4 || yearEnd > 7) return 'invalid';
  const year = digits(text, 0, yearEnd);
  const month = digits(text, yearEnd + 1, yearEnd + 3);
  const day = digits(text, yearEnd + 4, yearEnd + 6);
  if (year < 1 || year > YEAR_MAX || month < 1 || month > 12 || day < 1 || text.charCodeAt(yearEnd + 3) !== 45)
    return 'invalid';
  if (day > (DAYS[month - 1] ?? 0)) return 'invalid';
  let at = yearEnd + 6;
  const { length } = text;
  if (kind !== 'date') {
    at = timeEnd(text, at);
    if (at < 0) return 'invalid';
    if (kind === 'timestamptz') {
      if (text.charCodeAt(at) !== 90) return 'invalid';
      at++;
    }
  }
  // 29 February is tested only now: BC years are leap years one year off.
  if (at === length) return day < 29 || month !== 2 || isLeap(year) ? 'plain' : 'invalid';
  if (length !== at + 3 || !text.endsWith(' BC')) return 'invalid';
  return day < 29 || month !== 2 || isLeap(1 - year) ? 'special' : 'invalid';
}

/** Index after `T03:04:05[.123456]`, or -1. */
function timeEnd(text: string, start: number): number {
  const separator = text.charCodeAt(start);
  if (separator !== 84 || text.charCodeAt(start + 3) !== 58 || text.charCodeAt(start + 6) !== 58) return -1;
  const hour = digits(text, start + 1, start + 3);
  const minute = digits(text, start + 4, start + 6);
  const second = digits(text, start + 7, start + 9);
  if (hour < 0 || hour > 24 || minute < 0 || minute > 59 || second < 0 || second > 60) return -1;
  let at = start + 9;
  if (text.charCodeAt(at) !== 46) return at;
  at++;
  const first = at;
  while (at < text.length && at - first < 7 && isDigit(text.charCodeAt(at))) at++;
  return at === first || at - first > 6 ? -1 : at;
}

/** The number in text[from, to), or -1 when a character there is no digit. */
function digits(text: string, from: number, to: number): number {
  if (to > text.length) return -1;
  let value = 0;
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i);
    if (!isDigit(code)) return -1;
    value = value * 10 + code - 48;
  }
  return value;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

export const MICROS_INFINITY = 1n << 63n;

/** Microseconds since 1970-01-01T00:00:00 (proleptic Gregorian); ±2^63 for the infinities; null when the text is invalid. */
export function temporalMicros(text: string, kind: TemporalKind): bigint | null {
  const found = classifyTemporal(text, kind);
  if (found === 'invalid') return null;
  if (text === 'infinity') return MICROS_INFINITY;
  if (text === '-infinity') return -MICROS_INFINITY;
  const yearEnd = text.indexOf('-', 1);
  const written = digits(text, 0, yearEnd);
  const days = daysFromCivil(
    found === 'special' ? 1 - written : written,
    digits(text, yearEnd + 1, yearEnd + 3),
    digits(text, yearEnd + 4, yearEnd + 6),
  );
  const micros = BigInt(days) * 86_400_000_000n;
  if (kind === 'date') return micros;
  const at = yearEnd + 6;
  const seconds =
    digits(text, at + 1, at + 3) * 3600 + digits(text, at + 4, at + 6) * 60 + digits(text, at + 7, at + 9);
  return micros + BigInt(seconds * 1_000_000 + fraction(text, at + 9));
}

function fraction(text: string, at: number): number {
  if (text.charCodeAt(at) !== 46) return 0;
  let value = 0;
  let scale = 100_000;
  for (let i = at + 1; i < text.length && isDigit(text.charCodeAt(i)); i++) {
    value += (text.charCodeAt(i) - 48) * scale;
    scale /= 10;
  }
  return Math.round(value);
}

/** Days since 1970-01-01 of a proleptic Gregorian day; year 0 is 1 BC. Months are counted from March, so that leap days end a year. */
function daysFromCivil(year: number, month: number, day: number): number {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  return (
    era * 146_097 + yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear - 719_468
  );
}

/**
 * A bound or a literal as people write it: `2024-01-02`, with a time, a `T` or a blank, an offset, seconds left out.
 * Null when it is none of these.
 */
export function parseInstant(text: string): bigint | null {
  const match =
    /^(\d{4,7}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?( BC)?$/i.exec(
      text.trim(),
    );
  if (match === null) return text === 'infinity' || text === '-infinity' ? temporalMicros(text, 'date') : null;
  const [, day = '', hour = '00', minute = '00', second = '00', part = '0', offset = 'Z', bc = ''] = match;
  const micros = temporalMicros(`${day}T${hour}:${minute}:${second}.${part}${bc.toUpperCase()}`, 'timestamp');
  if (micros === null) return null;
  if (/^z$/i.test(offset)) return micros;
  const sign = offset.startsWith('-') ? -1n : 1n;
  const minutes = Number(offset.slice(1, 3)) * 60 + Number(offset.slice(3).replace(':', '') || '0');
  return micros - sign * BigInt(minutes) * 60_000_000n;
}

/**
 * Compares a valid wire text with a bound given as wire text of the same kind, without building numbers: more year digits
 * are later, else the characters decide; a missing fraction is zero.
 */
export function compareTemporalText(text: string, bound: string): number {
  const year = text.indexOf('-', 1) - bound.indexOf('-', 1);
  if (year !== 0) return year;
  const length = Math.max(text.length, bound.length);
  for (let i = 0; i < length; i++) {
    const difference = charAt(text, i) - charAt(bound, i);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Past the end, and for the dot and the Z, a zero stands: `05`, `05.0` and `05Z` are one time. */
function charAt(text: string, index: number): number {
  const code = index < text.length ? text.charCodeAt(index) : 48;
  return code === 90 || code === 46 ? 48 : code;
}

/** Micros → wire text of the kind; AD years only (bounds). */
export function formatMicros(micros: bigint, kind: TemporalKind): string {
  const day = 86_400_000_000n;
  const days = micros >= 0n ? micros / day : (micros - day + 1n) / day;
  const rest = Number(micros - days * day);
  const date = civilFromDays(Number(days));
  if (kind === 'date') return date;
  const pad = (value: number, width: number): string => String(value).padStart(width, '0');
  const seconds = Math.floor(rest / 1_000_000);
  const part = rest % 1_000_000;
  const time = `${pad(Math.floor(seconds / 3600), 2)}:${pad(Math.floor(seconds / 60) % 60, 2)}:${pad(seconds % 60, 2)}`;
  return `${date}T${time}${part === 0 ? '' : `.${pad(part, 6)}`}${kind === 'timestamptz' ? 'Z' : ''}`;
}

function civilFromDays(days: number): string {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const month = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * month + 2) / 5) + 1;
  const civilMonth = month < 10 ? month + 3 : month - 9;
  const year = yearOfEra + era * 400 + (civilMonth <= 2 ? 1 : 0);
  const pad = (value: number, width: number): string => String(value).padStart(width, '0');
  return `${pad(year, 4)}-${pad(civilMonth, 2)}-${pad(day, 2)}`;
}
