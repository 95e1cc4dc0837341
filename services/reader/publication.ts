/**
 * The publication: what the server sends. Created before the slot (the other order fails on every read), with partitions
 * under their root and with all four kinds of change. Source: PostgreSQL docs, CREATE PUBLICATION, pg_publication_tables.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ReaderError } from './reader-error.ts';
import { sqlstateOf } from './server-error.ts';
import type { SourceSession, TextRow } from './source.ts';
import { quoteIdent, quoteLiteral, quoteTable } from './sql-text.ts';

export interface PublishedTable {
  readonly schema: string;
  readonly table: string;
  /** Column list, or null for all columns that this version publishes. */
  readonly columns: readonly string[] | null;
  /** SQL predicate over the table's own column names, or null. */
  readonly rowFilter: string | null;
  /**
   * What has it in the publication: other OIDs than before, and it left and came back. Of PostgreSQL's catalogs
   * pg_publication_rel and pg_publication_namespace; empty in a publication of all tables.
   */
  readonly entries: readonly string[];
}

export interface Publication {
  readonly oid: number;
  /** Transaction that last altered its definition. Tables that come and go do not change it. */
  readonly alteredBy: string;
  readonly name: string;
  readonly allTables: boolean;
  readonly insert: boolean;
  readonly update: boolean;
  readonly delete: boolean;
  readonly truncate: boolean;
  readonly viaRoot: boolean;
  /** PostgreSQL 18: stored generated columns are sent. */
  readonly storedGenerated: boolean;
  readonly tables: readonly PublishedTable[];
}

/** internal_error (PostgreSQL docs, appendix A) */
const INTERNAL_ERROR = 'XX000';
const DROPS_MEANWHILE_MAX = 20;

/**
 * Asks pg_publication_tables. Since PostgreSQL 16 that opens each table that it has listed, and one that is dropped in between
 * fails the whole query; the next no longer lists it.
 */
export async function askPublished(session: SourceSession, sql: string): Promise<readonly TextRow[]> {
  for (let drops = 0; ; drops++) {
    try {
      return await session.query(sql);
    } catch (error) {
      if (drops === DROPS_MEANWHILE_MAX || sqlstateOf(error) !== INTERNAL_ERROR) throw error;
    }
  }
}

export async function findPublication(session: SourceSession, name: string): Promise<Publication | null> {
  const version = session.serverVersion;
  const generated = version >= 180_000 ? "p.pubgencols = 's'" : 'false';
  // Below 15 there are neither column lists nor row filters. A list of all columns means no list: pg_publication_rel tells.
  const details =
    version >= 150_000
      ? `'columns', case when r.prattrs is not null then array_to_json(t.attnames) end, 'rowFilter', t.rowfilter`
      : `'columns', null, 'rowFilter', null`;
  const bySchema =
    version >= 150_000
      ? `union all select 'n' || s.oid from pg_publication_namespace s where s.pnpubid = p.oid and s.pnnspid = c.relnamespace`
      : '';
  const entries = `'entries', array(select 'r' || r.oid where r.oid is not null ${bySchema})`;
  const rows = await askPublished(
    session,
    `
select json_build_object('oid', p.oid::int8, 'alteredBy', p.xmin::text, 'name', p.pubname, 'allTables', p.puballtables, 'insert', p.pubinsert,
  'update', p.pubupdate, 'delete', p.pubdelete, 'truncate', p.pubtruncate, 'viaRoot', p.pubviaroot,
  'storedGenerated', ${generated},
  'tables', coalesce((
    select json_agg(json_build_object('schema', t.schemaname, 'table', t.tablename, ${entries}, ${details}) order by t.schemaname, t.tablename)
    from pg_publication_tables t
    left join pg_class c on c.relname = t.tablename and c.relnamespace = (select oid from pg_namespace where nspname = t.schemaname)
    left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid
    where t.pubname = p.pubname), '[]')) as j
from pg_publication p where p.pubname = ${quoteLiteral(name)}`,
  );
  const text = rows[0]?.['j'];
  return text == null ? null : (JSON.parse(text) as Publication);
}

/** SQL predicate over the table's own column names, or null: of every table, or of one that is not published. */
export async function rowFilterOf(
  session: SourceSession,
  name: string,
  { schema, table }: TableName,
): Promise<string | null> {
  if (session.serverVersion < 150_000) return null;
  const [row] = await askPublished(
    session,
    `
select rowfilter from pg_publication_tables
where pubname = ${quoteLiteral(name)} and schemaname = ${quoteLiteral(schema)} and tablename = ${quoteLiteral(table)}`,
  );
  return row?.['rowfilter'] ?? null;
}

/** Another one after DROP and CREATE, and after ALTER … SET: between the two, changes may have been left out of the stream. */
export function publicationRevision({ oid, alteredBy }: Publication): string {
  return `${oid}/${alteredBy}`;
}

export interface TableName {
  readonly schema: string;
  readonly table: string;
}

