import type { TestDatabase } from '../support/postgres.ts';

/** Leaves a test's database as it was: no slots, publications or tables. */
export async function emptyDatabase(db: TestDatabase): Promise<void> {
  await db.query(`do $$ declare r record; begin
    for r in select slot_name from pg_replication_slots where database = current_database() and not active loop
      perform pg_drop_replication_slot(r.slot_name);
    end loop;
    for r in select pubname from pg_publication loop execute format('drop publication %I', r.pubname); end loop;
    for r in select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition loop
      execute format('drop table public.%I cascade', r.relname);
    end loop; end $$`);
}
