/**
 * One canonical text a row, computed by PostgreSQL itself, so that what is compared does not pass through our decoder.
 * Each cell is `<octets>:<text>` or `~` for NULL; floats are their IEEE bytes in hex, bytea is hex, arrays are
 * `A<count>` and their elements' cells; every other type is the text its output function gives (as pgoutput sends it).
 * The session must run with TimeZone=UTC, DateStyle=ISO, IntervalStyle=postgres, bytea_output=hex, extra_float_digits=3.
 */
import { MASK } from '../../../contracts/engine/privacy.ts';
import type { ColumnShape } from '../../log/event.ts';
import { quoteIdent } from '../../reader/sql-text.ts';

/** SQL expression of a whole row's canonical text. */
export function canonicalRow(columns: readonly ColumnShape[], asText: ReadonlySet<string>): string {
  return columns.map((column) => canonicalCell(column, asText.has(column.name))).join(' || ');
}

/** SQL expression (never NULL) of one cell. `heldAsText`: the lake keeps this column as PostgreSQL's text. */
export function canonicalCell(column: ColumnShape, heldAsText: boolean): string {
  // What the lake must have in a replaced value's place. A hash is not made here: its key would stand in the statement.
  if (column.replaced === 'null') return `'~'`;
  if (column.replaced === 'mask')
    return `(case when ${quoteIdent(column.name)} is distinct from null then '${Buffer.byteLength(MASK)}:${MASK}' else '~' end)`;
  return framed(cellText(quoteIdent(column.name), column, heldAsText));
}

function framed(expression: string): string {
  return `coalesce(octet_length(convert_to(${expression}, 'UTF8')) || ':' || ${expression}, '~')`;
}

/** SQL expression of the cell's text; NULL for NULL. */
function cellText(name: string, column: ColumnShape, heldAsText: boolean): string {
  if (heldAsText) return outputText(name);
  const elementType = elementTypeOf(column);
  if (elementType !== null) {
    const element = framed(scalarText('e', elementType));
    // In the list of what is selected: in FROM, unnest takes composite elements apart.
    return (
      `(case when ${name} is null then null when array_ndims(${name}) > 1 or array_lower(${name}, 1) <> 1 then ${outputText(name)} ` +
      `else 'A' || cardinality(${name}) || (select coalesce(string_agg(${element}, '' order by o), '') ` +
      `from (select unnest(${name}) as e, generate_subscripts(${name}, 1) as o) as u) end)`
    );
  }
  return scalarText(name, column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType);
}

/** Of an array, and of a domain over one; null of anything else. */
function elementTypeOf({ kind, baseType }: ColumnShape): string | null {
  if (kind === 'array') return baseType ?? 'text';
  return kind === 'domain' && baseType?.endsWith('[]') === true ? baseType.slice(0, -2) : null;
}

function scalarText(name: string, pgType: string): string {
  switch (pgType.replace(/\(.*$/, '').trim()) {
    case 'real':
      return floatText(name, 'float4');
    case 'double precision':
      return floatText(name, 'float8');
    case 'bytea':
      return `encode(${name}, 'hex')`;
    default:
      return outputText(name);
  }
}

/** A NaN may have any sign and payload (that of `-x`, of a client's binary format): all of them are one value to PostgreSQL. */
function floatText(name: string, type: 'float4' | 'float8'): string {
  return `encode(${type}send(case when ${name} = 'NaN' then 'NaN'::${type} else ${name} end), 'hex')`;
}

/**
 * The type's output function; a cast to text would strip the blanks of char(n). `is not null` would be false for a composite
 * value with one NULL field.
 */
export function outputText(name: string): string {
  return `(case when ${name} is distinct from null then concat(${name}) end)`;
}

/** Bucket of a key: a range of its hash's first 32 bits. Of the text as UTF-8, whatever the database's own encoding is. */
export function bucketExpression(keyText: string, buckets: number): string {
  return `(('x' || substr(md5(convert_to(${keyText}, 'UTF8')), 1, 8))::bit(32)::bigint & 4294967295) * ${buckets} / 4294967296`;
}

/** Order-independent part of a row in its bucket's sum: the first 64 bits of its MD5, unsigned would not fit, so signed. */
export function rowHashExpression(rowText: string): string {
  return `('x' || substr(md5(convert_to(${rowText}, 'UTF8')), 1, 16))::bit(64)::bigint`;
}
