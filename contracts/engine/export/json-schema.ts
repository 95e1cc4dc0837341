/**
 * JSON Schema 2020-12 of a row as it stands in an envelope's `after`. It refuses what the gate refuses and takes what the gate
 * takes; where the language cannot, the loss is listed.
 */
import { parseDecimal } from '../decimal-text.ts';
import { optionsWithRange } from '../integer-format.ts';
import type { Column, ColumnOptions, Contract, TableContract } from '../model.ts';
import { ACTION_DEFAULTS, unrepresentablePolicy } from '../rules/rule-meta.ts';
import { decimalParts, mapContractColumn } from '../type-table.ts';
import type { TypeMapping, WireForm } from '../type-table.ts';
import type { ScalarValue } from '../yaml-tree.ts';
import { enforcedOn } from './enforced.ts';
import type { Enforced } from './enforced.ts';
import type { ExportResult, LossyItem } from './export-result.ts';
import { lostPromises } from './lost-promises.ts';
import { readByEcma } from './pattern-dialect.ts';
import { DATE_PATTERN, decimalPattern, decimalValuePattern, TIME_PATTERN } from './value-patterns.ts';

type Schema = Record<string, unknown>;
type Lose = (message: string) => void;

export function exportJsonSchema(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostPromises(contract, table, {
    target: 'JSON Schema',
    lake: false,
    keys: false,
    uniqueness: false,
    defaults: true,
    partitions: false,
    unknownColumns: true,
    rules: new Set(),
  });
  const properties = Object.fromEntries(
    table.columns.map((column) => [column.name, columnSchema(column, table, lossy)]),
  );
  const schema: Schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: `urn:sluice:${encodeURIComponent(contract.id)}:${contract.version}:${encodeURIComponent(table.name)}`,
    title: table.name,
    ...(table.description === null ? {} : { description: table.description }),
    type: 'object',
    properties,
    required: table.columns.filter((column) => enforcedOn(column, table).mustBeThere).map((column) => column.name),
    // A closed schema would break readers whenever the source adds a column.
    additionalProperties: table.unknownColumns !== 'quarantine' && table.unknownColumns !== 'fail',
  };
  return { text: `${exactJson(schema)}\n`, lossy };
}

function columnSchema(column: Column, table: TableContract, lossy: LossyItem[]): Schema {
  const mapping = mapContractColumn(column);
  const subject = `${table.name}.${column.name}`;
  const lose: Lose = (message) => {
    lossy.push({ subject, message });
  };
  const enforced = enforcedOn(column, table);
  for (const warning of enforced.warnings) lose(`${warning} only warns, and a schema only refuses: left out`);
  const special = unrepresentablePolicy(column, table, ACTION_DEFAULTS) === 'null';
  const schema = valueSchema(mapping, column, enforced, special, lose);
  const { description, default: fallback } = column;
  return {
    ...(description === null ? {} : { description }),
    ...(enforced.nullable ? orNull(schema) : schema),
    ...(fallback === undefined ? {} : { default: fallback }),
  };
}

/** Keywords other than type, enum and anyOf look at values of their own type only, so NULL passes them. */
function orNull(schema: Schema): Schema {
  const { type, enum: values, anyOf } = schema;
  return {
    ...schema,
    ...(typeof type === 'string' ? { type: [type, 'null'] } : {}),
    ...(Array.isArray(type) ? { type: [...(type as string[]), 'null'] } : {}),
    ...(Array.isArray(values) ? { enum: [...(values as unknown[]), null] } : {}),
    ...(Array.isArray(anyOf) ? { anyOf: [...(anyOf as unknown[]), { type: 'null' }] } : {}),
  };
}

function valueSchema(mapping: TypeMapping, column: Column, enforced: Enforced, special: boolean, lose: Lose): Schema {
  const base = typeSchema(mapping, column, enforced.options, special, lose);
  const all: Schema[] = [];
  if (mapping.wire !== 'array') for (const pattern of enforced.patterns) all.push(...patternSchema(pattern, lose));
  if (enforced.values !== null && mapping.wire !== 'array') all.push(valuesSchema(enforced.values, mapping));
  if (enforced.missing.length > 0) all.push({ not: valuesSchema(enforced.missing, mapping) });
  // One condition stands beside the type, as people write it; several that share a keyword go into allOf.
  const [only] = all;
  if (only === undefined) return base;
  const clash = all.length > 1 || Object.keys(only).some((word) => Object.hasOwn(base, word));
  if (!clash) return { ...base, ...only };
  return { ...base, allOf: enforced.nullable ? all.map((part) => ('not' in part ? part : orNull(part))) : all };
}

