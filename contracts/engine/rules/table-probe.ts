/** What table rules ask of a stage (source, stream or lake): statistics first, a count when they are not exact, SQL for SQL rules. */
import type { GateRow } from '../gate.ts';
import type { ScalarValue } from '../yaml-tree.ts';

export interface TableProbe {
  /** Statistics without reading data; null when the stage has none. */
  statistics(): Promise<TableStatistics | null>;
  /** An exact count by reading data. `countSql` and `countRows` are the two ways to do it. */
  count(request: CountRequest): Promise<bigint>;
  /** The extremes of a date or timestamp column, by reading data. Null when the column has no value. */
  extremes(column: string): Promise<TimeRange | null>;
  /** The first column of the first row of a SELECT; null where the stage runs no SQL. */
  readonly sql: ((query: string) => Promise<ScalarValue>) | null;
  /** Rows in the gate's cell forms with these columns, for row rules; null where the stage cannot give them. */
  readonly rows: ((columns: readonly string[]) => AsyncIterable<GateRow>) | null;
  /** How SQL names the table. */
  readonly relation: string;
  /** Microseconds since 1970 UTC, by the source's clock where it is known. */
  readonly nowMicros: bigint;
}

/** Only what is exact is given: with deletion vectors, or beyond the indexed columns, a value is absent. */
export interface TableStatistics {
  readonly rowCount: bigint | null;
  /** By column: exact number of NULLs. */
  readonly nullCounts: ReadonlyMap<string, bigint>;
  /** By column: exact extremes, dates as midnight. */
  readonly ranges: ReadonlyMap<string, TimeRange>;
}

/** Microseconds since 1970 UTC. */
export interface TimeRange {
  readonly minMicros: bigint;
  readonly maxMicros: bigint;
}

export type CountRequest =
  | { readonly kind: 'rows' }
  | { readonly kind: 'null'; readonly column: string }
  /** NULL counts as missing only when the list has it. */
  | { readonly kind: 'missing'; readonly column: string; readonly values: readonly ScalarValue[] }
  /** NULL is never invalid. */
  | {
      readonly kind: 'invalid';
      readonly column: string;
      readonly validValues: readonly ScalarValue[] | null;
      readonly pattern: string | null;
    }
  /** Rows beyond the first of each value; a NULL in any column makes a row unlike all others, as UNIQUE has it. */
  | { readonly kind: 'duplicate'; readonly columns: readonly string[] };

export type SqlDialect = 'duckdb' | 'postgres';

/** The count as one SELECT. */
export function countSql(request: CountRequest, relation: string, dialect: SqlDialect): string {
  switch (request.kind) {
    case 'rows':
      return `SELECT count(*) FROM ${relation}`;
    case 'null':
      return `SELECT count(*) FROM ${relation} WHERE ${name(request.column)} IS NULL`;
    case 'missing':
      return `SELECT count(*) FROM ${relation} WHERE ${missing(request.column, request.values)}`;
    case 'invalid':
      return `SELECT count(*) FROM ${relation} WHERE ${invalid(request, dialect)}`;
    case 'duplicate': {
      const list = request.columns.map(name).join(', ');
      const present = request.columns.map((column) => `${name(column)} IS NOT NULL`).join(' AND ');
      return `SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM ${relation} WHERE ${present} GROUP BY ${list}) AS groups`;
    }
  }
}

function missing(column: string, values: readonly ScalarValue[]): string {
  const texts = values.filter((value) => value !== null).map(literal);
  const parts = [
    ...(values.includes(null) ? [`${name(column)} IS NULL`] : []),
    ...(texts.length > 0 ? [`CAST(${name(column)} AS VARCHAR) IN (${texts.join(', ')})`] : []),
  ];
  return parts.length === 0 ? 'FALSE' : parts.join(' OR ');
}

function invalid(request: Extract<CountRequest, { kind: 'invalid' }>, dialect: SqlDialect): string {
  const column = name(request.column);
  const text = `CAST(${column} AS VARCHAR)`;
  const parts: string[] = [];
  if (request.validValues !== null) {
    const numbers = request.validValues.every((value) => typeof value === 'number' || typeof value === 'bigint');
    const list = request.validValues.map((value) => (numbers ? String(value) : literal(value))).join(', ');
    parts.push(`${numbers ? column : text} NOT IN (${list})`);
  }
  if (request.pattern !== null)
    parts.push(
      dialect === 'duckdb'
        ? `NOT regexp_matches(${text}, ${literal(request.pattern)})`
        : `${text} !~ ${literal(request.pattern)}`,
    );
  return parts.length === 0 ? 'FALSE' : `${column} IS NOT NULL AND (${parts.join(' OR ')})`;
}

function name(column: string): string {
  return `"${column.replaceAll('"', '""')}"`;
}

function literal(value: ScalarValue): string {
  return `'${String(value).replaceAll("'", "''")}'`;
}
