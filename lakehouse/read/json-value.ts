/**
 * A column's value as JSON text, exact in every digit: longs and decimals are bare numbers with all their digits, what JSON
 * cannot say as a number (NaN, Infinity) is a string. Also the canonical form in which tests compare rows.
 */
import { unscaledText } from '../table/unscaled-text.ts';
import { isNull, type ColumnBatch, type ColumnVector } from '../table/column.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { dateText, timestampText } from '../table/calendar.ts';

const text = new TextDecoder('utf-8', { fatal: false });

/** Shortest digits that read back as the same number; NaN and infinities by name. */
export function floatText(value: number, single: boolean): string {
  if (!Number.isFinite(value)) return `"${value}"`;
  if (Object.is(value, -0)) return '-0.0';
  if (!single) return String(value);
  for (let digits = 1; digits <= 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === value) return String(candidate);
  }
  return String(value);
}

export function jsonValue(type: DeltaType, column: ColumnVector, row: number): string {
  if (isNull(column, row)) return 'null';
  switch (column.kind) {
    case 'boolean':
      return ((column.values[row >> 3] ?? 0) & (1 << (row & 7))) === 0 ? 'false' : 'true';
    case 'int32': {
      const value = column.values[row] ?? 0;
      return type === 'date' ? `"${dateText(value)}"` : String(value);
    }
    case 'int64': {
      const value = column.values[row] ?? 0n;
      if (type === 'timestamp') return `"${timestampText(value, 'Z')}"`;
      if (type === 'timestamp_ntz') return `"${timestampText(value, '')}"`;
      return value.toString();
    }
    case 'float32':
    case 'float64':
      return floatText(column.values[row] ?? 0, column.kind === 'float32');
    case 'decimal':
      return unscaledText(column.values[2 * row] ?? 0n, column.values[2 * row + 1] ?? 0n, column.scale);
    case 'utf8':
      return JSON.stringify(text.decode(column.data.subarray(column.offsets[row], column.offsets[row + 1])));
    case 'binary':
      return `"${Buffer.from(column.data.subarray(column.offsets[row], column.offsets[row + 1])).toString('base64')}"`;
    case 'list': {
      const elementType = typeof type === 'object' && type.type === 'array' ? type.elementType : 'string';
      const out: string[] = [];
      for (let i = column.offsets[row] ?? 0; i < (column.offsets[row + 1] ?? 0); i++)
        out.push(jsonValue(elementType, column.child, i));
      return `[${out.join(',')}]`;
    }
    case 'struct':
      return structJson(type, column.names, column.children, row);
    case 'map': {
      const [keyType, valueType] =
        typeof type === 'object' && type.type === 'map'
          ? [type.keyType, type.valueType]
          : (['string', 'string'] as const);
      const out: string[] = [];
      for (let i = column.offsets[row] ?? 0; i < (column.offsets[row + 1] ?? 0); i++)
        out.push(`{"key":${jsonValue(keyType, column.keys, i)},"value":${jsonValue(valueType, column.items, i)}}`);
      return `[${out.join(',')}]`;
    }
  }
}

function structJson(type: DeltaType, names: readonly string[], children: readonly ColumnVector[], row: number): string {
  const fields = typeof type === 'object' && type.type === 'struct' ? type.fields : [];
  const parts = names.map((name, i) => {
    const child = children[i];
    const field = fields.find((candidate) => candidate.name === name);
    return `${JSON.stringify(name)}:${child === undefined ? 'null' : jsonValue(field?.type ?? 'binary', child, row)}`;
  });
  return `{${parts.join(',')}}`;
}

/** One row as a JSON object, its columns in the batch's order. */
export function jsonRow(schema: StructType, batch: ColumnBatch, row: number): string {
  return structJson(schema, batch.names, batch.columns, row);
}