function patternSchema(pattern: string, lose: Lose): Schema[] {
  if (readByEcma(pattern)) return [{ pattern }];
  lose('its pattern is RE2, which ECMA-262 reads otherwise: left out');
  return [];
}

/** By value, as the gate compares: 1.5 in the contract is "1.50" on the wire. */
function valuesSchema(values: readonly ScalarValue[], mapping: TypeMapping): Schema {
  if (mapping.wire === 'decimal') {
    const patterns = values.flatMap((value) => decimalValuePattern(String(value)) ?? []);
    return { pattern: `^(?:${patterns.length === 0 ? '(?!)' : patterns.join('|')})$` };
  }
  if (mapping.wire === 'text' || mapping.wire === 'base64') return { enum: values.map(String) };
  return {
    enum: values.map((value) =>
      typeof value === 'string' && mapping.logicalType === 'integer' ? numberOf(value) : value,
    ),
  };
}

const INTEGER_RANGE: Readonly<Partial<Record<WireForm, readonly [bigint, bigint]>>> = {
  int16: [-32_768n, 32_767n],
  int32: [-2_147_483_648n, 2_147_483_647n],
  uint32: [0n, 4_294_967_295n],
};

function typeSchema(
  mapping: TypeMapping,
  column: Column,
  options: ColumnOptions,
  special: boolean,
  lose: Lose,
): Schema {
  switch (mapping.wire) {
    case 'boolean':
      return { type: 'boolean' };
    case 'int16':
    case 'int32':
    case 'uint32':
    case 'int64':
      return integerSchema(mapping.wire, options, lose);
    case 'float32':
    case 'float64':
      loseEach(['multipleOf'], options, lose, 'is tested on doubles: not exact');
      return {
        anyOf: [{ type: 'number', ...numberBounds(options) }, { enum: ['NaN', 'Infinity', '-Infinity'] }],
      };
    case 'decimal': {
      loseEach([...BOUNDS, 'multipleOf'], options, lose, 'of decimal text cannot be said in JSON Schema');
      const parts = decimalParts(mapping.delta);
      return { type: 'string', format: 'decimal', pattern: decimalPattern(parts, parts === null || special) };
    }
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return temporalSchema(mapping, column, options, special, lose);
    case 'base64':
      loseEach(
        ['minLength', 'maxLength'],
        options,
        lose,
        'counts bytes, JSON Schema the characters of base64: left out',
      );
      return { type: 'string', contentEncoding: 'base64', pattern: BASE64_PATTERN };
    case 'array':
      return arraySchema(mapping, column, options, special, lose);
    case 'text':
      return textSchema(mapping, column, options, lose);
  }
}
const BASE64_PATTERN = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$';
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const;

/** Of these options the ones that the column has are lost, with their values: `minimum 0.5 of decimal text …`. */
function loseEach(
  names: readonly (keyof ColumnOptions)[],
  options: ColumnOptions,
  lose: Lose,
  why: string,
  kept: (value: string) => boolean = () => false,
): void {
  for (const name of names) {
    const value = options[name];
    if (value !== undefined && !kept(String(value))) lose(`${name} ${String(value)} ${why}`);
  }
}

function integerSchema(wire: WireForm, options: ColumnOptions, lose: Lose): Schema {
  const range = INTEGER_RANGE[wire];
  const bounds = numberBounds(options);
  if (range === undefined) lose('readers that parse JSON numbers as doubles round int64 beyond 2^53');
  loseEach([...BOUNDS, 'multipleOf'], options, lose, 'is rounded by readers with doubles', isExactDouble);
  const low = wholeOf(options.minimum);
  const high = wholeOf(options.maximum);
  return {
    type: 'integer',
    format: wire,
    ...bounds,
    // The type's own range, unless a bound says more.
    ...(range === undefined || (low !== null && low >= range[0]) ? {} : { minimum: range[0] }),
    ...(range === undefined || (high !== null && high <= range[1]) ? {} : { maximum: range[1] }),
  };
}

function wholeOf(text: string | undefined): bigint | null {
  const value = parseDecimal(text ?? '');
  return value === null ? null : value.unscaled / 10n ** BigInt(value.scale);
}

