/**
 * What the database's catalog says about tables: their columns as pgoutput would send them, their keys, and the facts that
 * the continuity checks compare. Source: PostgreSQL docs, chapter "System Catalogs".
 */
import type { ColumnShape } from '../log/event.ts';
import type { SourceSession, TextRow } from './source.ts';
import { fromOwnRows, quoteLiteral, quoteTable } from './sql-text.ts';

export interface SourceTable {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  /** r = table, p = partitioned table (the root; its partitions are not listed apart). */
  readonly relkind: 'r' | 'p';
  /** p = permanent, u = unlogged (no WAL: cannot be replicated). */
  readonly persistence: 'p' | 'u';
  /** d = default, n = nothing, f = full, i = index. */
  readonly replicaIdentity: 'd' | 'n' | 'f' | 'i';
  /** Row-level security would hide rows from our role. */
  readonly rowSecurity: boolean;
  /** Primary key columns in key order; empty = none, or a deferrable one. */
  readonly primaryKey: readonly string[];
  /**
   * Inside a transaction two rows may have one key: events that leave in the order of the changes would delete the wrong one.
   * PostgreSQL takes it for no replica identity either, and refuses updates of the table once it is published.
   */
  readonly deferrableKey: boolean;
  /** Columns of the replica identity index when that is `i`; empty otherwise. */
  readonly identityIndex: readonly string[];
  /** Columns of the first unique, immediate, whole, all-NOT-NULL index; the key of a table with replica identity full. */
  readonly uniqueIndex: readonly string[];
  readonly estimatedRows: number;
  readonly blocks: number;
  readonly attributes: readonly SourceAttribute[];
  /** Heaps that hold the rows: the table itself, or all leaf partitions, in name order. */
  readonly heaps: readonly SourceHeap[];
}

/** A column as far as the comparison of a heartbeat needs it. */
export interface SourceAttribute {
  readonly attnum: number;
  readonly name: string;
  readonly typeOid: number;
  readonly typeModifier: number;
  readonly hasDefault: boolean;
}

export interface SourceHeap {
  readonly schema: string;
  readonly table: string;
  readonly oid: number;
  /** Changes when the heap is rewritten (CLUSTER, VACUUM FULL, most ALTER TYPE, TRUNCATE). */
  readonly relfilenode: number;
  readonly blocks: number;
}

export interface CatalogAttribute {
  readonly name: string;
  readonly attnum: number;
  readonly typeOid: number;
  readonly typeModifier: number;
  readonly notNull: boolean;
  /** '' = stored by the user, s = stored generated, v = virtual generated (never sent). */
  readonly generated: '' | 's' | 'v';
}

/** A row of a query whose only column `j` is JSON. */
function json<T>(row: TextRow | undefined): T | null {
  const text = row?.['j'];
  return text == null ? null : (JSON.parse(text) as T);
}

const SYSTEM_SCHEMAS = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

/** Columns of the index that `index` selects, in key order, as a JSON list. */
const indexColumns = (where: string, order = ''): string => `coalesce((
  select array_to_json(array(
    select a.attname from unnest(i.indkey::int2[]) with ordinality k(attnum, place)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where k.place <= i.indnkeyatts order by k.place))
  from pg_index i join pg_class ic on ic.oid = i.indexrelid
  where i.indrelid = c.oid and i.indisvalid and i.indpred is null and i.indexprs is null and ${where} ${order} limit 1), '[]')`;

const ALL_NOT_NULL = `not exists (select 1 from unnest(i.indkey::int2[]) k(attnum)
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum where not a.attnotnull)`;

