/** A change of the source that its stream never hears of, and nothing at the source tells of: as a fault of ours would leave it. */
import type { TestDatabase } from './postgres.ts';

/**
 * The table leaves the publication and comes back within the transaction. It comes back by another entry, which the reader would
 * see, so the entries get the OIDs that they had.
 */
export async function changeUnheard(
  database: TestDatabase,
  publication: string,
  table: string,
  sql: string,
): Promise<void> {
  const entries = `pg_publication_rel r join pg_publication p on p.oid = r.prpubid and p.pubname = '${publication}'`;
  await database.query(`begin;
    create temp table kept on commit drop as select r.oid as entry, r.prrelid from ${entries};
    alter publication ${publication} drop table ${table};
    ${sql};
    alter publication ${publication} add table ${table};
    set local allow_system_table_mods = on;
    update pg_depend d set objid = kept.entry from kept, ${entries}
      where r.prrelid = kept.prrelid and d.classid = 'pg_publication_rel'::regclass and d.objid = r.oid;
    update pg_publication_rel r set oid = kept.entry from kept, pg_publication p
      where p.oid = r.prpubid and p.pubname = '${publication}' and r.prrelid = kept.prrelid;
    commit`);
}
