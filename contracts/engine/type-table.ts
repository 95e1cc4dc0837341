/**
 * THE table: PostgreSQL type → wire form → contract type → Delta type. Reader, gate, infer, export and ingest all ask here,
 * so that a value read by a snapshot and the same value streamed are one value everywhere.
 *
 * | PostgreSQL                          | wire JSON                                   | contract (options)        | Delta                 |
 * |-------------------------------------|---------------------------------------------|---------------------------|-----------------------|
 * | bool                                | true, false                                 | boolean                   | boolean               |
 * | int2, int4                          | number                                      | integer (i16, i32)        | short, integer        |
 * | int8, oid, xid                      | number, exact digits                        | integer (i64, u32)        | long                  |
 * | float4, float8                      | number; "NaN", "Infinity", "-Infinity"      | number (f32, f64)         | float, double         |
 * | numeric(p,s), p ≤ 38, 0 ≤ s ≤ p     | PostgreSQL's text                           | number                    | decimal(p,s)          |
 * | numeric(p,-s); s > p                | text                                        | number                    | decimal(p+s,0), (s,s) |
 * | numeric; p > 38                     | text                                        | number                    | string, by contract decimal |
 * | bytea                               | base64                                      | string (binary)           | binary                |
 * | date                                | text                                        | date                      | date                  |
 * | timestamp                           | text, `T` for the space                     | timestamp (timezone: false) | timestamp_ntz       |
 * | timestamptz                         | the same, `Z` at the end                    | timestamp (timezone: true)  | timestamp           |
 * | char, varchar, text, citext, name   | text                                        | string (maxLength)        | string                |
 * | T[]                                 | array; text when not one-dimensional from 1 | array (items)             | array<T>              |
 * | domain over B                       | as B                                        | as B                      | as B                  |
 * | everything else                     | PostgreSQL's text                           | string (uuid: format)     | string                |
 */
import type { CatalogColumn } from './catalog.ts';
import type { Column, ColumnOptions, LogicalType } from './model.ts';
import { parsePgType } from './pg-type.ts';
import type { PgType } from './pg-type.ts';

export type WireForm =
  | 'boolean'
  | 'int16'
  | 'int32'
  | 'int64'
  | 'uint32'
  | 'float32'
  | 'float64'
  | 'decimal'
  | 'text'
  | 'base64'
  | 'date'
  | 'timestamp'
  | 'timestamptz'
  | 'array';

/** Delta's own names (PROTOCOL.md, "Primitive Types"); structurally a part of lakehouse's DeltaType. */
export type DeltaPrimitive =
  | 'string'
  | 'long'
  | 'integer'
  | 'short'
  | 'float'
  | 'double'
  | 'boolean'
  | 'binary'
  | 'date'
  | 'timestamp'
  | 'timestamp_ntz'
  | `decimal(${number},${number})`;
export interface DeltaArray {
  readonly type: 'array';
  readonly elementType: DeltaTypeName;
  readonly containsNull: boolean;
}
export type DeltaTypeName = DeltaPrimitive | DeltaArray;

export interface TypeMapping {
  readonly wire: WireForm;
  readonly logicalType: LogicalType;
  readonly options: ColumnOptions;
  /** For the contract's physicalType. A domain gives its base. */
  readonly physicalType: string;
  readonly delta: DeltaTypeName;
  /** Of arrays. */
  readonly element: TypeMapping | null;
  /** The values are JSON text: json and jsonb. */
  readonly json: boolean;
  /** False where PostgreSQL's text passes only because the type is not known here. */
  readonly known: boolean;
}

/** What a contract may say instead of the table: `physicalTypes: {delta: …}`. */
export interface TypeOverride {
  readonly delta?: string;
}

export class TypeMappingError extends Error {
  readonly code = 'DELTA_TYPE_UNSUPPORTED';
}

/** The mapping of a live column. Throws TypeMappingError when the override cannot hold the column's values. */
export function mapColumn(column: CatalogColumn, override: TypeOverride = {}): TypeMapping {
  return overridden(mapCatalogType(column), override.delta, column.name);
}

/**
 * The mapping of a contract's column: its own types first, then the live column's where the contract is silent, then the
 * logical type alone. Throws TypeMappingError as mapColumn.
 */
export function mapContractColumn(column: Column, live: CatalogColumn | null = null): TypeMapping {
  const written = column.physicalTypes.postgres ?? column.physicalType;
  // A name that is no built-in type may be an enum (text), a domain or a composite: only the catalog can tell.
  const sameType = live !== null && (written === null || !parsePgType(written).known);
  const mapping = sameType ? mapCatalogType(live) : written === null ? fromLogical(column) : fromName(written, column);
  return overridden(mapping, column.physicalTypes.delta, column.name);
}

