/** Minimum, maximum, their exclusive forms and multipleOf, exact in every wire form. A value of another type passes: the type check reports it. */
import { isMultipleOf, parseDecimal } from '../decimal-text.ts';
import type { Cell } from '../gate.ts';
import type { TypeMapping } from '../type-table.ts';
import { compareDecimalText, decimalBound, isDecimalMultiple } from './decimal-check.ts';
import { compareTemporalText, formatMicros, parseInstant } from './temporal.ts';
import type { TemporalKind } from './temporal.ts';

export type BoundName = 'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum';
export const BOUND_NAMES: readonly BoundName[] = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
export type CellTest = (value: Cell) => boolean;

/** Null when the text is no bound for this wire form. */
export function boundTest(mapping: TypeMapping, name: BoundName, text: string): CellTest | null {
  switch (mapping.wire) {
    case 'int16':
    case 'int32':
    case 'int64':
    case 'uint32':
      return integerBound(name, text);
    case 'float32':
    case 'float64':
      return parseDecimal(text) === null ? null : numberBound(name, Number(text));
    case 'decimal':
      return textBound(name, text);
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return temporalBound(name, text, mapping.wire);
    case 'text':
      return mapping.logicalType === 'time' ? timeBound(name, text) : null;
    default:
      return null;
  }
}

/** `sign` is that of value − bound. */
function holds(name: BoundName, sign: number): boolean {
  switch (name) {
    case 'minimum':
      return sign >= 0;
    case 'maximum':
      return sign <= 0;
    case 'exclusiveMinimum':
      return sign > 0;
    case 'exclusiveMaximum':
      return sign < 0;
  }
}

/** JavaScript compares a number with a bigint exactly, so one test serves both cell forms. */
function integerBound(name: BoundName, text: string): CellTest | null {
  const decimal = parseDecimal(text);
  if (decimal === null) return null;
  const step = 10n ** BigInt(decimal.scale);
  const floor =
    decimal.unscaled >= 0n || decimal.unscaled % step === 0n ? decimal.unscaled / step : decimal.unscaled / step - 1n;
  const whole = decimal.unscaled % step === 0n;
  // For whole numbers x ≥ 2.5 is x > 2, and x < 2.5 is x ≤ 2.
  const effective: BoundName = whole
    ? name
    : name === 'minimum' || name === 'exclusiveMinimum'
      ? 'exclusiveMinimum'
      : 'maximum';
  const small = Number(floor);
  const bound: number | bigint = Number.isSafeInteger(small) ? small : floor;
  const numeric = (value: Cell): value is number | bigint => typeof value === 'number' || typeof value === 'bigint';
  switch (effective) {
    case 'minimum':
      return (value) => !numeric(value) || value >= bound;
    case 'maximum':
      return (value) => !numeric(value) || value <= bound;
    case 'exclusiveMinimum':
      return (value) => !numeric(value) || value > bound;
    case 'exclusiveMaximum':
      return (value) => !numeric(value) || value < bound;
  }
}

/** PostgreSQL's order: NaN stands above every number. */
function numberBound(name: BoundName, bound: number): CellTest {
  return (value) =>
    typeof value !== 'number' || holds(name, Number.isNaN(value) ? 1 : value < bound ? -1 : value > bound ? 1 : 0);
}

function textBound(name: BoundName, text: string): CellTest | null {
  const bound = decimalBound(text);
  if (bound === null) return null;
  return (value) => {
    if (typeof value === 'string') return holds(name, compareDecimalText(value, bound));
    return typeof value === 'number' || typeof value === 'bigint'
      ? holds(name, compareDecimalText(`${value}`, bound))
      : true;
  };
}

function temporalBound(name: BoundName, text: string, kind: TemporalKind): CellTest | null {
  const micros = parseInstant(text);
  if (micros === null || micros < EARLIEST) return null;
  const bound = formatMicros(micros, kind);
  return (value) => {
    if (typeof value !== 'string') return true;
    if (value === 'infinity') return holds(name, 1);
    if (value === '-infinity' || value.endsWith('BC')) return holds(name, -1);
    return holds(name, compareTemporalText(value, bound));
  };
}
/** 0001-01-01: a bound before Christ would need another order of texts, and nobody has asked for it. */
const EARLIEST = -62_135_596_800_000_000n;

/** `24:00:00` is legal in PostgreSQL; texts of one form order as the times do. */
function timeBound(name: BoundName, text: string): CellTest | null {
  if (!/^\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?$/.test(text)) return null;
  const bound = text.length === 5 ? `${text}:00` : text;
  return (value) => typeof value !== 'string' || holds(name, value < bound ? -1 : value > bound ? 1 : 0);
}

export function multipleTest(mapping: TypeMapping, text: string): CellTest | null {
  const step = parseDecimal(text);
  if (step === null || step.unscaled === 0n || mapping.logicalType === 'array') return null;
  return (value) => {
    if (typeof value === 'string') return mapping.wire !== 'decimal' || isDecimalMultiple(value, step);
    if (typeof value === 'bigint') return isMultipleOf({ unscaled: value, scale: 0 }, step);
    return typeof value !== 'number' || isDecimalMultiple(`${value}`, step);
  };
}
