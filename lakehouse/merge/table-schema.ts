/**
 * The schema a merge writes with: the table's fields, then those of the batch that the table lacks (added in the same
 * commit). Columns whose type in the batch is narrower than the table's are widened; any other difference is an error.
 */
import type { ColumnVector } from '../table/column.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { MergeError } from './merge-error.ts';

export interface MergedSchema {
  readonly schema: StructType;
  /** Fields that the table does not have yet. */
  readonly added: readonly StructField[];
  /** For each field of `schema`, its place in the batch, or -1: the batch does not have it. */
  readonly batchIndex: readonly number[];
}

const sameName = (a: string, b: string): boolean => a.toLowerCase() === b.toLowerCase();

/** @throws MergeError MERGE_TYPE_MISMATCH */
export function mergeSchemas(table: StructType, batch: StructType, uri: string): MergedSchema {
  const added: StructField[] = [];
  for (const field of batch.fields) {
    const existing = table.fields.find((candidate) => sameName(candidate.name, field.name));
    if (existing === undefined) added.push({ ...field, nullable: true });
    else if (!isWidening(field.type, existing.type))
      throw new MergeError(
        'MERGE_TYPE_MISMATCH',
        uri,
        `column ${field.name} is ${typeText(field.type)} in the batch and ${typeText(existing.type)} in the table; ` +
          `rewrite the table with the wider type, or map the source column to ${typeText(existing.type)} in its contract`,
      );
  }
  const schema: StructType = added.length === 0 ? table : { type: 'struct', fields: [...table.fields, ...added] };
  const batchIndex = schema.fields.map((field) => batch.fields.findIndex((other) => sameName(other.name, field.name)));
  return { schema, added, batchIndex };
}

function typeText(type: DeltaType): string {
  if (typeof type === 'string') return type;
  return type.type === 'array' ? `array<${typeText(type.elementType)}>` : type.type;
}

const INTEGERS = ['byte', 'short', 'integer', 'long'];
const DECIMAL = /^decimal\((\d+),(\d+)\)$/;

/** Whether every value of `from` is one of `to`, exactly. */
function isWidening(from: DeltaType, to: DeltaType): boolean {
  if (typeof from === 'object' || typeof to === 'object') return sameNested(from, to);
  if (from === to) return true;
  const low = INTEGERS.indexOf(from);
  if (low >= 0 && INTEGERS.indexOf(to) > low) return true;
  if (from === 'float' && to === 'double') return true;
  const [a, b] = [DECIMAL.exec(from), DECIMAL.exec(to)];
  if (a === null || b === null) return false;
  const scaleRise = Number(b[2]) - Number(a[2]);
  return scaleRise >= 0 && Number(b[1]) - Number(a[1]) >= scaleRise;
}

function sameNested(from: DeltaType, to: DeltaType): boolean {
  if (typeof from === 'string' || typeof to === 'string') return from === to;
  if (from.type === 'array' && to.type === 'array') return sameNested(from.elementType, to.elementType);
  if (from.type === 'map' && to.type === 'map')
    return sameNested(from.keyType, to.keyType) && sameNested(from.valueType, to.valueType);
  if (from.type !== 'struct' || to.type !== 'struct' || from.fields.length !== to.fields.length) return false;
  return from.fields.every((field, i) => {
    const other = to.fields[i];
    return other !== undefined && field.name === other.name && sameNested(field.type, other.type);
  });
}

/** The column in the layout that `to` wants; the same object when nothing is to change. */
export function widenColumn(column: ColumnVector, to: DeltaType): ColumnVector {
  const { length, validity } = column;
  if (column.kind === 'int32' && to === 'long')
    return { kind: 'int64', length, validity, values: BigInt64Array.from(column.values, BigInt) };
  if (column.kind === 'float32' && to === 'double')
    return { kind: 'float64', length, validity, values: Float64Array.from(column.values) };
  if (column.kind !== 'decimal' || typeof to !== 'string') return column;
  const [, precisionText, scaleText] = DECIMAL.exec(to) ?? [];
  const precision = Number(precisionText ?? column.precision);
  const scale = Number(scaleText ?? column.scale);
  if (precision === column.precision && scale === column.scale) return column;
  const factor = 10n ** BigInt(scale - column.scale);
  const values = new BigInt64Array(column.values.length);
  for (let row = 0; row < length; row++) {
    const low = BigInt.asUintN(64, column.values[row * 2] ?? 0n);
    const value = (((column.values[row * 2 + 1] ?? 0n) << 64n) | low) * factor;
    values[row * 2] = BigInt.asIntN(64, value);
    values[row * 2 + 1] = value >> 64n;
  }
  return { kind: 'decimal', length, validity, precision, scale, values };
}