const tablesSql = (condition: string): string => `
select json_build_object(
  'schema', n.nspname, 'table', c.relname, 'oid', c.oid::int8, 'relkind', c.relkind, 'persistence', c.relpersistence,
  'replicaIdentity', c.relreplident, 'rowSecurity', row_security_active(c.oid),
  'primaryKey', ${indexColumns('i.indisprimary and i.indimmediate')},
  'deferrableKey', exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisprimary and not i.indimmediate),
  'identityIndex', ${indexColumns("c.relreplident = 'i' and i.indisreplident")},
  'uniqueIndex', ${indexColumns(`i.indisunique and i.indimmediate and ${ALL_NOT_NULL}`, 'order by ic.relname')},
  'attributes', (select coalesce(json_agg(json_build_object('attnum', a.attnum, 'name', a.attname, 'typeOid', a.atttypid::int8,
      'typeModifier', a.atttypmod, 'hasDefault', a.atthasdef or a.atthasmissing) order by a.attnum), '[]')
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
  'estimatedRows', greatest(h.tuples, 0), 'blocks', h.blocks, 'heaps', h.heaps) as j
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral (
  select coalesce(sum(greatest(l.reltuples, 0)), 0) as tuples,
    coalesce(sum(pg_relation_size(l.oid) / current_setting('block_size')::int), 0) as blocks,
    coalesce(json_agg(json_build_object('schema', ln.nspname, 'table', l.relname, 'oid', l.oid::int8,
      'relfilenode', pg_relation_filenode(l.oid)::int8,
      'blocks', pg_relation_size(l.oid) / current_setting('block_size')::int) order by ln.nspname, l.relname), '[]') as heaps
  from (
    select c.oid as relid where c.relkind = 'r'
    union all
    select p.relid from pg_partition_tree(c.oid) p where p.isleaf and c.relkind = 'p') leaves
  join pg_class l on l.oid = leaves.relid and l.relkind = 'r'
  join pg_namespace ln on ln.oid = l.relnamespace) h
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't' and ${SYSTEM_SCHEMAS} and ${condition}
order by n.nspname, c.relname`;

/** All tables of the database that could be replicated; partitions stand under their root. */
export async function listTables(session: SourceSession): Promise<readonly SourceTable[]> {
  const rows = await session.query(tablesSql('true'));
  return rows.map((row) => json<SourceTable>(row)).filter((table) => table !== null);
}

export async function findTable(session: SourceSession, schema: string, table: string): Promise<SourceTable | null> {
  const condition = `n.nspname = ${quoteLiteral(schema)} and c.relname = ${quoteLiteral(table)}`;
  return json<SourceTable>((await session.query(tablesSql(condition)))[0]);
}

export interface OtherRelation {
  readonly schema: string;
  readonly table: string;
  readonly kind: 'view' | 'materialized view' | 'foreign table' | 'partition';
}

/** What a glob may match by name and is no table of its own in the WAL. */
export async function otherRelations(session: SourceSession): Promise<readonly OtherRelation[]> {
  const rows = await session.query(`
select json_build_object('schema', n.nspname, 'table', c.relname, 'kind', case when c.relispartition then 'partition'
  when c.relkind = 'v' then 'view' when c.relkind = 'm' then 'materialized view' else 'foreign table' end) as j
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where (c.relkind in ('v', 'm', 'f') or c.relkind in ('r', 'p') and c.relispartition) and ${SYSTEM_SCHEMAS}
order by n.nspname, c.relname`);
  return rows.map((row) => json<OtherRelation>(row)).filter((relation) => relation !== null);
}

/** The table that a partition belongs to; null when there is no such partition. */
export async function partitionRoot(
  session: SourceSession,
  schema: string,
  table: string,
): Promise<{ readonly schema: string; readonly table: string } | null> {
  const rows = await session.query(`
select json_build_object('schema', rn.nspname, 'table', r.relname) as j
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_class r on r.oid = pg_partition_root(c.oid) join pg_namespace rn on rn.oid = r.relnamespace
where c.relispartition and n.nspname = ${quoteLiteral(schema)} and c.relname = ${quoteLiteral(table)}`);
  return json(rows[0]);
}

