/**
 * File statistics as the log's `stats` text (PROTOCOL.md, "Per-file Statistics"). A bound that could make any reader skip a
 * row that it should see is left out: readers need no bound, but they trust the ones they get.
 *
 * - longs and decimals with all their digits; timestamps in milliseconds, min floored and max ceiled
 * - strings cut to 32 code points, a cut max made greater again by a tie-breaker
 * - no bounds: a float column with NaN or an infinity; a date or timestamp outside years 0001..9999; text that is no UTF-8
 * - a column that is NULL throughout has a nullCount and no bounds
 */
import { dateText, timestampText } from './calendar.ts';
import { physicalName } from './column-mapping.ts';
import type { BytesColumn, ColumnBatch, ColumnVector } from './column.ts';
import type { DeltaType, StructField, StructType } from './schema.ts';
import { unscaledText } from './unscaled-text.ts';

export interface StatsOptions {
  /**
   * Which leaf columns get statistics besides the row count: the first so many in schema order (-1: all), or those at or
   * below the given paths of logical names. Default 32.
   */
  readonly indexedColumns?: number | readonly (readonly string[])[];
  /** Written when given; absent means true to readers. False once a deletion vector hides rows. */
  readonly tightBounds?: boolean;
  /** Key by physical names (`delta.columnMapping.physicalName`). */
  readonly columnMapping?: boolean;
  /** Bounds of texts are the texts themselves, at any length: to compare other bounds with, not for the log. */
  readonly wholeTexts?: boolean;
}

export const INDEXED_COLUMNS = 32;
const TEXT_POINTS = 32;
const DAY_FIRST = -719_162;
const DAY_LAST = 2_932_896;
const MICROS_PER_DAY = 86_400_000_000n;

/** JSON object texts, by field, in schema order. */
interface Parts {
  readonly min: string[];
  readonly max: string[];
  readonly nulls: string[];
}

/**
 * Statistics of one data file: the fields of `schema` that are stored in it (partition columns left out), matched to the
 * batch by name.
 */
export function collectStats(schema: StructType, batch: ColumnBatch, options: StatsOptions = {}): string {
  const chosen = chooser(options.indexedColumns ?? INDEXED_COLUMNS);
  const parts: Parts = { min: [], max: [], nulls: [] };
  for (const field of schema.fields) {
    const column = batch.columns[batch.names.indexOf(field.name)];
    if (column !== undefined) collectField(field, column, null, [field.name], chosen, options, parts);
  }
  const text =
    `{"numRecords":${batch.rowCount},"minValues":{${parts.min.join(',')}},` +
    `"maxValues":{${parts.max.join(',')}},"nullCount":{${parts.nulls.join(',')}}`;
  return options.tightBounds === undefined ? `${text}}` : `${text},"tightBounds":${options.tightBounds}}`;
}

/** Asked once a leaf, in schema order. */
type Chooser = (path: readonly string[]) => boolean;

function chooser(indexed: number | readonly (readonly string[])[]): Chooser {
  if (typeof indexed === 'number') {
    let left = indexed < 0 ? Number.POSITIVE_INFINITY : indexed;
    return () => left-- > 0;
  }
  return (path) => indexed.some((prefix) => prefix.every((name, i) => path[i]?.toLowerCase() === name.toLowerCase()));
}

