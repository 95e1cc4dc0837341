/** An Avro record (Apache Avro 1.11 specification) with logical types; a nullable column is a union with null, whatever else it is. */
import type { Column, Contract, TableContract } from '../model.ts';
import { lakeMapping } from '../privacy.ts';
import { decimalParts } from '../type-table.ts';
import type { DeltaTypeName, TypeMapping } from '../type-table.ts';
import { enforcedOn } from './enforced.ts';
import type { ExportResult, LossyItem } from './export-result.ts';
import { lostPromises } from './lost-promises.ts';

interface Naming {
  readonly record: string;
  /** Of fields, and of the named types: each exists once. */
  readonly fields: Set<string>;
  readonly types: Set<string>;
}

export function exportAvro(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostPromises(contract, table, {
    target: 'Avro',
    lake: true,
    keys: false,
    uniqueness: false,
    defaults: true,
    partitions: false,
    unknownColumns: false,
    rules: new Set(),
  });
  const [schema = '', ...rest] = table.physicalName.includes('.')
    ? table.physicalName.split('.')
    : [contract.id, table.physicalName];
  const record = avroName(rest.join('_') || table.name);
  // Names that need no change are theirs, whatever another column would be written as.
  const plain = table.columns.map((column) => column.name).filter((name) => avroName(name) === name);
  const naming: Naming = { record, fields: new Set(plain), types: new Set([record]) };
  const fields = table.columns.flatMap((column) => {
    const mapping = lakeMapping(column, null);
    return mapping === null ? [] : [fieldOf(column, mapping, table, naming, lossy)];
  });
  const value = {
    type: 'record',
    name: record,
    namespace: schema
      .split(/[^A-Za-z0-9_]+/)
      .filter(Boolean)
      .map(avroName)
      .join('.'),
    ...(table.description === null ? {} : { doc: table.description }),
    fields,
  };
  return { text: `${JSON.stringify(value, null, 2)}\n`, lossy };
}

function fieldOf(
  column: Column,
  mapping: TypeMapping,
  table: TableContract,
  naming: Naming,
  lossy: LossyItem[],
): Record<string, unknown> {
  const lose = (message: string): void => {
    lossy.push({ subject: `${table.name}.${column.name}`, message });
  };
  let name = column.name;
  if (avroName(name) !== name) {
    name = freeName(avroName(name), naming.fields);
    lose(`Avro names have letters, digits and _ only: written as ${name}`);
  }
  const enforced = enforcedOn(column, table);
  for (const warning of enforced.warnings) lose(`${warning} only warns: left out`);
  const replaced = column.piiAction === 'hash' || column.piiAction === 'mask';
  const symbols = replaced || mapping.delta !== 'string' ? null : symbolsOf(enforced.values);
  const conditions = [
    ...Object.keys(enforced.options).filter((option) => option !== 'format' && option !== 'timezone'),
    ...(enforced.options.format !== undefined && !CARRIED_FORMATS.has(enforced.options.format) ? ['format'] : []),
    ...(enforced.values !== null && symbols === null ? ['value list'] : []),
    ...(enforced.patterns.length > (enforced.options.pattern === undefined ? 0 : 1) ? ['pattern rule'] : []),
    ...(enforced.missing.length > 0 ? ['missing values'] : []),
  ];
  if (conditions.length > 0) lose(`Avro has no place for ${conditions.join(', ')}`);
  if (column.items !== null && column.items.allowedValues !== null)
    lose('Avro has no place for the value list of items');
  if (mapping.delta === 'string' && mapping.wire === 'decimal' && !replaced)
    lose('a decimal without precision is kept as string');
  if (mapping.json) lose('the column is JSON in a string: its inner shape is lost');
  let type = replaced ? 'string' : avroType(mapping.delta, mapping);
  if (symbols !== null) {
    const typeName = freeName(`${naming.record}_${name}`, naming.types);
    type = { type: 'enum', name: typeName, symbols };
  }
  // A column that piiAction makes NULL has no other value, whatever the source requires.
  const nullable = enforced.nullable || column.piiAction === 'null';
  const fallback = defaultOf(column, type, symbols);
  if (column.default !== undefined && fallback === undefined)
    lose(`its default ${String(column.default)} cannot be written for this type`);
  const old = column.physicalName;
  return {
    name,
    ...(column.description === null ? {} : { doc: column.description }),
    ...(old !== null && old !== name && avroName(old) === old && !naming.fields.has(old) ? { aliases: [old] } : {}),
    // Aliases must be Avro names too, so a name that is none stands in an attribute.
    ...(name === column.name ? {} : { columnName: column.name }),
    // A default is one of the union's first branch.
    type: !nullable ? type : fallback === undefined || fallback === null ? ['null', type] : [type, 'null'],
    ...(fallback === undefined ? (nullable ? { default: null } : {}) : { default: fallback }),
  };
}

const CARRIED_FORMATS: ReadonlySet<string> = new Set(
  'uuid binary i8 i16 i32 i64 u8 u16 u32 u64 i128 u128 f32 f64'.split(' '),
);

/** Null when a value is no Avro symbol: then the column stays a string. */
function symbolsOf(values: readonly unknown[] | null): readonly string[] | null {
  if (values === null || values.length === 0) return null;
  const texts = values.map(String);
  return texts.every((text) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(text)) ? [...new Set(texts)] : null;
}

function defaultOf(column: Column, type: unknown, symbols: readonly string[] | null): unknown {
  const value = column.default;
  if (value === undefined || column.piiAction !== null) return undefined;
  if (value === null) return column.required || column.keyPosition > 0 ? undefined : null;
  if (symbols !== null) return symbols.includes(String(value)) ? String(value) : undefined;
  const text = String(value);
  switch (type) {
    case 'string':
      return text;
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : undefined;
    case 'int':
    case 'long':
    case 'float':
    case 'double': {
      const number = Number(text);
      const whole = type === 'int' || type === 'long';
      return text.trim() !== '' && (whole ? Number.isSafeInteger(number) : Number.isFinite(number))
        ? number
        : undefined;
    }
    default:
      return undefined;
  }
}

function avroType(delta: DeltaTypeName, mapping: TypeMapping): unknown {
  if (typeof delta !== 'string')
    return { type: 'array', items: ['null', avroType(delta.elementType, mapping.element ?? mapping)] };
  const decimal = decimalParts(delta);
  if (decimal !== null) return { type: 'bytes', logicalType: 'decimal', ...decimal };
  switch (delta) {
    case 'short':
    case 'integer':
      return 'int';
    case 'binary':
      return 'bytes';
    case 'date':
      return { type: 'int', logicalType: 'date' };
    case 'timestamp':
      return { type: 'long', logicalType: 'timestamp-micros' };
    case 'timestamp_ntz':
      return { type: 'long', logicalType: 'local-timestamp-micros' };
    case 'string':
      return mapping.options.format === 'uuid' ? { type: 'string', logicalType: 'uuid' } : 'string';
    default:
      return delta;
  }
}

function avroName(name: string): string {
  const word = name.replaceAll(/[^A-Za-z0-9_]/g, '_');
  return /^[A-Za-z_]/.test(word) ? word : `_${word}`;
}

function freeName(wanted: string, taken: Set<string>): string {
  let name = wanted;
  for (let n = 2; taken.has(name); n++) name = `${wanted}_${n}`;
  taken.add(name);
  return name;
}
