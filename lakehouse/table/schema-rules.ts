/** What a table's schema may be (PROTOCOL.md, "Schema"; names that Delta forbids without column mapping). Pure. */
import type { DeltaType, StructType } from './schema.ts';
import { walkFields } from './schema-walk.ts';
import { TableError } from './table-error.ts';

/** Characters that other engines refuse in a column name unless column mapping is on. */
const FORBIDDEN = /[ ,;{}()\n\t=]/;
/** Columns that the change data feed adds. */
const CHANGE_COLUMNS = new Set(['_change_type', '_commit_version', '_commit_timestamp']);
const DECIMAL = /^decimal\((\d+),(-?\d+)\)$/;

/** @throws TableError SCHEMA_INVALID */
export function assertTableSchema(
  schema: StructType,
  partitionColumns: readonly string[],
  changeDataFeed: boolean,
  table: string,
  mapped = false,
): void {
  const broken = brokenRule(schema, partitionColumns, changeDataFeed, mapped);
  if (broken !== null) throw new TableError('SCHEMA_INVALID', { table }, broken);
}

function brokenRule(
  schema: StructType,
  partitionColumns: readonly string[],
  changeDataFeed: boolean,
  mapped: boolean,
): string | null {
  const seen = new Map<string, string>();
  for (const { field, path } of walkFields(schema)) {
    if (field.name === '') return 'a column has no name';
    if (!mapped && FORBIDDEN.test(field.name)) {
      return `column "${field.name}" has a character that Delta forbids; replace it by _ or use column mapping`;
    }
    const key = path.join('\0').toLowerCase();
    const other = seen.get(key);
    if (other !== undefined) return `columns "${other}" and "${field.name}" differ by case only`;
    seen.set(key, field.name);
    if (changeDataFeed && path.length === 1 && CHANGE_COLUMNS.has(field.name.toLowerCase())) {
      return `column "${field.name}" has a name that the change data feed uses`;
    }
    const wrong = wrongDecimal(field.type);
    if (wrong !== null) return `column "${field.name}" has the type ${wrong}, which is no decimal that Delta has`;
  }
  for (const name of partitionColumns) {
    const field = schema.fields.find((candidate) => candidate.name === name);
    if (field === undefined) return `partition column "${name}" is not in the schema`;
    if (typeof field.type !== 'string') return `partition column "${name}" is not of a simple type`;
    if (field.type === 'binary') return `partition column "${name}" is binary: engines do not agree on its text form`;
  }
  if (new Set(partitionColumns).size !== partitionColumns.length) return 'a partition column is named twice';
  if (schema.fields.length > 0 && partitionColumns.length === schema.fields.length) {
    return 'every column is a partition column, so that files would have none';
  }
  return null;
}

function wrongDecimal(type: DeltaType): string | null {
  if (typeof type !== 'string') return null;
  const found = DECIMAL.exec(type);
  if (found === null) return null;
  const precision = Number(found[1]);
  const scale = Number(found[2]);
  return precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision ? null : type;
}
