/** One table's place in the publication: looked up, taken, left. */
import { addTablesSql, alterPublication, askPublished, dropTableSql, type TableName } from './publication.ts';
import { ReaderError } from './reader-error.ts';
import { sqlstateOf } from './server-error.ts';
import type { SourceSession } from './source.ts';
import { quoteLiteral } from './sql-text.ts';
import { parseSnapshot } from './visibility.ts';

/** undefined_table (PostgreSQL docs, appendix A) */
const NO_SUCH_TABLE = '42P01';

export async function isPublished(
  session: SourceSession,
  publication: string,
  { schema, table }: TableName,
): Promise<boolean> {
  const rows = await askPublished(
    session,
    `SELECT 1 AS y FROM pg_publication_tables WHERE pubname = ${quoteLiteral(publication)} AND schemaname = ${quoteLiteral(schema)} AND tablename = ${quoteLiteral(table)}`,
  );
  return rows.length > 0;
}

/** True if it was not published until now. @throws ReaderError with an SQLSTATE where the role may not publish it */
export async function publishTable(session: SourceSession, publication: string, table: TableName): Promise<boolean> {
  if (await isPublished(session, publication, table)) return false;
  await alterPublication(session, addTablesSql(publication, [table]));
  return true;
}

/** The SQL for the table's owner where the role may not do it; null when the table is published no longer. */
export async function unpublishTable(
  session: SourceSession,
  publication: string,
  table: TableName,
): Promise<string | null> {
  const sql = dropTableSql(publication, table);
  try {
    await alterPublication(session, sql);
    return null;
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === null || (error instanceof ReaderError && error.retriable)) throw error;
    // A table that is gone has left every publication.
    return sqlstate === NO_SUCH_TABLE ? null : `${sql};`;
  }
}

/** Transactions below this id may have written before the publication changed. */
export async function publicationBarrier(session: SourceSession): Promise<string> {
  const [row] = await session.query('SELECT pg_current_snapshot() AS s');
  return String(parseSnapshot(row?.['s'] ?? '').xmax);
}