/** Columns in their order, without the dropped ones. */
export async function listAttributes(session: SourceSession, oid: number): Promise<readonly CatalogAttribute[]> {
  const rows = await session.query(`
select json_build_object('name', attname, 'attnum', attnum, 'typeOid', atttypid::int8, 'typeModifier', atttypmod,
  'notNull', attnotnull, 'generated', attgenerated) as j
from pg_attribute where attrelid = ${oid} and attnum > 0 and not attisdropped order by attnum`);
  return rows.map((row) => json<CatalogAttribute>(row)).filter((attribute) => attribute !== null);
}

export type TypeFacts = Pick<ColumnShape, 'pgType' | 'baseType' | 'kind' | 'enumLabels'>;

/**
 * What a column's type is, by OID and modifier, in the given order. A type that was dropped since has no facts any more:
 * its values still pass as PostgreSQL's text.
 */
export async function describeTypes(
  session: SourceSession,
  types: readonly { readonly typeOid: number; readonly typeModifier: number }[],
): Promise<readonly TypeFacts[]> {
  if (types.length === 0) return [];
  // An array is the one of its element type: int2vector and oidvector have elements too, but a text of another form.
  const wanted = types.map((type, index) => `(${index}, ${type.typeOid}::int8::oid, ${type.typeModifier})`).join(', ');
  const rows = await session.query(`
with recursive wanted(place, oid, mod) as (values ${wanted}),
base as (
  select w.place, w.mod, t.oid as top, t.oid, t.typtype, t.typbasetype, t.typtypmod as basemod, t.typelem, w.mod as own, 0 as depth
  from wanted w join pg_type t on t.oid = w.oid
  union all
  select b.place, b.mod, b.top, t.oid, t.typtype, t.typbasetype, t.typtypmod, t.typelem,
    case when b.basemod >= 0 then b.basemod else b.own end, b.depth + 1
  from base b join pg_type t on t.oid = b.typbasetype where b.typtype = 'd'),
ground as (select distinct on (place) * from base order by place, depth desc)
select json_build_object('place', g.place,
  'pgType', format_type(g.top, g.mod),
  'kind', case top.typtype when 'e' then 'enum' when 'd' then 'domain' when 'c' then 'composite' when 'r' then 'range'
    when 'm' then 'range' else case when listed.oid is not null then 'array' else 'base' end end,
  'baseType', case when top.typtype = 'd' then format_type(g.oid, g.own)
    when listed.oid is not null then (
      with recursive element(oid, typtype, typbasetype, mod, depth) as (
        select e.oid, e.typtype, e.typbasetype, case when e.typtype = 'd' then e.typtypmod else g.mod end, 0
        from pg_type e where e.oid = top.typelem
        union all
        select t.oid, t.typtype, t.typbasetype, case when t.typtype = 'd' then t.typtypmod else x.mod end, x.depth + 1
        from element x join pg_type t on t.oid = x.typbasetype where x.typtype = 'd')
      select format_type(oid, mod) from element order by depth desc limit 1) end,
  'enumLabels', case when top.typtype = 'e' then (
    select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = top.oid) end) as j
from ground g join pg_type top on top.oid = g.top
  left join pg_type listed on listed.oid = top.typelem and listed.typarray = top.oid order by g.place`);
  const facts: TypeFacts[] = types.map((type) => ({
    pgType: `unknown type ${type.typeOid}`,
    baseType: null,
    kind: 'base',
    enumLabels: null,
  }));
  for (const row of rows) {
    const found = json<TypeFacts & { place: number }>(row);
    if (found === null) continue;
    const { place, ...rest } = found;
    facts[place] = rest;
  }
  return facts;
}

/** `fromOwnRows` of a table that the catalog is asked about. */
export async function ownRowsOf(session: SourceSession, schema: string, table: string): Promise<string> {
  const name = quoteLiteral(quoteTable(schema, table));
  const [row] = await session.query(`SELECT relkind FROM pg_class WHERE oid = to_regclass(${name})`);
  return fromOwnRows(schema, table, row?.['relkind'] === 'r');
}