function collectField(
  field: StructField,
  column: ColumnVector,
  parentValidity: Uint8Array | null,
  path: readonly string[],
  chosen: Chooser,
  options: StatsOptions,
  parts: Parts,
): void {
  if (field.type === 'void') return;
  const name = JSON.stringify(physicalName(field, options.columnMapping === true ? 'name' : 'none'));
  const validity = bothValid(parentValidity, column.validity);
  if (column.kind === 'struct' && typeof field.type === 'object' && field.type.type === 'struct') {
    const inner: Parts = { min: [], max: [], nulls: [] };
    for (const child of field.type.fields) {
      const childColumn = column.children[column.names.indexOf(child.name)];
      if (childColumn !== undefined)
        collectField(child, childColumn, validity, [...path, child.name], chosen, options, inner);
    }
    for (const key of ['min', 'max', 'nulls'] as const)
      if (inner[key].length > 0) parts[key].push(`${name}:{${inner[key].join(',')}}`);
    return;
  }
  if (!chosen(path)) return;
  const nulls = validity === null ? 0 : countNulls(validity, column.length);
  parts.nulls.push(`${name}:${nulls}`);
  if (nulls === column.length) return;
  const bounds = boundsOf(field.type, column, validity, options.wholeTexts === true ? Infinity : TEXT_POINTS);
  if (bounds.min !== null) parts.min.push(`${name}:${bounds.min}`);
  if (bounds.max !== null) parts.max.push(`${name}:${bounds.max}`);
}

function bothValid(a: Uint8Array | null, b: Uint8Array | null): Uint8Array | null {
  if (a === null || b === null) return a ?? b;
  const out = new Uint8Array(Math.min(a.length, b.length));
  for (let i = 0; i < out.length; i++) out[i] = (a[i] ?? 0) & (b[i] ?? 0);
  return out;
}

const isSet = (bits: Uint8Array | null, i: number): boolean =>
  bits === null || ((bits[i >> 3] ?? 0) & (1 << (i & 7))) !== 0;

function countNulls(validity: Uint8Array, length: number): number {
  let nulls = 0;
  for (let i = 0; i < length; i++) if (!isSet(validity, i)) nulls++;
  return nulls;
}

/** JSON texts; null: no bound. */
interface Bounds {
  readonly min: string | null;
  readonly max: string | null;
}
const NO_BOUNDS: Bounds = { min: null, max: null };

function boundsOf(type: DeltaType, column: ColumnVector, validity: Uint8Array | null, textPoints: number): Bounds {
  switch (column.kind) {
    case 'int32': {
      const { min, max } = numberRange(column.values, column.length, validity);
      if (type !== 'date') return { min: String(min), max: String(max) };
      if (min < DAY_FIRST || max > DAY_LAST) return NO_BOUNDS;
      return { min: `"${dateText(min)}"`, max: `"${dateText(max)}"` };
    }
    case 'float32':
    case 'float64': {
      const { min, max, finite } = numberRange(column.values, column.length, validity);
      // `+ 0` turns -0 into 0: engines hold both zeros equal when they skip.
      return finite ? { min: String(min + 0), max: String(max + 0) } : NO_BOUNDS;
    }
    case 'int64': {
      const rows = wordsRange(column.values, 2, column.length, validity);
      const min = column.values[rows.min] ?? 0n;
      const max = column.values[rows.max] ?? 0n;
      if (type !== 'timestamp' && type !== 'timestamp_ntz') return { min: `${min}`, max: `${max}` };
      return timestampBounds(min, max, type === 'timestamp' ? 'Z' : '');
    }
    case 'decimal': {
      const { min, max } = wordsRange(column.values, 4, column.length, validity);
      return {
        min: unscaledText(column.values[2 * min] ?? 0n, column.values[2 * min + 1] ?? 0n, column.scale),
        max: unscaledText(column.values[2 * max] ?? 0n, column.values[2 * max + 1] ?? 0n, column.scale),
      };
    }
    case 'utf8':
      return textBounds(column, validity, textPoints);
    default:
      return NO_BOUNDS;
  }
}