function temporalSchema(
  mapping: TypeMapping,
  column: Column,
  options: ColumnOptions,
  special: boolean,
  lose: Lose,
): Schema {
  loseEach(BOUNDS, options, lose, `of a ${column.logicalType ?? 'time'} cannot be said in JSON Schema`);
  const date = mapping.wire === 'date';
  const zone = mapping.wire === 'timestamptz' ? 'Z' : '';
  const plain = date ? DATE_PATTERN : `${DATE_PATTERN}${TIME_PATTERN}${zone}`;
  // Infinity and BC are no dates of RFC 3339: the format would refuse what the contract lets in.
  if (special || mapping.delta === 'string') return { type: 'string', pattern: `^(?:${plain}(?: BC)?|-?infinity)$` };
  return {
    type: 'string',
    format: date ? 'date' : zone === 'Z' ? 'date-time' : 'local-date-time',
    pattern: `^${plain}$`,
  };
}

function textSchema(mapping: TypeMapping, column: Column, options: ColumnOptions, lose: Lose): Schema {
  if (mapping.json && (column.items !== null || column.properties.length > 0 || column.mapValue !== null))
    lose('the column is JSON in a string: its inner shape is lost');
  if (mapping.logicalType === 'time') loseEach(BOUNDS, options, lose, 'of a time cannot be said in JSON Schema');
  const { format } = options;
  if (format !== undefined && LOOSE_FORMATS.has(format))
    lose(`format ${format}: validators draw its edges differently`);
  return {
    type: 'string',
    ...given(options, ['minLength', 'maxLength', 'format']),
    ...(format === 'uuid' ? { pattern: UUID_PATTERN } : {}),
  };
}
const UUID_PATTERN = '^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$';
const LOOSE_FORMATS: ReadonlySet<string> = new Set(['email', 'uri', 'url', 'hostname']);

function arraySchema(
  mapping: TypeMapping,
  column: Column,
  options: ColumnOptions,
  special: boolean,
  lose: Lose,
): Schema {
  return {
    type: mapping.delta === 'string' ? ['array', 'string'] : 'array',
    ...(mapping.element === null ? {} : { items: itemSchema(mapping.element, column.items, special, lose) }),
    ...given(options, ['minItems', 'maxItems', 'uniqueItems']),
  };
}

/** NULL elements are legal in PostgreSQL arrays, unless the contract says `required`. */
function itemSchema(element: TypeMapping, items: Column | null, special: boolean, lose: Lose): Schema {
  const column = items ?? BARE_ITEM;
  const enforced: Enforced = {
    nullable: !column.required,
    mustBeThere: false,
    options: optionsWithRange(column, element.physicalType),
    values: column.enumOpen ? null : column.allowedValues,
    patterns: column.options.pattern === undefined ? [] : [column.options.pattern],
    missing: [],
    warnings: [],
  };
  const schema = valueSchema(element, column, enforced, special, (message) => {
    lose(`items: ${message}`);
  });
  return enforced.nullable ? orNull(schema) : schema;
}
const BARE_ITEM: Column = {
  path: [],
  id: null,
  name: '',
  physicalName: null,
  logicalType: null,
  options: {},
  physicalType: null,
  physicalTypes: {},
  required: false,
  unique: false,
  keyPosition: 0,
  partitionPosition: 0,
  description: null,
  classification: null,
  tags: [],
  encryptedName: null,
  allowedValues: null,
  enumOpen: false,
  default: undefined,
  pii: null,
  piiAction: null,
  piiStage: 'before-lake',
  onViolation: null,
  onUnrepresentable: null,
  deprecated: false,
  items: null,
  properties: [],
  mapKey: null,
  mapValue: null,
  relationships: [],
  nestedRules: [],
  custom: new Map(),
};

/** Options whose keyword is the same in both languages. */
const given = (options: ColumnOptions, names: readonly (keyof ColumnOptions)[]): Schema =>
  Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));

function numberBounds(options: ColumnOptions): Schema {
  return Object.fromEntries(
    [...BOUNDS, 'multipleOf' as const].flatMap((name) => {
      const text = options[name];
      return text === undefined ? [] : [[name, numberOf(text)]];
    }),
  );
}

function numberOf(text: string): number | bigint {
  return /^-?\d+$/.test(text) ? BigInt(text) : Number(text);
}

function isExactDouble(text: string): boolean {
  return !/^-?\d+$/.test(text) || BigInt(Number(text)) === BigInt(text);
}

/** JSON with whole numbers to the last digit, which JSON.stringify has no way to write. */
function exactJson(schema: Schema): string {
  const mark = '\u0001';
  const text = JSON.stringify(
    schema,
    (_key, value: unknown) => (typeof value === 'bigint' ? `${mark}${value}${mark}` : value),
    2,
  );
  return text.replaceAll(/"\\u0001(-?\d+)\\u0001"/g, '$1');
}
