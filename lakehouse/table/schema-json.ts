/** `metaData.schemaString` to `StructType` and back (PROTOCOL.md, "Schema Serialization Format"). */
import { parseLossless, stringifyLossless } from './lossless-json.ts';
import type { DeltaType, PrimitiveName, StructField, StructType } from './schema.ts';

const PRIMITIVES: ReadonlySet<string> = new Set([
  'string',
  'long',
  'integer',
  'short',
  'byte',
  'float',
  'double',
  'boolean',
  'binary',
  'date',
  'timestamp',
  'timestamp_ntz',
  'void',
  'variant',
]);
/** What Spark before 3.1 called void, and a later alias: Spark itself still reads both. */
const OLD_NAMES: Readonly<Record<string, PrimitiveName>> = { null: 'void', timestamp_ltz: 'timestamp' };
const DECIMAL = /^decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)$/;

/** @throws SyntaxError | TypeError naming the field path whose type is not known */
export function parseSchema(text: string): StructType {
  const type = readType(parseLossless(text), 'schema');
  if (typeof type === 'string' || type.type !== 'struct') throw new TypeError('the schema is not a struct');
  return type;
}

export function schemaText(schema: StructType): string {
  return stringifyLossless(schema);
}

function readType(value: unknown, at: string): DeltaType {
  if (typeof value === 'string') return primitive(value, at);
  if (typeof value !== 'object' || value === null) throw new TypeError(`${at} has no type`);
  const json = value as Readonly<Record<string, unknown>>;
  switch (json['type']) {
    case 'struct': {
      const fields = json['fields'];
      if (!Array.isArray(fields)) throw new TypeError(`${at} is a struct without fields`);
      return { type: 'struct', fields: fields.map((field) => readField(field, at)) };
    }
    case 'array':
      return {
        type: 'array',
        elementType: readType(json['elementType'], `${at}.element`),
        containsNull: json['containsNull'] !== false,
      };
    case 'map':
      return {
        type: 'map',
        keyType: readType(json['keyType'], `${at}.key`),
        valueType: readType(json['valueType'], `${at}.value`),
        valueContainsNull: json['valueContainsNull'] !== false,
      };
    default:
      throw new TypeError(`${at} has an unknown type`);
  }
}

function primitive(name: string, at: string): PrimitiveName {
  if (PRIMITIVES.has(name)) return name as PrimitiveName;
  if (name === 'decimal') return 'decimal(10,0)';
  if (Object.hasOwn(OLD_NAMES, name)) return OLD_NAMES[name] as PrimitiveName;
  const found = DECIMAL.exec(name);
  if (found !== null) return `decimal(${Number(found[1])},${Number(found[2])})`;
  throw new TypeError(`${at} has the unknown type "${name}"`);
}

function readField(value: unknown, at: string): StructField {
  if (typeof value !== 'object' || value === null) throw new TypeError(`${at} has a field that is no object`);
  const json = value as Readonly<Record<string, unknown>>;
  const name = json['name'];
  if (typeof name !== 'string') throw new TypeError(`${at} has a field without a name`);
  const metadata = json['metadata'];
  return {
    name,
    type: readType(json['type'], `${at}.${name}`),
    nullable: json['nullable'] !== false,
    metadata: typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {},
  };
}
