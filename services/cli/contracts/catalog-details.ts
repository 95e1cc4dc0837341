/** What the catalog says of a table beyond the shape of its columns: comments, defaults, UNIQUE, CHECK and foreign keys. */
import type { CatalogCheck, CatalogForeignKey } from '../../../contracts/engine/catalog.ts';
import type { SourceSession } from '../../reader/source.ts';

export interface CatalogDetails {
  readonly comment: string | null;
  readonly uniques: readonly (readonly string[])[];
  readonly checks: readonly CatalogCheck[];
  readonly foreignKeys: readonly CatalogForeignKey[];
  readonly columns: ReadonlyMap<string, { readonly defaultText: string | null; readonly comment: string | null }>;
}

interface Row {
  readonly comment: string | null;
  readonly uniques: readonly (readonly string[])[] | null;
  readonly checks: readonly (CatalogCheck & { readonly column: string | null })[] | null;
  readonly foreignKeys: readonly CatalogForeignKey[] | null;
  readonly columns:
    | readonly { readonly name: string; readonly defaultText: string | null; readonly comment: string | null }[]
    | null;
}

const names = (numbers: string, relation: string): string => `(select json_agg(a.attname order by k.place)
    from unnest(${numbers}::int2[]) with ordinality k(attnum, place)
    join pg_attribute a on a.attrelid = ${relation} and a.attnum = k.attnum)`;

const detailsSql = (oid: number): string => `
select json_build_object(
  'comment', obj_description(${oid}::oid, 'pg_class'),
  'uniques', (select json_agg(${names('i.indkey', 'i.indrelid')} order by ic.relname)
    from pg_index i join pg_class ic on ic.oid = i.indexrelid
    where i.indrelid = ${oid} and i.indisunique and not i.indisprimary and i.indisvalid
      and i.indpred is null and i.indexprs is null and i.indnkeyatts = i.indnatts),
  'checks', (select json_agg(json_build_object('name', c.name, 'expression', c.expression, 'column', c.column) order by c.name)
    from (
      select conname as name, pg_get_expr(conbin, conrelid) as expression, null as column
      from pg_constraint where conrelid = ${oid} and contype = 'c'
      union all
      select con.conname || '_' || a.attname, pg_get_expr(con.conbin, 0), a.attname
      from pg_attribute a join pg_constraint con on con.contypid = a.atttypid and con.contype = 'c'
      where a.attrelid = ${oid} and a.attnum > 0 and not a.attisdropped) c),
  'foreignKeys', (select json_agg(json_build_object('columns', ${names('con.conkey', 'con.conrelid')}, 'table', f.relname,
      'referenced', ${names('con.confkey', 'con.confrelid')}) order by con.conname)
    from pg_constraint con join pg_class f on f.oid = con.confrelid where con.conrelid = ${oid} and con.contype = 'f'),
  'columns', (select json_agg(json_build_object('name', a.attname, 'comment', col_description(a.attrelid, a.attnum),
      'defaultText', case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end))
    from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = ${oid} and a.attnum > 0 and not a.attisdropped)) as j`;

export async function catalogDetails(session: SourceSession, oid: number): Promise<CatalogDetails> {
  const [found] = await session.query(detailsSql(oid));
  const row = JSON.parse(found?.['j'] ?? '{}') as Partial<Row>;
  return {
    comment: row.comment ?? null,
    uniques: row.uniques ?? [],
    checks: (row.checks ?? []).map(({ name, expression, column }) => ({
      name,
      // A domain's CHECK speaks of VALUE.
      expression:
        column === null ? expression : expression.replaceAll(/\bVALUE\b/g, `"${column.replaceAll('"', '""')}"`),
    })),
    foreignKeys: row.foreignKeys ?? [],
    columns: new Map(
      (row.columns ?? []).map(({ name, defaultText, comment }) => [name, { defaultText, comment }] as const),
    ),
  };
}
