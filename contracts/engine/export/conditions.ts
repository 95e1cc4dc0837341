/** A column's conditions in SQL; each is true or false for a value, NULL is the caller's matter. */
import type { Column } from '../model.ts';
import { parsePgType } from '../pg-type.ts';
import type { TypeMapping } from '../type-table.ts';
import type { ScalarValue } from '../yaml-tree.ts';
import type { Enforced } from './enforced.ts';
import { readByJava, readByPostgres } from './pattern-dialect.ts';

export type ConditionDialect = 'spark' | 'postgres';

export interface Conditions {
  readonly list: readonly { readonly kind: string; readonly expression: string }[];
  /** What the dialect cannot say. */
  readonly lost: readonly string[];
}

const COMPARISONS = [
  ['minimum', '>='],
  ['maximum', '<='],
  ['exclusiveMinimum', '>'],
  ['exclusiveMaximum', '<'],
] as const;

/** PostgreSQL types whose values the text functions take as they are. */
const TEXT_NAMES: ReadonlySet<string> = new Set(['text', 'varchar', 'bpchar', 'citext', 'name']);

export function columnConditions(
  column: Column,
  enforced: Enforced,
  mapping: TypeMapping,
  name: string,
  dialect: ConditionDialect,
): Conditions {
  const list: { kind: string; expression: string }[] = [];
  const lost: string[] = enforced.warnings.map((warning) => `${warning}, which only warns`);
  const add = (kind: string, expression: string): void => {
    list.push({ kind, expression });
  };
  const { options } = enforced;
  const quote = (text: string): string => literal(text, dialect);
  const keptAsText = dialect === 'spark' && mapping.delta === 'string' && mapping.wire !== 'text';
  for (const [option, sign] of COMPARISONS) {
    const bound = options[option];
    if (bound === undefined) continue;
    if (keptAsText) lost.push(`${option} on values that are kept as text`);
    else add(option, `${name} ${sign} ${boundText(bound, mapping, dialect)}`);
  }
  if (options.multipleOf !== undefined) {
    if (keptAsText) lost.push('multipleOf on values that are kept as text');
    else if (mapping.wire.startsWith('float')) lost.push('multipleOf on floating-point numbers');
    else add('multiple_of', `${name} % ${options.multipleOf} = 0`);
  }
  const plainText = dialect === 'spark' || TEXT_NAMES.has(parsePgType(mapping.physicalType).name);
  const text = plainText ? name : `${name}::text`;
  if (keptAsText && (options.minLength !== undefined || options.maxLength !== undefined))
    lost.push('lengths of values that are kept as text');
  else {
    const length = mapping.wire === 'base64' ? `octet_length(${name})` : `char_length(${text})`;
    if (options.minLength !== undefined) add('min_length', `${length} >= ${options.minLength}`);
    if (options.maxLength !== undefined) add('max_length', `${length} <= ${options.maxLength}`);
  }
  const readable = dialect === 'spark' ? readByJava : readByPostgres;
  for (const [index, pattern] of enforced.patterns.entries()) {
    const kind = index === 0 ? 'pattern' : `pattern_${index + 1}`;
    if (mapping.wire !== 'text' || !readable(pattern)) lost.push('its pattern');
    else add(kind, `${text} ${dialect === 'spark' ? 'RLIKE' : '~'} ${quote(pattern)}`);
  }
  const listed = (values: readonly ScalarValue[]): string =>
    values.map((value) => valueText(value, mapping, quote)).join(', ');
  if (enforced.values !== null) {
    if (mapping.wire === 'array' || mapping.physicalType === 'json') lost.push('its value list');
    else add('values', enforced.values.length === 0 ? 'false' : `${name} IN (${listed(enforced.values)})`);
  }
  if (enforced.missing.length > 0) add('missing', `${name} NOT IN (${listed(enforced.missing)})`);
  if (options.format !== undefined && mapping.wire === 'text' && options.format !== mapping.options.format)
    lost.push(`format ${options.format}`);
  if (options.minItems !== undefined || options.maxItems !== undefined) {
    const size = dialect === 'spark' ? `size(${name})` : `cardinality(${name})`;
    if (mapping.wire !== 'array' || keptAsText) lost.push('item counts of JSON text');
    else {
      if (options.minItems !== undefined) add('min_items', `${size} >= ${options.minItems}`);
      if (options.maxItems !== undefined) add('max_items', `${size} <= ${options.maxItems}`);
    }
  }
  if (options.uniqueItems === true) lost.push('uniqueItems');
  lost.push(...lostInside(column, mapping));
  return { list, lost };
}

/** Conditions on elements of arrays and on what stands in documents. */
function lostInside(column: Column, mapping: TypeMapping): string[] {
  if (mapping.json && (column.items !== null || column.properties.length > 0 || column.mapValue !== null))
    return ['the shape of the documents in it'];
  const { items } = column;
  if (items === null) return [];
  const options = Object.keys(items.options).some((name) => name !== 'format' && name !== 'timezone');
  return options || items.allowedValues !== null || items.required ? ['conditions on its items'] : [];
}

function boundText(bound: string, mapping: TypeMapping, dialect: ConditionDialect): string {
  const quoted = literal(bound, dialect);
  switch (mapping.wire) {
    case 'date':
      return `DATE ${quoted}`;
    case 'timestamp':
      return `${dialect === 'spark' ? 'TIMESTAMP_NTZ' : 'TIMESTAMP'} ${quoted}`;
    case 'timestamptz': {
      // A time without a zone is UTC in a contract; either server would read it in the session's zone.
      const zoned = /(?:Z|[+-]\d\d(?::?\d\d)?)$/.test(bound.slice(10)) ? quoted : literal(`${bound}Z`, dialect);
      return `${dialect === 'spark' ? 'TIMESTAMP' : 'TIMESTAMPTZ'} ${/^\d{4,}-\d\d-\d\d$/.test(bound) ? literal(`${bound}T00:00:00Z`, dialect) : zoned}`;
    }
    case 'text':
      return quoted;
    default:
      return bound;
  }
}

function valueText(value: ScalarValue, mapping: TypeMapping, quote: (text: string) => string): string {
  if (mapping.wire === 'text' || mapping.wire === 'base64' || typeof value === 'string') return quote(String(value));
  return String(value);
}

function literal(text: string, dialect: ConditionDialect): string {
  // Spark reads '' in a literal as the end of one and the start of the next.
  return dialect === 'spark'
    ? `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : `'${text.replaceAll("'", "''")}'`;
}