function mapCatalogType(column: CatalogColumn): TypeMapping {
  if (column.kind === 'domain') return mapPgText(column.baseType ?? 'text');
  if (column.kind === 'enum') return { ...text(column.pgType), known: true };
  if (column.kind === 'array') return arrayOf(mapPgText(column.baseType ?? stripArray(column.pgType)), column.pgType);
  if (column.kind === 'composite' || column.kind === 'range') return { ...text(column.pgType), known: true };
  return mapPgText(column.pgType);
}

/** The mapping of a type name alone, as DDL text gives it. */
export function mapPgText(typeText: string): TypeMapping {
  const type = parsePgType(typeText);
  return type.array
    ? arrayOf(mapScalar({ ...type, array: false }, stripArray(typeText)), typeText)
    : mapScalar(type, typeText);
}

function fromName(written: string, column: Column): TypeMapping {
  const mapping = mapPgText(written);
  // `physicalType: my_domain[]`: what its items are stands with them.
  if (mapping.element?.known === false && column.items !== null)
    return arrayOf(mapContractColumn(column.items), written);
  if (mapping.known || mapping.wire !== 'text') return mapping;
  // `physicalType: my_domain` with `logicalType: integer`: the logical type knows more than the name does.
  return column.logicalType === null || column.logicalType === 'string' ? mapping : fromLogical(column);
}

function fromLogical(column: Column): TypeMapping {
  switch (column.logicalType) {
    case 'boolean':
      return mapPgText('boolean');
    case 'integer':
      return mapPgText(INTEGER_TYPES[column.options.format ?? ''] ?? 'bigint');
    case 'number':
      return mapPgText(
        column.options.format === 'f32' ? 'real' : column.options.format === 'f64' ? 'double precision' : 'numeric',
      );
    case 'date':
      return mapPgText('date');
    case 'timestamp':
      return mapPgText(column.options.timezone === true ? 'timestamptz' : 'timestamp');
    case 'string':
      return mapPgText(
        column.options.format === 'binary' ? 'bytea' : column.options.format === 'uuid' ? 'uuid' : 'text',
      );
    case 'array':
      return arrayOf(
        column.items === null ? mapPgText('text') : mapContractColumn(column.items),
        `${column.items?.physicalType ?? 'text'}[]`,
      );
    case 'object':
    case 'map':
      return mapPgText('jsonb');
    default:
      return mapPgText('text');
  }
}
const INTEGER_TYPES: Readonly<Record<string, string>> = {
  i8: 'smallint',
  u8: 'smallint',
  i16: 'smallint',
  u16: 'integer',
  i32: 'integer',
  u32: 'oid',
  i64: 'bigint',
  u64: 'numeric(20,0)',
  i128: 'numeric(39,0)',
  u128: 'numeric(39,0)',
};

function mapScalar(type: PgType, written: string): TypeMapping {
  const base = { element: null, json: false, known: type.known, physicalType: written, options: {} };
  switch (type.name) {
    case 'bool':
      return { ...base, wire: 'boolean', logicalType: 'boolean', delta: 'boolean' };
    case 'int2':
      return { ...base, wire: 'int16', logicalType: 'integer', options: { format: 'i16' }, delta: 'short' };
    case 'int4':
      return { ...base, wire: 'int32', logicalType: 'integer', options: { format: 'i32' }, delta: 'integer' };
    case 'int8':
      return { ...base, wire: 'int64', logicalType: 'integer', options: { format: 'i64' }, delta: 'long' };
    case 'oid':
    case 'xid':
      return { ...base, wire: 'uint32', logicalType: 'integer', options: { format: 'u32' }, delta: 'long' };
    case 'float4':
      return { ...base, wire: 'float32', logicalType: 'number', options: { format: 'f32' }, delta: 'float' };
    case 'float8':
      return { ...base, wire: 'float64', logicalType: 'number', options: { format: 'f64' }, delta: 'double' };
    case 'numeric':
      return { ...base, wire: 'decimal', logicalType: 'number', delta: deltaDecimal(type.args) ?? 'string' };
    case 'bytea':
      return { ...base, wire: 'base64', logicalType: 'string', options: { format: 'binary' }, delta: 'binary' };
    case 'date':
      return { ...base, wire: 'date', logicalType: 'date', delta: 'date' };
    case 'timestamp':
      return {
        ...base,
        wire: 'timestamp',
        logicalType: 'timestamp',
        options: { timezone: false },
        delta: 'timestamp_ntz',
      };
    case 'timestamptz':
      return {
        ...base,
        wire: 'timestamptz',
        logicalType: 'timestamp',
        options: { timezone: true },
        delta: 'timestamp',
      };
    default:
      return {
        ...base,
        ...textOptions(type),
        wire: 'text',
        delta: 'string',
        json: type.name === 'json' || type.name === 'jsonb',
      };
  }
}

