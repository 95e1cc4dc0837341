/** How one column's type became another's: by the physical type where both name one, else by the logical type and format. */
import { integerRange } from '../integer-format.ts';
import type { Column } from '../model.ts';
import { parsePgType, canonicalPgType, type PgType } from '../pg-type.ts';
import { deltaTypeText, mapContractColumn } from '../type-table.ts';

export type TypeChange = 'same' | 'widened' | 'narrowed' | 'changed';

export function compareTypes(before: Column, after: Column): TypeChange {
  const type = compareSourceTypes(before, after);
  return type === 'same' && before.physicalTypes.delta !== after.physicalTypes.delta
    ? comparePhysical(deltaType(before), deltaType(after))
    : type;
}

/** What the lake has where the contract chooses, and where it does not. */
const deltaType = (column: Column): string =>
  column.physicalTypes.delta ?? deltaTypeText(mapContractColumn(column).delta);

function compareSourceTypes(before: Column, after: Column): TypeChange {
  const logical = compareLogical(before, after);
  if (before.physicalType === null || after.physicalType === null) return logical;
  const physical = comparePhysical(before.physicalType, after.physicalType);
  // The physical type is the finer one; a logical change beside an equal physical type is one of meaning all the same.
  return physical === 'same' && logical === 'changed' ? 'changed' : physical;
}

/** What to show of a column's type. */
export function typeText(column: Column): string {
  const format = column.options.format === undefined ? '' : `(${column.options.format})`;
  const delta = column.physicalTypes.delta === undefined ? '' : ` (in the lake ${column.physicalTypes.delta})`;
  return `${column.physicalType ?? `${column.logicalType ?? 'any'}${format}`}${delta}`;
}

function comparePhysical(before: string, after: string): TypeChange {
  if (canonicalPgType(before) === canonicalPgType(after)) return 'same';
  const [a, b] = [parsePgType(before), parsePgType(after)];
  if (a.array !== b.array) return 'changed';
  for (const ladder of LADDERS) {
    const [from, to] = [ladder.indexOf(a.name), ladder.indexOf(b.name)];
    if (from >= 0 && to >= 0 && from !== to) return from < to ? 'widened' : 'narrowed';
  }
  if (a.name === 'numeric' && b.name === 'numeric') return compareNumeric(a, b);
  if (isText(a.name) && isText(b.name)) return compareLengths(maxLength(a), maxLength(b));
  if (a.name === b.name && a.args.length <= 1 && b.args.length <= 1)
    return compareLengths(a.args[0] ?? Infinity, b.args[0] ?? Infinity);
  return 'changed';
}

const LADDERS: readonly (readonly string[])[] = [
  ['int2', 'int4', 'int8'],
  ['float4', 'float8'],
];

const isText = (name: string): boolean => name === 'varchar' || name === 'text' || name === 'citext';
const maxLength = (type: PgType): number => (type.name === 'varchar' ? (type.args[0] ?? Infinity) : Infinity);

function compareLengths(before: number, after: number): TypeChange {
  return before === after ? 'same' : before < after ? 'widened' : 'narrowed';
}

/** Wider = no fewer integer digits and no fewer decimals; a mix of both directions is another type. */
function compareNumeric(a: PgType, b: PgType): TypeChange {
  const [before, after] = [digits(a), digits(b)];
  if (after.whole >= before.whole && after.scale >= before.scale) return 'widened';
  if (after.whole <= before.whole && after.scale <= before.scale) return 'narrowed';
  return 'changed';
}

function digits(type: PgType): { whole: number; scale: number } {
  const [precision, scale = 0] = type.args;
  return precision === undefined ? { whole: Infinity, scale: Infinity } : { whole: precision - scale, scale };
}

function compareLogical(before: Column, after: Column): TypeChange {
  const [a, b] = [before.logicalType, after.logicalType];
  if (a === null || b === null) return 'same';
  if (a !== b)
    return a === 'integer' && b === 'number' ? 'widened' : a === 'number' && b === 'integer' ? 'narrowed' : 'changed';
  if (a === 'timestamp' && (before.options.timezone ?? false) !== (after.options.timezone ?? false)) return 'changed';
  if (a === 'integer') return compareIntegers(before.options.format, after.options.format);
  if (a === 'number' && before.options.format !== undefined && after.options.format !== undefined) {
    return compareLengths(bits(before.options.format), bits(after.options.format));
  }
  return 'same';
}

/** `u8` fits in `i16` and not in `i8`. The standard's default is i32. */
function compareIntegers(before: string | undefined, after: string | undefined): TypeChange {
  const [a, b] = [integerRange(before) ?? I32, integerRange(after) ?? I32];
  if (a.low === b.low && a.high === b.high) return 'same';
  if (b.low <= a.low && a.high <= b.high) return 'widened';
  return a.low <= b.low && b.high <= a.high ? 'narrowed' : 'changed';
}
const I32 = { low: -2_147_483_648n, high: 2_147_483_647n };

/** `i64` → 64; the standard's default for integers is i32. */
function bits(format: string | undefined): number {
  const match = /^[iuf](\d+)$/.exec(format ?? 'i32');
  return match === null ? 32 : Number(match[1]);
}
