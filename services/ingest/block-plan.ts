/**
 * How the rows of a block go into a table's columns: which column of the block each field comes from, how its text is parsed,
 * and what the contract asks of it. Made once a shape and contract; null where a row has to be looked at as a whole (personal
 * values are replaced, or the contract and the shape differ in their columns).
 */
import type { ColumnGate, RowGate } from '../../contracts/engine/gate.ts';
import type { DeltaType } from '../../lakehouse/table/schema.ts';
import type { TableShape } from '../log/event.ts';
import { wireFormOf, WireKind, type WireForm } from '../log/text-cell.ts';
import {
  decimalParser,
  integerParser,
  parseBooleans,
  parseDates,
  parseFloats,
  timestampParser,
  type ColumnParser,
} from './columns/parse-column.ts';
import type { PlanField, TablePlan } from './table-plan.ts';

export interface BlockField {
  readonly field: PlanField;
  /** In the block, and in the table's builders. */
  readonly column: number;
  readonly form: WireForm;
  readonly gate: ColumnGate;
  /** `text`: the bytes as they are. `cell`: each value by its cell. */
  readonly parser: ColumnParser | 'text' | 'cell';
}

export interface BlockRule {
  readonly rule: RowGate;
  /** Indexes of its columns among the fields. */
  readonly fields: readonly number[];
}

export interface BlockPlan {
  readonly fields: readonly BlockField[];
  readonly rules: readonly BlockRule[];
  /** Indexes of the key columns among the fields, in key order. */
  readonly keyFields: readonly number[];
}

export function planBlock(shape: TableShape, plan: TablePlan): BlockPlan | null {
  const { columns, rowRules } = plan.gate.columnwise;
  if (plan.privacy !== null || plan.logPrivacy !== null || plan.fields.length !== columns.length) return null;
  if (columns.length !== shape.columns.length) return null;
  const gates = new Map(columns.map((gate) => [gate.name, gate]));
  const places = new Map(shape.columns.map(({ name }, index) => [name, index]));
  const fields: BlockField[] = [];
  for (const field of plan.fields) {
    const gate = gates.get(field.sourceName);
    const column = places.get(field.sourceName);
    const source = column === undefined ? undefined : shape.columns[column];
    if (gate === undefined || column === undefined || source === undefined) return null;
    const form = wireFormOf(source);
    const parser = parserOf(form, gate, field.type);
    fields.push({ field, column, form, gate, parser });
  }
  const fieldOf = (name: string): number => fields.findIndex(({ field }) => field.sourceName === name);
  const rules = rowRules.map((rule) => ({ rule, fields: rule.columns.map(fieldOf) }));
  const keyFields = plan.keySources.map(fieldOf);
  return [...keyFields, ...rules.flatMap((rule) => rule.fields)].includes(-1) ? null : { fields, rules, keyFields };
}

const INTEGER_BOUNDS: Readonly<Record<string, readonly [number, number]>> = {
  byte: [-128, 127],
  short: [-32_768, 32_767],
  int16: [-32_768, 32_767],
  integer: [-2_147_483_648, 2_147_483_647],
  int32: [-2_147_483_648, 2_147_483_647],
  uint32: [0, 4_294_967_295],
  long: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/** A parser only where source, contract and lake agree, so that what it parses passes the contract's type check. */
function parserOf(form: WireForm, gate: ColumnGate, type: DeltaType): BlockField['parser'] {
  const { wire } = gate;
  const { kind } = form;
  if (typeof type !== 'string') return 'cell';
  if (kind === WireKind.integer) {
    const asked = INTEGER_BOUNDS[wire];
    const held = INTEGER_BOUNDS[type];
    const known = asked !== undefined && held !== undefined;
    return known ? integerParser(Math.max(asked[0], held[0]), Math.min(asked[1], held[1])) : 'cell';
  }
  if (gate.delta !== type) return 'cell';
  if (kind === WireKind.float) return wire === 'float32' || wire === 'float64' ? parseFloats : 'cell';
  if (kind === WireKind.boolean) return wire === 'boolean' && type === 'boolean' ? parseBooleans : 'cell';
  if (kind === WireKind.timestamp)
    return wire === 'timestamp' && type === 'timestamp_ntz' ? timestampParser(false) : 'cell';
  if (kind === WireKind.timestamptz)
    return wire === 'timestamptz' && type === 'timestamp' ? timestampParser(true) : 'cell';
  if (kind !== WireKind.text) return 'cell';
  if (wire === 'text') return type === 'string' ? 'text' : 'cell';
  if (wire === 'date') return type === 'date' ? parseDates : 'cell';
  const decimal = wire === 'decimal' ? /^decimal\((\d+),\s*(\d+)\)$/.exec(type) : null;
  return decimal === null ? 'cell' : decimalParser(Number(decimal[1]), Number(decimal[2]));
}