function textOptions(type: PgType): { readonly logicalType: LogicalType; readonly options: ColumnOptions } {
  const [length] = type.args;
  if (type.name === 'uuid') return { logicalType: 'string', options: { format: 'uuid' } };
  if (type.name === 'varchar')
    return { logicalType: 'string', options: length === undefined ? {} : { maxLength: length } };
  if (type.name === 'bpchar') return { logicalType: 'string', options: { maxLength: length ?? 1 } };
  if (type.name === 'time') return { logicalType: 'time', options: { timezone: false } };
  return { logicalType: 'string', options: {} };
}

/** Delta's decimals hold at most 38 digits. Null when the modifier is absent or does not fit (PostgreSQL docs, 8.1.2). */
function deltaDecimal(args: readonly number[]): DeltaPrimitive | null {
  const [precision, scale = 0] = args;
  if (precision === undefined) return null;
  if (scale < 0) return precision - scale <= 38 ? `decimal(${precision - scale},0)` : null;
  if (scale > precision) return scale <= 38 ? `decimal(${scale},${scale})` : null;
  return precision <= 38 ? `decimal(${precision},${scale})` : null;
}

function text(written: string): TypeMapping {
  return mapScalar({ name: 'text', args: [], array: false, known: true }, written);
}

function arrayOf(element: TypeMapping, written: string): TypeMapping {
  const delta: DeltaArray = { type: 'array', elementType: element.delta, containsNull: true };
  const { known } = element;
  return {
    wire: 'array',
    logicalType: 'array',
    options: {},
    physicalType: written,
    delta,
    element,
    json: false,
    known,
  };
}

function stripArray(written: string): string {
  return written.trim().replace(/(?:\s*\[\d*\])+$|\s+array(?:\s*\[\d*\])?$/i, '');
}

/** Which Delta types may hold a wire form beside the table's own: never one that could lose a value silently. */
const WIDER: Readonly<Record<WireForm, readonly string[]>> = {
  boolean: ['boolean'],
  int16: ['short', 'integer', 'long'],
  int32: ['integer', 'long'],
  int64: ['long'],
  uint32: ['long'],
  float32: ['float', 'double'],
  float64: ['double'],
  decimal: [],
  text: [],
  base64: ['binary'],
  date: ['date'],
  timestamp: ['timestamp_ntz', 'timestamp'],
  timestamptz: ['timestamp'],
  array: [],
};

function overridden(mapping: TypeMapping, wanted: string | undefined, name: string): TypeMapping {
  const delta = wanted?.trim().toLowerCase().replaceAll(/\s+/g, '');
  if (delta === undefined || delta === deltaTypeText(mapping.delta)) return mapping;
  if (delta === 'string') return { ...mapping, delta: 'string' };
  if (WIDER[mapping.wire].includes(delta)) return { ...mapping, delta: delta as DeltaPrimitive };
  const decimal = decimalParts(delta);
  if (decimal !== null && (mapping.wire === 'decimal' || mapping.wire.startsWith('int')) && validDecimal(decimal))
    return { ...mapping, delta: `decimal(${decimal.precision},${decimal.scale})` };
  const allowed = [
    'string',
    ...WIDER[mapping.wire],
    ...(mapping.wire === 'decimal' ? ['decimal(p,s) with p up to 38'] : []),
  ];
  throw new TypeMappingError(
    `column ${name}: ${mapping.physicalType} cannot be kept as Delta ${wanted}; possible: ${allowed.join(', ')}`,
  );
}

function validDecimal(parts: DecimalParts): boolean {
  return parts.precision >= 1 && parts.precision <= 38 && parts.scale >= 0 && parts.scale <= parts.precision;
}

export interface DecimalParts {
  readonly precision: number;
  readonly scale: number;
}

/** `decimal(12,2)` → its parts; null for any other type. */
export function decimalParts(delta: string | DeltaArray): DecimalParts | null {
  const match = typeof delta === 'string' ? /^decimal\((\d{1,2}),(\d{1,2})\)$/.exec(delta) : null;
  return match === null ? null : { precision: Number(match[1]), scale: Number(match[2]) };
}

/** `array<decimal(12,2)>`: for messages and documents. */
export function deltaTypeText(type: DeltaTypeName): string {
  return typeof type === 'string' ? type : `array<${deltaTypeText(type.elementType)}>`;
}
