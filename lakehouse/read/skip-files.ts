/**
 * Which files cannot hold a matching row, by partition values and statistics. A file is skipped only when its bounds prove
 * it: what is unknown, unparsed or of another type keeps the file. Bounds are read as loosely as they are written by
 * engines: a greatest timestamp cut to milliseconds may be up to 1 ms too low.
 */
import { decimalOf } from '../parquet/stored-fields.ts';
import type { AddFile } from '../table/actions.ts';
import { mappingMode, physicalName } from '../table/column-mapping.ts';
import { ExactNumber } from '../table/lossless-json.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { parseStats, type FileStats } from '../table/stats-read.ts';
import { dateOf, microsOf, unscaledOf } from './partition-column.ts';

/**
 * `path` names a leaf by its logical names. Values: bigint for integers, dates (days), timestamps (microseconds) and decimals
 * (unscaled, in the column's scale); number for floats; string for text; boolean.
 */
export type Condition = NullCondition | Comparison;

export interface NullCondition {
  readonly path: readonly string[];
  readonly is: 'null' | 'not null';
}

export interface Comparison {
  readonly path: readonly string[];
  readonly is: '=' | '<' | '<=' | '>' | '>=';
  readonly value: bigint | number | string | boolean;
}

const isNullCondition = (condition: Condition): condition is NullCondition =>
  condition.is === 'null' || condition.is === 'not null';

/** True: no live row of the file meets all conditions. */
export function canSkip(snapshot: Snapshot, file: AddFile, where: readonly Condition[]): boolean {
  if (where.length === 0) return false;
  const stats = parseStats(file.stats);
  return where.some((condition) => {
    const found = fieldAt(snapshot, condition.path);
    if (found === null) return false;
    const { field, names } = found;
    if (condition.path.length === 1 && snapshot.metadata.partitionColumns.includes(field.name))
      return skipByPartition(field.type, file.partitionValues[names[0] ?? ''] ?? null, condition);
    return stats !== null && skipByStats(field.type, names, stats, condition);
  });
}

function fieldAt(
  snapshot: Snapshot,
  path: readonly string[],
): { readonly field: StructField; readonly names: readonly string[] } | null {
  const mode = mappingMode(snapshot.metadata);
  const names: string[] = [];
  let struct: StructType = snapshot.schema;
  for (const [i, name] of path.entries()) {
    const field = struct.fields.find((candidate) => candidate.name.toLowerCase() === name.toLowerCase());
    if (field === undefined) return null;
    names.push(physicalName(field, mode));
    if (i === path.length - 1) return { field, names };
    if (typeof field.type !== 'object' || field.type.type !== 'struct') return null;
    struct = field.type;
  }
  return null;
}

type Value = bigint | number | string | boolean;

/** A log value in the terms of a condition's value; null when it is none. */
function valueOf(type: DeltaType, raw: unknown): Value | null {
  if (typeof type !== 'string' || raw === null || raw === undefined) return null;
  const text = raw instanceof ExactNumber ? raw.text : typeof raw === 'string' ? raw : JSON_NUMBER(raw);
  if (text === null) return typeof raw === 'boolean' ? raw : null;
  try {
    const decimal = decimalOf(type);
    if (decimal !== null) return unscaledOf(text, decimal.scale);
    switch (type) {
      case 'string':
        return typeof raw === 'string' ? raw : null;
      case 'byte':
      case 'short':
      case 'integer':
      case 'long':
        return BigInt(text);
      case 'date':
        return BigInt(dateOf(text.slice(0, 10)));
      case 'timestamp':
      case 'timestamp_ntz':
        return microsOf(text);
      case 'float':
      case 'double':
        return Number(text);
      case 'boolean':
        return text === 'true' ? true : text === 'false' ? false : null;
      default:
        return null;
    }
  } catch {
    return null;
  }
}

const JSON_NUMBER = (raw: unknown): string | null =>
  typeof raw === 'number' || typeof raw === 'bigint' ? String(raw) : null;

/** Null when the two cannot be compared. */
function compare(a: Value, b: Value): number | null {
  if (typeof a !== typeof b) return null;
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (typeof a === 'number' && (Number.isNaN(a) || Number.isNaN(b))) return null;
  return a < b ? -1 : a > b ? 1 : 0;
}

function skipByPartition(type: DeltaType, text: string | null, condition: Condition): boolean {
  const isNull = text === null || text === '';
  if (condition.is === 'null') return !isNull;
  if (isNull) return true;
  if (isNullCondition(condition)) return false;
  const value = valueOf(type, text);
  if (value === null) return false;
  if (type !== 'float' || typeof value !== 'number') return outsideRange(value, value, condition);
  // The text of a float, and the float that it stands for.
  const stored = Math.fround(value);
  return outsideRange(Math.min(value, stored), Math.max(value, stored), condition);
}

function skipByStats(type: DeltaType, names: readonly string[], stats: FileStats, condition: Condition): boolean {
  const nulls = valueOf('long', at(stats.nullCount, names));
  if (condition.is === 'null') return nulls === 0n;
  if (nulls !== null && stats.rowCount !== null && nulls === stats.rowCount) return true;
  if (isNullCondition(condition)) return false;
  let min = valueOf(type, at(stats.minValues, names));
  let max = valueOf(type, at(stats.maxValues, names));
  if (typeof max === 'bigint' && (type === 'timestamp' || type === 'timestamp_ntz')) max += 999n;
  // Spark orders NaN above all numbers and other writers leave it out of the bounds: no upper bound holds for floats.
  if (type === 'float' || type === 'double') max = null;
  // Some writers (delta-rs) take a decimal's bound through a double, which may round it either way.
  if (isLongDecimal(type)) {
    if (typeof min === 'bigint') min -= roundingOf(min);
    if (typeof max === 'bigint') max += roundingOf(max);
  }
  // 0.7 as the bound of 32-bit floats (the column may since be a double) is the text of 0.699999988: a value below it.
  if (typeof min === 'number') min = Math.min(min, Math.fround(min));
  return outsideRange(min, max, condition);
}

/** Decimals of up to 15 digits come back from a double as they were. */
function isLongDecimal(type: DeltaType): boolean {
  return typeof type === 'string' && (decimalOf(type)?.precision ?? 0) > 15;
}

/** More than a double of this size can be off by. */
const roundingOf = (value: bigint): bigint => (value < 0n ? -value : value) / 2n ** 52n + 1n;

function outsideRange(min: Value | null, max: Value | null, condition: Comparison): boolean {
  const toMin = min === null ? null : compare(condition.value, min);
  const toMax = max === null ? null : compare(condition.value, max);
  switch (condition.is) {
    case '=':
      return (toMin !== null && toMin < 0) || (toMax !== null && toMax > 0);
    case '<':
      return toMin !== null && toMin <= 0;
    case '<=':
      return toMin !== null && toMin < 0;
    case '>':
      return toMax !== null && toMax >= 0;
    case '>=':
      return toMax !== null && toMax > 0;
  }
}

function at(values: Readonly<Record<string, unknown>>, names: readonly string[]): unknown {
  let value: unknown = values;
  for (const name of names) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return null;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}
