/** Table rules on the source: every figure is one SELECT by PostgreSQL itself, in a read-only transaction. */
import type { ScalarValue } from '../../../contracts/engine/yaml-tree.ts';
import type { CatalogTable } from '../../../contracts/engine/catalog.ts';
import { countSql } from '../../../contracts/engine/rules/table-probe.ts';
import type { TableProbe } from '../../../contracts/engine/rules/table-probe.ts';
import { CommandError, EXIT } from '../../../contracts/cli/exit-code.ts';
import type { SourceSession } from '../../reader/source.ts';
import { sourceRows } from './source-rows.ts';
import { quoteIdent } from '../../reader/sql-text.ts';

const STATEMENT_SECONDS_MAX = 600;

/** `relation`: what stands behind FROM for the table's own rows. */
export function sourceProbe(
  session: SourceSession,
  table: CatalogTable,
  relation: string,
  nowMicros: bigint,
): TableProbe {
  const value = async (query: string): Promise<string | null> => {
    await session.query(`begin transaction read only; set local statement_timeout = '${STATEMENT_SECONDS_MAX}s'`);
    try {
      const [row] = await session.query(query);
      return row === undefined ? null : (Object.values(row)[0] ?? null);
    } finally {
      await session.query('rollback');
    }
  };
  const own = async (query: string): Promise<string | null> => {
    try {
      return await value(query);
    } catch (error) {
      throw new CommandError(
        'SOURCE_UNREADABLE',
        EXIT.environment,
        `${table.schema}.${table.table} cannot be read at the source: ${error instanceof Error ? error.message : 'unknown reason'}`,
        'give this role SELECT on the table',
        error,
      );
    }
  };
  return {
    statistics: () => Promise.resolve(null),
    count: async (request) => BigInt((await own(countSql(request, relation, 'postgres'))) ?? '0'),
    async extremes(column) {
      // Infinity has no place among microseconds.
      const name = quoteIdent(column);
      const micros = (call: string): string => `(extract(epoch from ${call}(${name})) * 1000000)::numeric(38,0)`;
      const text = await own(
        `select ${micros('min')} || ' ' || ${micros('max')} from ${relation} where isfinite(${name})`,
      );
      const [min, max] = (text ?? '').split(' ');
      return min === undefined || max === undefined || min === ''
        ? null
        : { minMicros: BigInt(min), maxMicros: BigInt(max) };
    },
    sql: (query): Promise<ScalarValue> => value(query),
    rows: (columns) => sourceRows(session, { table, relation }, columns),
    relation,
    nowMicros,
  };
}
