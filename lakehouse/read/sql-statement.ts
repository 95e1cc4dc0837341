/** What a query text is: one SELECT and nothing else, and the tables it names. DuckDB's own parser decides. */
import type { DuckDbSession } from './duckdb.ts';
import { mentionedNames, testsByTable, type ColumnTest } from './query-needs.ts';
import { SqlError } from './sql-error.ts';

export interface TableName {
  /** Null when the query gives none. */
  readonly schema: string | null;
  readonly name: string;
}

export interface SelectStatement {
  /** The statement as the parser understood it: without comments and trailing semicolon, so that it can be nested. */
  readonly text: string;
  readonly tables: readonly TableName[];
  /** Lower-case names among which every column's is that it can touch; null: it may touch all. */
  readonly columns: ReadonlySet<string> | null;
  /** What holds of every row of a table that it can use. */
  testsOf(table: TableName): readonly ColumnTest[];
}

/** Schemas of DuckDB itself. */
const SYSTEM = new Set(['information_schema', 'pg_catalog', 'system']);

/** @throws SqlError SQL_INVALID */
export async function parseSelect(session: DuckDbSession, sql: string): Promise<SelectStatement> {
  const serialized = await session.text('SELECT json_serialize_sql(?::VARCHAR)', sql);
  const tree = JSON.parse(serialized) as {
    readonly error: boolean;
    readonly error_message?: string;
    readonly statements?: readonly unknown[];
  };
  if (tree.error) throw new SqlError('SQL_INVALID', refusal(tree.error_message, sql));
  if (tree.statements?.length !== 1)
    throw new SqlError('SQL_INVALID', `one SELECT is wanted, these are ${tree.statements?.length ?? 0} statements`);
  const found = new Map<string, TableName>();
  collect(tree.statements, found, new Set());
  const tables = [...found.values()].filter(({ schema }) => !SYSTEM.has(schema ?? ''));
  const tests = testsByTable(tree.statements);
  return {
    text: await session.text('SELECT json_deserialize_sql(?::JSON)', serialized),
    tables,
    columns: mentionedNames(tree.statements),
    testsOf: ({ schema, name }) => tests.get(`${schema ?? ''}.${name}`.toLowerCase()) ?? [],
  };
}

/** What the serializer takes is a SELECT; DuckDB makes several statements of a PIVOT whose values it has to look for. */
function refusal(message: string | undefined, sql: string): string {
  if (message?.startsWith('Only SELECT statements') !== true) return message ?? 'the query does not parse';
  return /\bpivot/i.test(sql)
    ? 'a PIVOT needs its values named: PIVOT … ON column IN (value, …) USING …'
    : 'only a SELECT can be run here';
}

/** `inScope`: names that stand for a WITH query here, in lower case. In such a query its own name is a table's, if it is not recursive. */
function collect(value: unknown, found: Map<string, TableName>, inScope: ReadonlySet<string>): void {
  if (Array.isArray(value)) {
    for (const item of value) collect(item, found, inScope);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  const node = value as Readonly<Record<string, unknown>>;
  if (node['type'] === 'BASE_TABLE' && typeof node['table_name'] === 'string') {
    const name = node['table_name'];
    const schema = typeof node['schema_name'] === 'string' && node['schema_name'] !== '' ? node['schema_name'] : null;
    if (schema !== null || !inScope.has(name.toLowerCase()))
      found.set(`${schema ?? ''}.${name}`.toLowerCase(), { schema, name });
  }
  const { cte_map: queries, ...members } = node;
  const names = new Set(inScope);
  if (node['type'] === 'RECURSIVE_CTE_NODE' && typeof node['cte_name'] === 'string')
    names.add(node['cte_name'].toLowerCase());
  const named = (
    queries as { readonly map?: readonly { readonly key?: unknown; readonly value?: unknown }[] } | undefined
  )?.map;
  for (const { key, value: query } of named ?? []) {
    collect(query, found, names);
    if (typeof key === 'string') names.add(key.toLowerCase());
  }
  for (const member of Object.values(members)) collect(member, found, names);
}