export function createPublicationSql(name: string, tables: readonly TableName[], serverVersion: number): string {
  const list = tables.map((table) => quoteTable(table.schema, table.table)).join(', ');
  const options = [
    "publish = 'insert, update, delete, truncate'",
    'publish_via_partition_root = true',
    ...(serverVersion >= 180_000 ? ['publish_generated_columns = stored'] : []),
  ];
  return `CREATE PUBLICATION ${quoteIdent(name)}${list === '' ? '' : ` FOR TABLE ${list}`} WITH (${options.join(', ')})`;
}

export function addTablesSql(name: string, tables: readonly TableName[]): string {
  return `ALTER PUBLICATION ${quoteIdent(name)} ADD TABLE ${tables.map((table) => quoteTable(table.schema, table.table)).join(', ')}`;
}

export function dropPublicationSql(name: string): string {
  return `DROP PUBLICATION IF EXISTS ${quoteIdent(name)}`;
}

export function dropTableSql(name: string, { schema, table }: TableName): string {
  return `ALTER PUBLICATION ${quoteIdent(name)} DROP TABLE ${quoteTable(schema, table)}`;
}

export interface EnsuredPublication {
  readonly publication: Publication;
  readonly created: boolean;
  /** Tables that the publication did not have until now. */
  readonly added: readonly TableName[];
}

/**
 * The publication with all `tables` in it: created, or completed, where the role may do so.
 * @throws ReaderError PUBLICATION_DENIED, PUBLICATION_MISSING_TABLE (both with the SQL), PUBLICATION_INCOMPLETE
 */
export async function ensurePublication(
  session: SourceSession,
  name: string,
  tables: readonly TableName[],
  partitioned: boolean,
): Promise<EnsuredPublication> {
  let publication = await findPublication(session, name);
  if (publication === null) {
    await change(
      session,
      createPublicationSql(name, tables, session.serverVersion),
      'PUBLICATION_DENIED',
      `publication "${name}" does not exist and cannot be created`,
    );
    publication = await findPublication(session, name);
    if (publication === null) {
      throw new ReaderError('PUBLICATION_DENIED', `publication "${name}" vanished right after it was created`);
    }
    return { publication, created: true, added: tables };
  }
  // First: without publish_via_partition_root a partitioned table that is in it counts as missing, and cannot be added.
  requireComplete(publication, partitioned);
  const missing = missingTables(publication, tables);
  if (missing.length > 0) {
    const names = missing.map((table) => quoteTable(table.schema, table.table)).join(', ');
    await change(
      session,
      addTablesSql(name, missing),
      'PUBLICATION_MISSING_TABLE',
      `publication "${name}" lacks ${names}`,
    );
    publication = (await findPublication(session, name)) ?? publication;
  }
  return { publication, created: false, added: missing };
}

const LOCK_TRIES = 5;
const LOCK_WAIT_MS = 100;

/** It locks its tables, beside whatever else alters them: what gave way in a deadlock is asked again. */
export async function alterPublication(session: SourceSession, sql: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await session.query(sql);
      return;
    } catch (error) {
      const passes = error instanceof ReaderError && error.retriable && !session.closed;
      if (!passes || tries === LOCK_TRIES) throw error;
    }
    await sleep(LOCK_WAIT_MS * tries);
  }
}

async function change(
  session: SourceSession,
  sql: string,
  code: 'PUBLICATION_DENIED' | 'PUBLICATION_MISSING_TABLE',
  what: string,
): Promise<void> {
  try {
    await alterPublication(session, sql);
  } catch (cause) {
    if (cause instanceof ReaderError && cause.retriable) throw cause;
    // 42501 insufficient privilege (not the owner), 25006 read-only, 55000 FOR ALL TABLES publications cannot be altered so.
    if (sqlstateOf(cause) === null) throw cause;
    throw new ReaderError(code, `${what}: ${cause instanceof Error ? cause.message : ''}`, {
      cause,
      remedy: `as the owner of the tables: ${sql};`,
    });
  }
}

export function missingTables(publication: Publication, tables: readonly TableName[]): readonly TableName[] {
  const present = new Set(publication.tables.map((table) => `${table.schema}\0${table.table}`));
  return tables.filter((table) => !present.has(`${table.schema}\0${table.table}`));
}

/** @throws ReaderError PUBLICATION_INCOMPLETE: a kind of change would vanish, or partitions would come under their own names */
export function requireComplete(publication: Publication, partitioned: boolean): void {
  const kinds = (['insert', 'update', 'delete', 'truncate'] as const).filter((kind) => !publication[kind]);
  const name = quoteIdent(publication.name);
  if (kinds.length > 0) {
    throw new ReaderError(
      'PUBLICATION_INCOMPLETE',
      `publication ${name} does not publish ${kinds.join(' and ')}: such changes would be lost`,
      {
        remedy: `ALTER PUBLICATION ${name} SET (publish = 'insert, update, delete, truncate');`,
      },
    );
  }
  if (partitioned && !publication.viaRoot) {
    throw new ReaderError(
      'PUBLICATION_INCOMPLETE',
      `publication ${name} sends the rows of partitions under the partitions' own names`,
      {
        remedy: `ALTER PUBLICATION ${name} SET (publish_via_partition_root = true);`,
      },
    );
  }
}
