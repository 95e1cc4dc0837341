/** Conditions of a backfill that are not the user's own SQL: a range of keys, and what changed since a transaction. Pure. */
import { quoteIdent, quoteLiteral } from '../reader/sql-text.ts';
import { ConfigError } from '../runtime/errors.ts';

export interface KeyColumn {
  readonly name: string;
  /** PostgreSQL's own text of the type. */
  readonly pgType: string;
}

/** A key as it is typed: one value, or for several columns a JSON list of texts and numbers. @throws ConfigError */
export function keyCells(text: string, columns: readonly KeyColumn[], option: string): readonly string[] {
  if (columns.length === 1 && !text.startsWith('[')) return [text];
  const names = columns.map(({ name }) => name).join(', ');
  const expected = `give the key (${names}) as a JSON list, such as '["a", 1]'`;
  let cells: unknown;
  try {
    // Numbers are taken as they stand: a bigint must not pass through a double.
    cells = JSON.parse(text.replaceAll(/(?<=[[,]\s*)-?\d+(?:\.\d+)?(?=\s*[\],])/g, (digits) => `"${digits}"`));
  } catch {
    throw new ConfigError(`${option} is no JSON list: ${text}`, expected);
  }
  if (!Array.isArray(cells) || cells.length !== columns.length || !cells.every((cell) => typeof cell === 'string'))
    throw new ConfigError(`${option} does not fit the key: ${text}`, expected);
  return cells as string[];
}

/** Both ends included; null = open. Rows compare in the key's order. */
export function keyRange(
  columns: readonly KeyColumn[],
  from: readonly string[] | null,
  to: readonly string[] | null,
): string | null {
  const names = `(${columns.map(({ name }) => quoteIdent(name)).join(', ')})`;
  const values = (cells: readonly string[]): string =>
    `(${cells.map((cell, i) => `${quoteLiteral(cell)}::${columns[i]?.pgType ?? 'text'}`).join(', ')})`;
  const parts = [
    ...(from === null ? [] : [`${names} >= ${values(from)}`]),
    ...(to === null ? [] : [`${names} <= ${values(to)}`]),
  ];
  return parts.length === 0 ? null : parts.join(' AND ');
}

/** Rows written by this transaction or a later one; an xid of 32 or 64 bits. @throws ConfigError */
export function sinceXmin(text: string): string {
  if (!/^\d{1,20}$/.test(text) || BigInt(text) < 3n)
    throw new ConfigError(`--since-xmin cannot be '${text}'`, 'give a transaction id, as `select xmin` shows it');
  return `age(xmin) <= age('${BigInt(text) & 0xffff_ffffn}'::xid)`;
}
