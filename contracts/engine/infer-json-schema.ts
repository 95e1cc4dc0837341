/** A JSON Schema of one row (an object with properties) → catalog table for `inferContract`. What it cannot map is listed. */
import type { CatalogColumn, CatalogTable } from './catalog.ts';

export interface JsonSchemaResult {
  readonly table: CatalogTable;
  /** Keywords that became nothing, by column: `total: allOf`. */
  readonly ignored: readonly string[];
}

interface Schema {
  readonly [keyword: string]: unknown;
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Null when the value is no schema of an object. `keys`: the key columns in order. */
export function readJsonSchema(
  value: unknown,
  schema: string,
  table: string,
  keys: readonly string[] = [],
): JsonSchemaResult | null {
  const root = isSchema(value) ? value : null;
  const properties = root?.['properties'];
  if (root === null || !isSchema(properties)) return null;
  const required = new Set(Array.isArray(root['required']) ? (root['required'] as unknown[]).map(String) : []);
  const ignored: string[] = [];
  const columns = Object.entries(properties).map(([name, property]) =>
    columnOf(name, isSchema(property) ? property : {}, required.has(name), keys.indexOf(name) + 1, ignored),
  );
  return { table: { schema, table, columns, comment: textOf(root['description']) }, ignored };
}

const READ: ReadonlySet<string> = new Set(
  'type format description title enum const maxLength items properties required additionalProperties default examples $comment'.split(
    ' ',
  ),
);

function columnOf(
  name: string,
  given: Schema,
  required: boolean,
  keyPosition: number,
  ignored: string[],
): CatalogColumn {
  const { schema, nullable } = withoutNull(given);
  for (const keyword of Object.keys(schema)) if (!READ.has(keyword)) ignored.push(`${name}: ${keyword}`);
  const isArray = schema['type'] === 'array';
  const items = isSchema(schema['items']) ? withoutNull(schema['items']).schema : {};
  const element = isArray ? scalarType(items) : null;
  return {
    name,
    pgType: element === null ? scalarType(schema) : element === 'jsonb' ? 'jsonb' : `${element}[]`,
    baseType: element === 'jsonb' ? null : element,
    kind: element === null || element === 'jsonb' ? 'base' : 'array',
    enumLabels: labelsOf(schema),
    notNull: keyPosition > 0 || (required && !nullable),
    keyPosition,
    comment: textOf(schema['description']),
  };
}

/** `type: [T, null]`, `anyOf: [T, {type: null}]` and an enum with null are nullable T. */
function withoutNull(schema: Schema): { readonly schema: Schema; readonly nullable: boolean } {
  const type = schema['type'];
  if (Array.isArray(type) && type.includes('null')) {
    const rest = type.filter((word) => word !== 'null');
    return { schema: { ...schema, type: rest.length === 1 ? rest[0] : rest }, nullable: true };
  }
  for (const word of ['anyOf', 'oneOf']) {
    const list = schema[word];
    if (!Array.isArray(list)) continue;
    const rest = list.filter((item) => !(isSchema(item) && item['type'] === 'null')) as unknown[];
    const [only] = rest;
    if (rest.length < list.length && rest.length === 1 && isSchema(only)) {
      const { [word]: _, ...outer } = schema;
      return { schema: { ...outer, ...only }, nullable: true };
    }
  }
  const values = schema['enum'];
  return { schema, nullable: Array.isArray(values) && values.includes(null) };
}

const FORMATS: Readonly<Record<string, string>> = {
  uuid: 'uuid',
  date: 'date',
  'date-time': 'timestamp with time zone',
  time: 'time without time zone',
  decimal: 'numeric',
  byte: 'bytea',
};

function scalarType(schema: Schema): string {
  const format = textOf(schema['format']) ?? '';
  switch (schema['type']) {
    case 'boolean':
      return 'boolean';
    case 'integer':
      return format === 'int32' ? 'integer' : format === 'int16' ? 'smallint' : 'bigint';
    case 'number':
      return format === 'float' ? 'real' : 'double precision';
    case 'string': {
      const length = schema['maxLength'];
      return FORMATS[format] ?? (typeof length === 'number' ? `varchar(${length})` : 'text');
    }
    case undefined:
      return Array.isArray(schema['enum']) ? 'text' : 'jsonb';
    default:
      return 'jsonb';
  }
}

function labelsOf(schema: Schema): readonly string[] | null {
  const values = schema['enum'];
  if (!Array.isArray(values)) return null;
  const texts = values.filter((value) => value !== null) as unknown[];
  return texts.every((value) => typeof value === 'string') ? (texts as string[]) : null;
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);
