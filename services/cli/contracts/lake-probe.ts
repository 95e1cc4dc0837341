/** Table rules on the lake: Delta statistics first, then DuckDB over the version's files; row rules over our own scan. */
import type { GateRow } from '../../../contracts/engine/gate.ts';
import { lakeColumnName } from '../../../contracts/engine/lake-name.ts';
import type { ScalarValue } from '../../../contracts/engine/yaml-tree.ts';
import { countSql } from '../../../contracts/engine/rules/table-probe.ts';
import type { CountRequest, TableProbe } from '../../../contracts/engine/rules/table-probe.ts';
import { quoteName } from '../../../lakehouse/read/duckdb.ts';
import { SqlError } from '../../../lakehouse/read/sql-error.ts';
import type { TableName } from '../../../lakehouse/read/sql-statement.ts';
import { runSql } from '../../../lakehouse/read/sql.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { COMMITTED_AT } from '../../ingest/table-plan.ts';
import { lakeStatistics } from './lake-statistics.ts';

interface OwnTable {
  readonly schema: string;
  readonly table: string;
  readonly snapshot: Snapshot;
}

interface ProbeContext {
  readonly sinceMicros: bigint | null;
  readonly nowMicros: bigint;
  /** Tables that an SQL rule names beside its own. */
  readonly other: (schema: string, table: string) => Promise<Snapshot | null>;
  readonly rows: (columns: readonly string[]) => AsyncIterable<readonly GateRow[]>;
  readonly guard: <T>(work: () => Promise<T>) => Promise<T>;
}

export function lakeProbe(own: OwnTable, context: ProbeContext): TableProbe {
  const { sinceMicros, guard } = context;
  const qualified = `${quoteName(own.schema)}.${quoteName(own.table)}`;
  const relation =
    sinceMicros === null
      ? qualified
      : `(SELECT * FROM ${qualified} WHERE ${quoteName(COMMITTED_AT)} >= make_timestamptz(${sinceMicros}))`;
  const resolve = async (name: TableName): Promise<Snapshot> => {
    const mine = name.name.toLowerCase() === own.table.toLowerCase();
    if (mine && (name.schema === null || name.schema.toLowerCase() === own.schema.toLowerCase())) return own.snapshot;
    const found = await context.other(name.schema ?? own.schema, name.name);
    if (found === null)
      throw new SqlError('SQL_INVALID', `the lake has no table ${name.schema ?? own.schema}.${name.name}`);
    return found;
  };
  const first = (query: string): Promise<readonly unknown[]> =>
    runSql(query, { resolve }, async (run) => {
      for await (const rows of (await run.rows()).rows) for (const row of rows) return row;
      return [];
    });
  return {
    // Of a part of the rows the log says nothing exact.
    statistics: () => Promise.resolve(sinceMicros === null ? lakeStatistics(own.snapshot) : null),
    count: (request) =>
      guard(async () => whole64((await first(countSql(inLakeNames(request), relation, 'duckdb')))[0])),
    extremes: (column) =>
      guard(async () => {
        const name = `CAST(${quoteName(lakeColumnName(column))} AS TIMESTAMP)`;
        const row = await first(`SELECT epoch_us(min(${name})), epoch_us(max(${name})) FROM ${relation}`);
        const [min, max] = row;
        return min == null || max == null ? null : { minMicros: whole64(min), maxMicros: whole64(max) };
      }),
    sql: async (query): Promise<ScalarValue> => {
      const [value = null] = await first(query);
      return typeof value === 'object' ? null : (value as ScalarValue);
    },
    rows: (columns) => rowByRow(context.rows(columns)),
    relation,
    nowMicros: context.nowMicros,
  };
}

/** DuckDB's 64-bit integers come as text, a sum as a number or text. */
function whole64(value: unknown): bigint {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint' ? BigInt(value) : 0n;
}

async function* rowByRow(batches: AsyncIterable<readonly GateRow[]>): AsyncGenerator<GateRow> {
  for await (const batch of batches) yield* batch;
}

function inLakeNames(request: CountRequest): CountRequest {
  if (request.kind === 'rows') return request;
  return request.kind === 'duplicate'
    ? { ...request, columns: request.columns.map(lakeColumnName) }
    : { ...request, column: lakeColumnName(request.column) };
}
