/** What a read of the source would cost, from its catalog and its planner; of small tables, by counting. */
import type { BackfillRequest } from '../replay/backfill-jobs.ts';
import type { PostgresSource, SourceSession } from '../reader/source.ts';
import { ownRowsOf } from '../reader/catalog.ts';
import { quoteLiteral, quoteTable } from '../reader/sql-text.ts';
import { ExitCode, SluiceError } from '../runtime/errors.ts';

export interface ReadEstimate {
  /** Exact for a small table, else the planner's. */
  readonly rows: number;
  /** Bytes of the heap pages, with TOAST, that a read of the whole table touches. */
  readonly bytes: number;
}

/** One session, read only, closed behind the work. */
export async function withReadOnly<T>(
  source: PostgresSource,
  purpose: string,
  work: (session: SourceSession) => Promise<T>,
): Promise<T> {
  const session = await source.session(purpose);
  try {
    await session.query('begin read only');
    return await work(session);
  } finally {
    await session.close();
  }
}

const leaves = (relation: string): string =>
  `(select relid from pg_partition_tree(${quoteLiteral(relation)}::regclass) where isleaf union select ${quoteLiteral(relation)}::regclass)`;

/** Pages of the heap up to which rows are counted, not estimated: 2 MB. */
const COUNT_PAGES_MAX = 256;

/** @throws SluiceError SOURCE_TABLE_MISSING; ReaderError when the condition is none */
export async function estimateRead(
  session: SourceSession,
  schema: string,
  table: string,
  where: string | null,
): Promise<ReadEstimate> {
  const { relation, from } = await existing(session, schema, table);
  const [plan] = await session.query(
    `explain (format json) select 1 from ${from}${where === null ? '' : ` where (${where})`}`,
  );
  const [size] = await session.query(
    `select coalesce(sum(pg_table_size(relid)), 0)::text as bytes, coalesce(sum(pg_relation_size(relid)) / current_setting('block_size')::int, 0)::bigint::text as pages from ${leaves(relation)} l`,
  );
  const bytes = Number(size?.['bytes'] ?? '0');
  // A table that was never analysed has a guess of ten pages, however few rows it holds; so few pages are counted at once.
  if (Number(size?.['pages'] ?? '0') <= COUNT_PAGES_MAX) {
    const [count] = await session.query(
      `select count(*)::text as n from ${from}${where === null ? '' : ` where (${where})`}`,
    );
    return { rows: Number(count?.['n'] ?? '0'), bytes };
  }
  const parsed = JSON.parse(Object.values(plan ?? {})[0] ?? '[]') as { Plan?: { 'Plan Rows'?: number } }[];
  return { rows: parsed[0]?.Plan?.['Plan Rows'] ?? 0, bytes };
}

/** Pages of the largest heap, and whether no more than `rowsMax` rows match the condition. */
export async function measureRead(
  session: SourceSession,
  { schema, table, where }: BackfillRequest,
  rowsMax: number,
): Promise<{ readonly pages: number; readonly few: boolean }> {
  const { relation, from } = await existing(session, schema, table);
  const [size] = await session.query(
    `select coalesce(max(pg_relation_size(relid)) / current_setting('block_size')::int, 0)::text as pages from ${leaves(relation)} l`,
  );
  const pages = Number(size?.['pages'] ?? '0');
  if (where === null) return { pages, few: false };
  const [count] = await session.query(
    `select count(*)::text as n from (select 1 from ${from} where (${where}) limit ${rowsMax + 1}) s`,
  );
  return { pages, few: Number(count?.['n'] ?? '0') <= rowsMax };
}

async function existing(
  session: SourceSession,
  schema: string,
  table: string,
): Promise<{ relation: string; from: string }> {
  const relation = quoteTable(schema, table);
  const [row] = await session.query(`select to_regclass(${quoteLiteral(relation)})::oid::text as oid`);
  if (row?.['oid'] != null) return { relation, from: await ownRowsOf(session, schema, table) };
  throw new SluiceError('SOURCE_TABLE_MISSING', `the source has no table ${schema}.${table}`, {
    exit: ExitCode.usage,
    remedy: 'see `sluice status` for the tables',
  });
}
