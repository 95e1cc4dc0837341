/** JSON Schema 2020-12 of a row as it stands in an envelope's `after`. */
import { mapContractColumn } from '../type-table.ts';
import type { TypeMapping } from '../type-table.ts';
import type { Column, Contract, TableContract } from '../model.ts';
import { lostRules } from './export-result.ts';
import type { ExportResult, LossyItem } from './export-result.ts';

type Schema = Record<string, unknown>;

export function exportJsonSchema(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostRules(table, 'JSON Schema');
  const properties = Object.fromEntries(
    table.columns.map((column) => [column.name, columnSchema(column, table, lossy)]),
  );
  const schema: Schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `urn:sluice:${contract.id}:${contract.version}:${table.name}`,
    title: table.name,
    ...(table.description === null ? {} : { description: table.description }),
    type: 'object',
    properties,
    required: table.columns.filter((column) => column.required || column.keyPosition > 0).map((column) => column.name),
    // A closed schema would break readers whenever the source adds a column.
    additionalProperties: table.unknownColumns !== 'quarantine' && table.unknownColumns !== 'fail',
  };
  return { text: `${JSON.stringify(schema, bigintNumber, 2)}\n`, lossy };
}

function columnSchema(column: Column, table: TableContract, lossy: LossyItem[]): Schema {
  const mapping = mapContractColumn(column);
  const subject = `${table.name}.${column.name}`;
  const schema = typeSchema(mapping, column, subject, lossy);
  const { description, required, keyPosition, allowedValues } = column;
  if (description !== null) schema['description'] = description;
  if (allowedValues !== null && !column.enumOpen) {
    schema['enum'] = required ? allowedValues : [...allowedValues, null];
  }
  if (!required && keyPosition === 0 && typeof schema['type'] === 'string') schema['type'] = [schema['type'], 'null'];
  if (column.unique) lossy.push({ subject, message: 'JSON Schema looks at one row: uniqueness is lost' });
  return schema;
}

function typeSchema(mapping: TypeMapping, column: Column, subject: string, lossy: LossyItem[]): Schema {
  const { options } = column;
  switch (mapping.wire) {
    case 'boolean':
      return { type: 'boolean' };
    case 'int16':
    case 'int32':
    case 'int64':
    case 'uint32':
      return { type: 'integer', format: INTEGER_FORMATS[mapping.wire], ...numberBounds(column) };
    case 'float32':
    case 'float64':
      return {
        anyOf: [
          { type: 'number', ...numberBounds(column) },
          { enum: ['NaN', 'Infinity', '-Infinity'] },
          ...(column.required ? [] : [{ type: 'null' }]),
        ],
      };
    case 'decimal':
      for (const name of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const)
        if (options[name] !== undefined)
          lossy.push({ subject, message: `${name} ${options[name]} of decimal text cannot be said in JSON Schema` });
      return { type: 'string', format: 'decimal', pattern: '^-?[0-9]+(\\.[0-9]+)?$|^NaN$|^-?Infinity$' };
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      for (const name of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const)
        if (options[name] !== undefined)
          lossy.push({
            subject,
            message: `${name} of a ${column.logicalType ?? 'time'} cannot be said in JSON Schema`,
          });
      return {
        type: 'string',
        format: mapping.wire === 'date' ? 'date' : mapping.wire === 'timestamptz' ? 'date-time' : 'local-date-time',
      };
    case 'base64':
      return { type: 'string', contentEncoding: 'base64' };
    case 'array':
      return {
        type: 'array',
        ...(mapping.element === null ? {} : { items: itemSchema(mapping.element, column.items, subject, lossy) }),
        ...pick(column, 'minItems', 'maxItems', 'uniqueItems'),
      };
    case 'text':
      if (mapping.json && (column.items !== null || column.properties.length > 0))
        lossy.push({ subject, message: 'the column is JSON in a string: its inner shape is lost' });
      return { type: 'string', ...pick(column, 'minLength', 'maxLength', 'pattern', 'format') };
  }
}

function itemSchema(element: TypeMapping, items: Column | null, subject: string, lossy: LossyItem[]): Schema {
  if (items === null) return { type: JSON_TYPES[element.wire] ?? 'string' };
  const schema = typeSchema(element, items, `${subject}[]`, lossy);
  // NULL elements are legal in PostgreSQL arrays.
  if (!items.required && typeof schema['type'] === 'string') schema['type'] = [schema['type'], 'null'];
  return schema;
}
const JSON_TYPES: Readonly<Record<string, string>> = {
  boolean: 'boolean',
  int16: 'integer',
  int32: 'integer',
  int64: 'integer',
  uint32: 'integer',
  float32: 'number',
  float64: 'number',
  array: 'array',
};
const INTEGER_FORMATS: Readonly<Record<string, string>> = {
  int16: 'int16',
  int32: 'int32',
  int64: 'int64',
  uint32: 'uint32',
};

function pick(column: Column, ...names: readonly (keyof Column['options'])[]): Schema {
  return Object.fromEntries(
    names.flatMap((name) => (column.options[name] === undefined ? [] : [[name, column.options[name]]])),
  );
}

function numberBounds(column: Column): Schema {
  const names = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const;
  return Object.fromEntries(
    names.flatMap((name) => {
      const text = column.options[name];
      return text === undefined ? [] : [[name, /^-?\d+$/.test(text) ? BigInt(text) : Number(text)]];
    }),
  );
}

/** Digits beyond 2^53 would need a raw number, which JSON.stringify cannot write; they stand as text with the exact digits. */
function bigintNumber(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
}
