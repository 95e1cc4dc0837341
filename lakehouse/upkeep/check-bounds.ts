/** Whether recorded statistics hold what a file's rows really have. Pure; values are those of parsed statistics. */
import { ExactNumber } from '../table/lossless-json.ts';
import type { FileStats } from '../table/stats-read.ts';

type Values = Readonly<Record<string, unknown>>;

/**
 * Dotted names of the columns that have a value below the recorded minimum or above the recorded maximum. Bounds that are
 * not said, or that cannot be compared (another writer's text form), are no finding.
 */
export function outOfBounds(recorded: FileStats, actual: FileStats): readonly string[] {
  const wrong = new Set<string>();
  compareAll(recorded.minValues, actual.minValues, [], (name, said, found) => {
    if (compareBounds(said, found) === 1) wrong.add(name);
  });
  compareAll(recorded.maxValues, actual.maxValues, [], (name, said, found) => {
    if (compareBounds(said, found) === -1) wrong.add(name);
  });
  return [...wrong];
}

function compareAll(
  said: Values,
  found: Values,
  path: readonly string[],
  each: (name: string, said: unknown, found: unknown) => void,
): void {
  for (const [name, value] of Object.entries(said)) {
    const other = found[name];
    if (other === undefined || value === null) continue;
    const at = [...path, name];
    if (isRecord(value) && isRecord(other)) compareAll(value, other, at, each);
    else each(at.join('.'), value, other);
  }
}

function isRecord(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** -1, 0, 1, or null when the two are not of one kind. */
export function compareBounds(a: unknown, b: unknown): number | null {
  if (typeof a === 'string' && typeof b === 'string') return compareTexts(a, b);
  if (typeof a === 'number' && typeof b === 'number' && isNear(a, b)) return 0;
  const left = decimalOf(a);
  const right = decimalOf(b);
  if (left === null || right === null) return null;
  const scale = Math.max(left.scale, right.scale);
  if (scale - Math.min(left.scale, right.scale) > 1_000) return null;
  const x = left.digits * 10n ** BigInt(scale - left.scale);
  const y = right.digits * 10n ** BigInt(scale - right.scale);
  return x < y ? -1 : x > y ? 1 : 0;
}

/** Some writers print a float as the double it widens to: the last digits say nothing. Whole numbers are compared exactly. */
function isNear(a: number, b: number): boolean {
  if (Number.isInteger(a) && Number.isInteger(b)) return false;
  return Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b));
}

const DAY = /^[+-]?\d{4,}-\d\d-\d\d/;
const TIME = /^[+-]?\d{4,}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?$/;

/** By code point, as UTF-8 orders; times of two writers in one form first (T or space, with or without fraction). */
function compareTexts(a: string, b: string): number | null {
  if (TIME.test(a) && TIME.test(b)) {
    if (a.length > 29 || b.length > 29 || a.startsWith('-') || b.startsWith('-')) return null;
    const left = timeForm(a);
    const right = timeForm(b);
    return withinMillisecond(left, right) ? 0 : compareBytes(left, right);
  }
  // A date beside a time (a widened column), or a time with a zone: not of one form.
  if (a.length !== b.length && DAY.test(a) && DAY.test(b)) return null;
  return compareBytes(a, b);
}

/** Other writers cut times to the millisecond, and every reader allows for it. Years alike in all but the last second. */
function withinMillisecond(a: string, b: string): boolean {
  const [low, high] = a < b ? [a, b] : [b, a];
  const split = low.indexOf('.');
  const nanos = (text: string): number => Number(text.slice(split + 1));
  if (low.slice(0, split) === high.slice(0, split)) return nanos(high) - nanos(low) <= 1_000_000;
  return nanos(low) >= 999_000_000 && nanos(high) < 1_000_000 && isNextSecond(low, high);
}

/** Of two times in one form, whether the later one's second follows the earlier one's within the same minute or opens the next. */
function isNextSecond(low: string, high: string): boolean {
  const second = (text: string): number => Number(text.slice(17, 19));
  if (low.slice(0, 16) === high.slice(0, 16)) return second(high) === second(low) + 1;
  return second(low) === 59 && second(high) === 0;
}

function timeForm(text: string): string {
  const [whole = '', fraction = ''] = text.replace(' ', 'T').replace(/Z$/, '').split('.');
  return `${whole}.${fraction.padEnd(9, '0')}`;
}

function compareBytes(a: string, b: string): number {
  return Math.sign(Buffer.compare(Buffer.from(a, 'utf8'), Buffer.from(b, 'utf8')));
}

function decimalOf(value: unknown): { readonly digits: bigint; readonly scale: number } | null {
  if (typeof value === 'bigint') return { digits: value, scale: 0 };
  const text = value instanceof ExactNumber ? value.text : typeof value === 'number' ? String(value) : null;
  const found = text === null ? null : /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (found === null) return null;
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = found;
  const shift = fraction.length - Number(exponent);
  if (Math.abs(shift) > 1_000) return null;
  const digits = BigInt(sign + whole + fraction);
  return shift >= 0 ? { digits, scale: shift } : { digits: digits * 10n ** BigInt(-shift), scale: 0 };
}
