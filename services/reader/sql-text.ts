/** Names and values as SQL text. Source: PostgreSQL docs, 4.1 "Lexical Structure" (standard_conforming_strings on). */

/** `My "Table"` → `"My ""Table"""`. Always quoted, so that case and dots are kept. */
export function quoteIdent(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteTable(schema: string, table: string): string {
  return `${quoteIdent(schema)}.${quoteIdent(table)}`;
}

/**
 * What stands behind FROM for a table's own rows: of a plain one without those of tables that inherit from it, which are
 * published by their own names; of a partitioned one all, by its root.
 */
export function fromOwnRows(schema: string, table: string, plain: boolean): string {
  return `${plain ? 'ONLY ' : ''}${quoteTable(schema, table)}`;
}

/** A string literal that means the same whatever standard_conforming_strings says. */
export function quoteLiteral(text: string): string {
  const body = text.replaceAll("'", "''");
  return body.includes('\\') ? ` E'${body.replaceAll('\\', '\\\\')}'` : `'${body}'`;
}

export function quoteList(values: readonly (string | number)[]): string {
  return values.map((value) => (typeof value === 'number' ? String(value) : quoteLiteral(value))).join(', ');
}
