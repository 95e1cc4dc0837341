/** A Delta table's schema (structurally; PROTOCOL.md, "Schema Serialization Format") → catalog table for `inferContract`. */
import type { CatalogColumn, CatalogTable } from './catalog.ts';
import { decimalParts } from './type-table.ts';

export interface DeltaFieldLike {
  readonly name: string;
  readonly type: unknown;
  readonly nullable: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** `keys`: the table's key columns in order, where they are known. Sluice's own metadata columns are left out. */
export function readDeltaSchema(
  schema: string,
  table: string,
  fields: readonly DeltaFieldLike[],
  keys: readonly string[] = [],
): CatalogTable {
  const columns = fields.filter((field) => !field.name.startsWith('_sluice_')).map((field) => readField(field, keys));
  return { schema, table, columns };
}

function readField(field: DeltaFieldLike, keys: readonly string[]): CatalogColumn {
  const source = field.metadata['sluice.sourceName'];
  const name = typeof source === 'string' ? source : field.name;
  const comment = field.metadata['comment'];
  const keyPosition = Math.max(keys.indexOf(field.name), keys.indexOf(name)) + 1;
  const element = elementOf(field.type);
  return {
    name,
    pgType: element === null ? pgTypeOf(field.type) : `${pgTypeOf(element)}[]`,
    baseType: element === null ? null : pgTypeOf(element),
    kind: element === null ? 'base' : 'array',
    enumLabels: null,
    notNull: !field.nullable || keyPosition > 0,
    keyPosition,
    comment: typeof comment === 'string' ? comment : null,
  };
}

function elementOf(type: unknown): unknown {
  const array =
    typeof type === 'object' && type !== null && 'type' in type && type.type === 'array' && 'elementType' in type;
  // Arrays in arrays, structs and maps have no column type of PostgreSQL's but jsonb.
  return array && typeof type.elementType === 'string' ? type.elementType : null;
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  long: 'bigint',
  integer: 'integer',
  short: 'smallint',
  byte: 'smallint',
  float: 'real',
  double: 'double precision',
  boolean: 'boolean',
  binary: 'bytea',
  date: 'date',
  timestamp: 'timestamp with time zone',
  timestamp_ntz: 'timestamp without time zone',
  void: 'text',
};

function pgTypeOf(type: unknown): string {
  if (typeof type !== 'string') return 'jsonb';
  const decimal = decimalParts(type);
  return decimal === null ? (TYPES[type] ?? 'jsonb') : `numeric(${decimal.precision},${decimal.scale})`;
}
