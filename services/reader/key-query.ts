/** SQL over a table's keys, each given as the key columns' texts in key order. */
import type { TableShape } from '../log/event.ts';
import { keyOf } from './shapes.ts';
import { quoteIdent, quoteLiteral } from './sql-text.ts';

/** Condition over the table's columns that selects the rows of these keys. */
export function keyCondition(shape: TableShape, keys: readonly (readonly string[])[]): string {
  return `(${keyOf(shape).map(quoteIdent).join(', ')}) IN (${typedKeys(shape, keys)})`;
}

/**
 * Those of the keys that no published row has, as rows of the chunk's form: a place for the ctid, then every column of the
 * shape, NULL where it is not of the key. `from`: what stands behind FROM for the table's own rows.
 */
export function absentKeysQuery(
  shape: TableShape,
  keys: readonly (readonly string[])[],
  rowFilter: string | null,
  from: string,
): string {
  const names = keyOf(shape);
  const aliases = names.map((_name, i) => `c${i}`);
  const columns = shape.columns.map(({ name }) => {
    const at = names.indexOf(name);
    return at < 0 ? 'NULL' : `wanted.c${at}`;
  });
  const same = names.map((name, i) => `present.${quoteIdent(name)} = wanted.c${i}`).join(' AND ');
  const published = rowFilter === null ? '' : ` AND (${rowFilter})`;
  return (
    `SELECT '(0,0)', ${columns.join(', ')} FROM (VALUES ${typedKeys(shape, keys)}) AS wanted(${aliases.join(', ')}) ` +
    `WHERE NOT EXISTS (SELECT 1 FROM ${from} AS present WHERE ${same}${published})`
  );
}

function typedKeys(shape: TableShape, keys: readonly (readonly string[])[]): string {
  const types = keyOf(shape).map((name) => shape.columns.find((column) => column.name === name)?.pgType ?? 'text');
  return keys
    .map((key) => `(${key.map((value, i) => `${quoteLiteral(value)}::${types[i] ?? 'text'}`).join(', ')})`)
    .join(', ');
}
