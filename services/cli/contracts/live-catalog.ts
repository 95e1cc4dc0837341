/** The live database as the `contracts` command sees it: tables with key, types, enum labels, constraints. */
import type { CatalogSession } from '../../../contracts/cli/ports.ts';
import type { CatalogTable } from '../../../contracts/engine/catalog.ts';
import { listAttributes, listTables } from '../../reader/catalog.ts';
import type { SourceTable } from '../../reader/catalog.ts';
import type { Publication } from '../../reader/publication.ts';
import { describeColumns } from '../../reader/shapes.ts';
import type { PostgresSource, SourceSession } from '../../reader/source.ts';
import { fromOwnRows, quoteTable } from '../../reader/sql-text.ts';
import { catalogDetails } from './catalog-details.ts';
import { sourceProbe } from './source-probe.ts';

const IDENTITIES = { d: 'default', n: 'nothing', f: 'full', i: 'index' } as const;

export async function openCatalog(source: PostgresSource, nowMicros: () => bigint): Promise<CatalogSession> {
  const session = await source.session('contracts');
  const ownRows = new Map<CatalogTable, string>();
  return {
    async tables() {
      const tables: CatalogTable[] = [];
      for (const found of await listTables(session)) {
        const table = await catalogTable(session, found);
        ownRows.set(table, fromOwnRows(found.schema, found.table, found.relkind === 'r'));
        tables.push(table);
      }
      return tables;
    },
    probe: (table) =>
      sourceProbe(session, table, ownRows.get(table) ?? quoteTable(table.schema, table.table), nowMicros()),
    close: () => session.close(),
  };
}

/** With the columns that the publication sends; without one, those that a publication of ours would send. */
export async function catalogTable(
  session: SourceSession,
  found: SourceTable,
  publication: Publication | null = null,
): Promise<CatalogTable> {
  const { schema, table, oid } = found;
  const generatedSent = publication?.storedGenerated ?? session.serverVersion >= 180_000;
  const listed = publication?.tables.find((each) => each.schema === schema && each.table === table)?.columns ?? null;
  const attributes = (await listAttributes(session, oid)).filter(({ name, generated }) =>
    listed === null ? generated === '' || (generated === 's' && generatedSent) : listed.includes(name),
  );
  const shapes = await describeColumns(session, { schema, table, oid, columns: attributes, key: keyOf(found) });
  const details = await catalogDetails(session, oid);
  return {
    schema,
    table,
    comment: details.comment,
    uniques: details.uniques,
    checks: details.checks,
    foreignKeys: details.foreignKeys,
    replicaIdentity: IDENTITIES[found.replicaIdentity],
    columns: shapes.map(({ name, pgType, baseType, kind, enumLabels, notNull, keyPosition }) => ({
      name,
      pgType,
      baseType,
      kind,
      enumLabels,
      notNull,
      keyPosition,
      ...details.columns.get(name),
    })),
  };
}

/** As the reader has it, but a table that it would refuse is shown as well, without a key. */
function keyOf(table: SourceTable): readonly string[] {
  if (table.replicaIdentity === 'i' && table.identityIndex.length > 0) return table.identityIndex;
  if (table.primaryKey.length > 0) return table.primaryKey;
  return table.replicaIdentity === 'f' ? table.uniqueIndex : [];
}
