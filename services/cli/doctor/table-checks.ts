/** Tables that cannot be followed, each with its fix; and the publication, which only their owner may make. */
import { listTables, type SourceTable } from '../../reader/catalog.ts';
import { matchesGlobs } from '../../reader/table-globs.ts';
import {
  addTablesSql,
  createPublicationSql,
  findPublication,
  missingTables,
  requireComplete,
  type Publication,
} from '../../reader/publication.ts';
import { findSlot } from '../../reader/slot.ts';
import type { SourceSession } from '../../reader/source.ts';
import { quoteIdent, quoteLiteral, quoteTable } from '../../reader/sql-text.ts';
import { noTables, select } from '../../reader/table-selection.ts';
import type { Config } from '../../runtime/config.ts';
import { columnFault, noColumns } from '../column-names.ts';
import { catalogTable } from '../contracts/live-catalog.ts';
import { bad, ok, warn, attempt, type Report } from './check.ts';

export async function checkTables(config: Config, session: SourceSession, report: Report): Promise<void> {
  const all = (await listTables(session)).filter((table) =>
    matchesGlobs(config.source.tables, table.schema, table.table),
  );
  if (all.length === 0) {
    const { message, remedy } = await noTables(session, config.source.tables);
    return report(bad('tables', message, remedy));
  }
  const { taken, refused } = select(all, config.log.kind);
  for (const { schema, table, error } of refused) report(bad(`table ${schema}.${table}`, error.message, error.remedy));
  const publication = await findPublication(session, config.source.publication);
  const hidden = await unreadable(session, taken);
  let fit = 0;
  for (const table of taken) {
    if (await isFit(session, table, { publication, hidden, report })) fit += 1;
  }
  const counted = `${fit} of ${all.length} tables can be followed`;
  report(fit > 0 ? ok('tables', counted) : bad('tables', counted, 'mend the tables above'));
  await attempt('publication', report, () => checkPublication(config, session, { taken, publication, report }));
}

interface TableCheck {
  readonly publication: Publication | null;
  readonly hidden: ReadonlyMap<number, AccessFault>;
  readonly report: Report;
}

async function isFit(
  session: SourceSession,
  table: SourceTable,
  { publication, hidden, report }: TableCheck,
): Promise<boolean> {
  const name = `table ${table.schema}.${table.table}`;
  const shape = await catalogTable(session, table, publication);
  const columns = shape.columns.map((column) => column.name);
  const fault = columns.length === 0 ? noColumns(table) : columnFault(table, columns);
  if (fault !== null) report(bad(name, fault.message, fault.remedy));
  const closed = hidden.get(table.oid);
  if (closed !== undefined) report(bad(name, closed.message, closed.remedy));
  if (table.replicaIdentity === 'f')
    report(
      warn(
        name,
        'replica identity FULL: every update and delete sends the whole old row',
        'keep it if contracts use before-images; else ALTER TABLE … REPLICA IDENTITY DEFAULT',
      ),
    );
  return fault === null && closed === undefined;
}

export interface AccessFault {
  readonly message: string;
  readonly remedy: string;
}

/** Of tables of which the role may read no column, or not of all partitions, by OID. */
export async function unreadable(
  session: SourceSession,
  tables: readonly SourceTable[],
): Promise<ReadonlyMap<number, AccessFault>> {
  if (tables.length === 0) return new Map();
  const oids = tables.flatMap(readFrom).map(({ oid }) => oid);
  const rows = await session.query(`
select c.oid::int8::text as oid from pg_class c
where c.oid in (${oids.join(', ')})
  and not (has_schema_privilege(c.relnamespace, 'USAGE')
    and (has_table_privilege(c.oid, 'SELECT') or has_any_column_privilege(c.oid, 'SELECT')))`);
  const refused = new Set(rows.map((row) => Number(row['oid'])));
  const faults = new Map<number, AccessFault>();
  for (const table of tables) {
    const closed = readFrom(table).filter(({ oid }) => refused.has(oid));
    if (closed.length === 0) continue;
    const schemas = [...new Set(closed.map(({ schema }) => quoteIdent(schema)))].join(', ');
    const names = closed.map((each) => quoteTable(each.schema, each.table)).join(', ');
    faults.set(table.oid, {
      message: refused.has(table.oid)
        ? 'this role may not read it'
        : `this role may not read partitions of it, which a snapshot does one by one: ${names}`,
      remedy: `as its owner: GRANT USAGE ON SCHEMA ${schemas} TO <role>; GRANT SELECT ON ${names} TO <role>;`,
    });
  }
  return faults;
}

/** The table and, where it is partitioned, what holds its rows: a right on the one is none on the other. */
const readFrom = (table: SourceTable): readonly Pick<SourceTable, 'schema' | 'table' | 'oid'>[] =>
  table.relkind === 'p' ? [table, ...table.heaps] : [table];

interface PublicationCheck {
  readonly taken: readonly SourceTable[];
  readonly publication: Publication | null;
  readonly report: Report;
}

async function checkPublication(
  config: Config,
  session: SourceSession,
  { taken, publication, report }: PublicationCheck,
): Promise<void> {
  const { publication: name, slot } = config.source;
  if (publication === null) {
    const may = (await mayCreate(session)) && (await owns(session, taken));
    const sql = createPublicationSql(name, taken, session.serverVersion);
    report(
      may
        ? ok('publication', `${name} will be created`)
        : bad(
            'publication',
            `${name} does not exist, and this role cannot create it: that takes CREATE on the database and ownership of every table`,
            `as the owner of the tables: ${sql};`,
          ),
    );
    return;
  }
  requireComplete(
    publication,
    taken.some((table) => table.relkind === 'p'),
  );
  const missing = missingTables(publication, taken);
  if (missing.length === 0) return report(ok('publication', `${name} has all ${taken.length} tables`));
  const names = missing.map((table) => quoteTable(table.schema, table.table)).join(', ');
  if (
    (await mayAlter(session, name)) &&
    (await owns(
      session,
      taken.filter((table) => missing.includes(table)),
    ))
  )
    return report(ok('publication', `${name} lacks ${names}: they will be added`));
  const fix = `as their owner: ${addTablesSql(name, missing)};`;
  // Later ones are announced and the others go on; at the first start they stop it.
  const first = (await findSlot(session, slot)) === null;
  return report((first ? bad : warn)('publication', `${name} lacks ${names}`, fix));
}

const yes = async (session: SourceSession, condition: string): Promise<boolean> =>
  (await session.query(`select (${condition})::text as may`))[0]?.['may'] === 'true';

const mayCreate = (session: SourceSession): Promise<boolean> =>
  yes(session, `has_database_privilege(current_user, current_database(), 'CREATE')`);

const mayAlter = (session: SourceSession, name: string): Promise<boolean> =>
  yes(
    session,
    `exists (select from pg_publication where pubname = ${quoteLiteral(name)} and not puballtables and pg_has_role(pubowner, 'USAGE'))`,
  );

function owns(session: SourceSession, tables: readonly SourceTable[]): Promise<boolean> {
  if (tables.length === 0) return Promise.resolve(true);
  const oids = tables.map(({ oid }) => oid).join(', ');
  return yes(session, `select bool_and(pg_has_role(relowner, 'USAGE')) from pg_class where oid in (${oids})`);
}