function numberRange(
  values: Int32Array | Float32Array | Float64Array,
  length: number,
  validity: Uint8Array | null,
): { min: number; max: number; finite: boolean } {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let finite = true;
  for (let i = 0; i < length; i++) {
    if (!isSet(validity, i)) continue;
    const value = values[i] ?? 0;
    if (!Number.isFinite(value)) finite = false;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  return { min, max, finite };
}

/**
 * Rows of the least and greatest value of 64 or 128 bits, least word first, the greatest one signed. Held as numbers, word by
 * word: a bigint a row would be an allocation a row.
 */
function wordsRange(
  values: BigInt64Array,
  wordsARow: 2 | 4,
  length: number,
  validity: Uint8Array | null,
): { min: number; max: number } {
  const words = new Uint32Array(values.buffer, values.byteOffset, length * wordsARow);
  const isBelow = (a: number, b: number): boolean => {
    let word = wordsARow - 1;
    const top = ((words[a * wordsARow + word] as number) | 0) - ((words[b * wordsARow + word] as number) | 0);
    if (top !== 0) return top < 0;
    while (--word >= 0) {
      const difference = (words[a * wordsARow + word] as number) - (words[b * wordsARow + word] as number);
      if (difference !== 0) return difference < 0;
    }
    return false;
  };
  let min = -1;
  let max = -1;
  for (let i = 0; i < length; i++) {
    if (!isSet(validity, i)) continue;
    if (min < 0) min = max = i;
    else if (isBelow(i, min)) min = i;
    else if (isBelow(max, i)) max = i;
  }
  return { min, max };
}

function timestampBounds(min: bigint, max: bigint, suffix: 'Z' | ''): Bounds {
  const floored = min - (((min % 1000n) + 1000n) % 1000n);
  const ceiled = max + ((1000n - (((max % 1000n) + 1000n) % 1000n)) % 1000n);
  const first = BigInt(DAY_FIRST) * MICROS_PER_DAY;
  const last = BigInt(DAY_LAST + 1) * MICROS_PER_DAY;
  if (floored < first || ceiled >= last) return NO_BOUNDS;
  const text = (micros: bigint): string => `"${timestampText(micros, '').slice(0, -3)}${suffix}"`;
  return { min: text(floored), max: text(ceiled) };
}

/** Whether the bytes of one row come before another's: for UTF-8 that is the order of code points. */
function isBelow({ data, offsets }: BytesColumn, row: number, other: number): boolean {
  let i = offsets[row] as number;
  let j = offsets[other] as number;
  const end = offsets[row + 1] as number;
  const otherEnd = offsets[other + 1] as number;
  for (; i < end && j < otherEnd; i++, j++) {
    const difference = (data[i] as number) - (data[j] as number);
    if (difference !== 0) return difference < 0;
  }
  return end - i < otherEnd - j;
}

const strictText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function textBounds(column: BytesColumn, validity: Uint8Array | null, points: number): Bounds {
  let min = -1;
  let max = -1;
  for (let i = 0; i < column.length; i++) {
    if (!isSet(validity, i)) continue;
    if (min < 0) min = max = i;
    else if (isBelow(column, i, min)) min = i;
    else if (isBelow(column, max, i)) max = i;
  }
  try {
    const least = firstPoints(column, min, points);
    const greatest = firstPoints(column, max, points);
    const cut = cutMax(greatest, points);
    return {
      min: JSON.stringify(least.slice(0, points).join('')),
      max: cut === null ? null : JSON.stringify(cut),
    };
  } catch {
    return NO_BOUNDS;
  }
}

/** Up to so many code points of a row, and one more. @throws TypeError when it is no UTF-8 */
function firstPoints(column: BytesColumn, row: number, points: number): string[] {
  const start = column.offsets[row] ?? 0;
  const end = column.offsets[row + 1] ?? 0;
  // A code point has at most 4 bytes, so this prefix holds them all; a sequence cut at its end is dropped.
  let stop = Math.min(end, start + (points + 1) * 4);
  if (stop < end) while (stop > start && ((column.data[stop] ?? 0) & 0xc0) === 0x80) stop--;
  const text = strictText.decode(column.data.subarray(start, stop));
  return Array.from(text).slice(0, points + 1);
}

/** A text at or above the whole value, or null. */
function cutMax(points: readonly string[], length: number): string | null {
  const next = points[length];
  if (next === undefined) return points.join('');
  const point = next.codePointAt(0) ?? 0;
  if (point >= 0x10ffff) return null;
  return points.slice(0, length).join('') + (point < 0x7f ? '\u007f' : '\u{10ffff}');
}
