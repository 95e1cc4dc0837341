/**
 * `add.stats_parsed` of checkpoints that keep statistics as columns only (`delta.checkpoint.writeStatsAsStruct` without
 * `…AsJson`): its type for a table, and its value as the JSON text that `add.stats` would have been.
 */
import type { ColumnVector, StructColumn } from './column.ts';
import { isNull } from './column.ts';
import { dateText, timestampText } from './calendar.ts';
import { booleanCell, longCell, structChild, textCell } from './cell.ts';
import { PHYSICAL_NAME } from './column-mapping.ts';
import { ExactNumber, stringifyLossless } from './lossless-json.ts';
import type { DeltaType, StructField, StructType } from './schema.ts';

const field = (name: string, type: DeltaType): StructField => ({ name, type, nullable: true, metadata: {} });

/** @param mapped whether files and statistics have physical names */
export function parsedStatsType(schema: StructType, mapped: boolean): StructType {
  const values = valueFields(schema, mapped);
  return {
    type: 'struct',
    fields: [
      field('numRecords', 'long'),
      field('tightBounds', 'boolean'),
      field('minValues', values),
      field('maxValues', values),
      field('nullCount', countFields(schema, mapped)),
    ],
  };
}

/** Types without an order in the protocol's statistics have counts only. */
const UNORDERED: ReadonlySet<DeltaType> = new Set<DeltaType>(['boolean', 'binary', 'void', 'variant']);

function nameOf(of: StructField, mapped: boolean): string {
  const physical = of.metadata[PHYSICAL_NAME];
  return mapped && typeof physical === 'string' ? physical : of.name;
}

function valueFields(type: StructType, mapped: boolean): StructType {
  const fields = type.fields.flatMap((child) => {
    const name = nameOf(child, mapped);
    if (typeof child.type === 'string') return UNORDERED.has(child.type) ? [] : [field(name, child.type)];
    if (child.type.type !== 'struct') return [];
    const nested = valueFields(child.type, mapped);
    return nested.fields.length === 0 ? [] : [field(name, nested)];
  });
  return { type: 'struct', fields };
}

function countFields(type: StructType, mapped: boolean): StructType {
  const fields = type.fields.flatMap((child) => {
    const name = nameOf(child, mapped);
    if (typeof child.type === 'string') return child.type === 'void' ? [] : [field(name, 'long')];
    return [field(name, child.type.type === 'struct' ? countFields(child.type, mapped) : 'long')];
  });
  return { type: 'struct', fields };
}

/** JSON text of the statistics in `row`; null when there are none. */
export function parsedStatsText(column: ColumnVector | null, row: number, type: StructType): string | null {
  if (column === null || column.kind !== 'struct' || isNull(column, row)) return null;
  const out: Record<string, unknown> = {};
  const records = longCell(structChild(column, 'numRecords'), row);
  if (records !== null) out['numRecords'] = records;
  for (const name of ['minValues', 'maxValues', 'nullCount'] as const) {
    const child = structChild(column, name);
    const childType = type.fields.find((candidate) => candidate.name === name)?.type;
    if (child?.kind !== 'struct' || typeof childType !== 'object' || childType.type !== 'struct') continue;
    const values = structValues(child, row, childType);
    if (values !== null) out[name] = values;
  }
  const tight = booleanCell(structChild(column, 'tightBounds'), row);
  if (tight !== null) out['tightBounds'] = tight;
  return Object.keys(out).length === 0 ? null : stringifyLossless(out);
}

function structValues(column: StructColumn, row: number, type: StructType): Record<string, unknown> | null {
  if (isNull(column, row)) return null;
  const out: Record<string, unknown> = {};
  for (const child of type.fields) {
    const vector = structChild(column, child.name);
    if (vector === null || isNull(vector, row)) continue;
    if (vector.kind === 'struct' && typeof child.type === 'object' && child.type.type === 'struct') {
      const nested = structValues(vector, row, child.type);
      if (nested !== null) out[child.name] = nested;
    } else {
      const value = scalar(vector, row, child.type);
      if (value !== undefined) out[child.name] = value;
    }
  }
  return out;
}

function scalar(column: ColumnVector, row: number, type: DeltaType): unknown {
  switch (column.kind) {
    case 'utf8':
      return textCell(column, row);
    case 'int32':
      return type === 'date' ? dateText(column.values[row] ?? 0) : column.values[row];
    case 'int64': {
      const value = column.values[row] ?? 0n;
      return type === 'timestamp' || type === 'timestamp_ntz'
        ? timestampText(value, type === 'timestamp' ? 'Z' : '')
        : value;
    }
    case 'float32':
    case 'float64': {
      const value = column.values[row] ?? 0;
      return Number.isFinite(value) ? value : String(value);
    }
    case 'decimal':
      return new ExactNumber(decimalText(column.values, row, column.scale));
    default:
      return undefined;
  }
}

function decimalText(words: BigInt64Array, row: number, scale: number): string {
  const unscaled = ((words[row * 2 + 1] ?? 0n) << 64n) | BigInt.asUintN(64, words[row * 2] ?? 0n);
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0');
  const whole = digits.slice(0, digits.length - scale);
  const text = scale === 0 ? whole : `${whole}.${digits.slice(digits.length - scale)}`;
  return unscaled < 0n ? `-${text}` : text;
}
