/**
 * What a cell must be to have its wire form and to fit the lake's type. A check answers in one pass and allocates nothing;
 * why a value failed is asked only afterwards.
 */
import type { Cell, ViolationCode } from '../gate.ts';
import { decimalParts } from '../type-table.ts';
import type { TypeMapping, WireForm } from '../type-table.ts';
import { classifyDecimal, fitsDecimal } from './decimal-check.ts';
import { classifyTemporal } from './temporal.ts';
import type { TemporalKind } from './temporal.ts';
import { isBase64 } from './value-formats.ts';

/** Null when the value is right. NULL and absence are not asked here. */
export type CellFault = Extract<ViolationCode, 'TYPE' | 'UNREPRESENTABLE' | 'ARRAY_SHAPE'> | null;

export interface CellCheck {
  readonly ok: (value: Cell) => boolean;
  readonly fault: (value: Cell) => CellFault;
  /** What a right value is: `an integer from -32768 to 32767`. */
  readonly expected: string;
}

export function cellCheck(mapping: TypeMapping): CellCheck {
  const fault = faultOf(mapping);
  return { ok: fastCheck(mapping) ?? ((value) => fault(value) === null), fault, expected: expectedText(mapping) };
}

const INTEGER_RANGE: Readonly<Partial<Record<WireForm, readonly [number, number]>>> = {
  int16: [-32_768, 32_767],
  int32: [-2_147_483_648, 2_147_483_647],
  uint32: [0, 4_294_967_295],
};
const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** The forms that most columns have, each as one small function. */
function fastCheck(mapping: TypeMapping): ((value: Cell) => boolean) | null {
  switch (mapping.wire) {
    case 'boolean':
      return (value) => typeof value === 'boolean';
    case 'text':
      return (value) => typeof value === 'string';
    case 'float32':
    case 'float64':
      return (value) => typeof value === 'number';
    case 'int64':
      return (value) => (typeof value === 'number' ? Number.isSafeInteger(value) : isInt64(value));
    case 'int16':
    case 'int32':
    case 'uint32': {
      const [min, max] = INTEGER_RANGE[mapping.wire] ?? [0, 0];
      return (value) => typeof value === 'number' && value >= min && value <= max && Number.isInteger(value);
    }
    default:
      return null;
  }
}

function isInt64(value: Cell): boolean {
  return typeof value === 'bigint' && value >= INT64_MIN && value <= INT64_MAX;
}

function faultOf(mapping: TypeMapping): (value: Cell) => CellFault {
  const { wire, delta } = mapping;
  switch (wire) {
    case 'decimal':
      return decimalFault(decimalParts(delta));
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return temporalFault(wire, delta === 'string');
    case 'base64':
      return (value) => (typeof value === 'string' && isBase64(value) ? null : 'TYPE');
    case 'array':
      // The elements have their own checks; PostgreSQL's text of another shape stays text in a string column.
      return (value) =>
        Array.isArray(value) ? null : typeof value !== 'string' ? 'TYPE' : delta === 'string' ? null : 'ARRAY_SHAPE';
    default: {
      const check = fastCheck(mapping);
      return (value) => (check?.(value) === true ? null : 'TYPE');
    }
  }
}

/** Null parts: the lake keeps the text, and NaN and the infinities with it. */
function decimalFault(
  parts: { readonly precision: number; readonly scale: number } | null,
): (value: Cell) => CellFault {
  return (value) => {
    // Debezium's `decimal.handling.mode=double` and integers of other producers come as numbers.
    const text =
      typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'bigint' ? `${value}` : null;
    if (text === null) return 'TYPE';
    const found = classifyDecimal(text);
    if (found === 'invalid') return 'TYPE';
    if (parts === null) return null;
    return found === 'plain' && fitsDecimal(text, parts.precision, parts.scale) ? null : 'UNREPRESENTABLE';
  };
}

function temporalFault(kind: TemporalKind, keepsText: boolean): (value: Cell) => CellFault {
  return (value) => {
    if (typeof value !== 'string') return 'TYPE';
    const found = classifyTemporal(value, kind);
    if (found === 'plain') return null;
    return found === 'invalid' ? 'TYPE' : keepsText ? null : 'UNREPRESENTABLE';
  };
}

function expectedText(mapping: TypeMapping): string {
  const range = INTEGER_RANGE[mapping.wire];
  if (range !== undefined) return `an integer from ${range[0]} to ${range[1]}`;
  switch (mapping.wire) {
    case 'int64':
      return 'a 64-bit integer';
    case 'decimal': {
      const parts = decimalParts(mapping.delta);
      return parts === null
        ? 'a decimal number'
        : `a decimal number of ${parts.precision} digits, ${parts.scale} of them after the point`;
    }
    case 'date':
      return 'a date of year 1 or later';
    case 'timestamp':
      return 'a timestamp without zone of year 1 or later';
    case 'timestamptz':
      return 'a timestamp in UTC of year 1 or later';
    case 'base64':
      return 'base64 text';
    case 'array':
      return 'a one-dimensional array with lower bound 1';
    case 'boolean':
      return 'true or false';
    case 'float32':
    case 'float64':
      return 'a number';
    default:
      return 'text';
  }
}
