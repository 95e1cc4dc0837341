/**
 * DuckDB, as one in-memory session (the only importer of its driver). Set up by us, then sealed: no other files than the
 * given folders, no extension, no setting can be changed any more.
 */
import type * as DuckDb from '@duckdb/node-api';
import type { DuckDBConnection, DuckDBValueConverter } from '@duckdb/node-api';
import { ExactNumber } from '../table/lossless-json.ts';
import { SqlError } from './sql-error.ts';

export interface ResultColumn {
  readonly name: string;
  /** As DuckDB prints it: `BIGINT`, `DECIMAL(12,2)`, `STRUCT(a INTEGER)[]`, … */
  readonly type: string;
}

export interface SqlResult {
  readonly columns: readonly ResultColumn[];
  /**
   * Rows, some thousand at a time. 64-bit integers and decimals are text with all their digits (an ExactNumber inside lists,
   * maps and structs), dates and times too; smaller integers and floats are numbers, NaN and infinities text. A 32-bit float
   * is the double of the fewest digits that give it back.
   */
  readonly rows: AsyncIterable<readonly (readonly SqlCell[])[]>;
}

export type SqlCell =
  | null
  | boolean
  | number
  | string
  | ExactNumber
  | readonly SqlCell[]
  | { readonly [name: string]: SqlCell };

export interface DuckDbSession {
  run(sql: string): Promise<void>;
  query(sql: string): Promise<SqlResult>;
  /** Whether the query is one over the views as they are; reads no row. @throws SqlError SQL_INVALID */
  check(sql: string): Promise<void>;
  /** One text cell, `?` in `sql` being `argument`. */
  text(sql: string, argument: string): Promise<string>;
  /** Appends (file, row) pairs to a table of two BIGINT columns. */
  appendRows(schema: string, table: string, file: number, rows: Uint32Array): Promise<void>;
  /** From here on only these folders can be reached. */
  seal(folders: readonly string[]): Promise<void>;
  close(): void;
}

export interface SessionLimits {
  /** As DuckDB writes sizes, e.g. `512MB`. */
  readonly memory: string;
  readonly threads: number;
  /** Folder for what does not fit into memory. */
  readonly spillFolder: string;
}

type Engine = typeof DuckDb;

/** A sixth of a second: only for those who ask something. */
function loadEngine(): Promise<Engine> {
  return import('@duckdb/node-api');
}

export async function openDuckDb(limits: SessionLimits): Promise<DuckDbSession> {
  const engine = await loadEngine();
  const instance = await engine.DuckDBInstance.create(':memory:', {
    memory_limit: limits.memory,
    threads: String(limits.threads),
    temp_directory: limits.spillFolder,
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  });
  const connection = await instance.connect();
  const run = async (sql: string): Promise<void> => {
    await guarded(() => connection.run(sql));
  };
  await run("SET TimeZone = 'UTC'");
  return {
    run,
    query: (sql) => query(engine, connection, sql),
    check: async (sql) => {
      (await guarded(() => connection.prepare(sql))).destroySync();
    },
    text: async (sql, argument) => {
      const reader = await guarded(() => connection.runAndReadAll(sql, [argument], [engine.VARCHAR]));
      return String(reader.getRows()[0]?.[0] ?? '');
    },
    appendRows: async (schema, table, file, rows) => {
      const appender = await connection.createAppender(table, schema);
      for (const row of rows) {
        appender.appendBigInt(BigInt(file));
        appender.appendBigInt(BigInt(row));
        appender.endRow();
      }
      appender.closeSync();
    },
    seal: async (folders) => {
      await run(`SET allowed_directories = [${folders.map(quoteText).join(', ')}]`);
      await run('SET enable_external_access = false');
      await run('SET lock_configuration = true');
    },
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

export const quoteText = (text: string): string => `'${text.replaceAll("'", "''")}'`;
export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

async function query(engine: Engine, connection: DuckDBConnection, sql: string): Promise<SqlResult> {
  const result = await guarded(() => connection.stream(sql));
  const types = result.columnTypes();
  const columns = result.columnNames().map((name, i) => ({ name, type: String(types[i]) }));
  const toCell = cellConverter(engine);
  async function* rows(): AsyncGenerator<readonly (readonly SqlCell[])[]> {
    for (;;) {
      const chunk = await guarded(() => result.fetchChunk());
      if (chunk === null || chunk.rowCount === 0) return;
      yield chunk.convertRows(toCell);
    }
  }
  return { columns, rows: rows() };
}

function cellConverter({ DuckDBTypeId, JsonDuckDBValueConverter }: Engine): DuckDBValueConverter<SqlCell> {
  const { BIGINT, UBIGINT, HUGEINT, UHUGEINT, BIGNUM, DECIMAL, FLOAT } = DuckDBTypeId;
  const exact: ReadonlySet<number> = new Set([BIGINT, UBIGINT, HUGEINT, UHUGEINT, BIGNUM, DECIMAL]);
  const json = JsonDuckDBValueConverter as DuckDBValueConverter<SqlCell>;
  const inner: DuckDBValueConverter<SqlCell> = (value, type) => {
    if (value !== null && exact.has(type.typeId)) return new ExactNumber(String(value));
    return outer(value, type, inner);
  };
  const outer: DuckDBValueConverter<SqlCell> = (value, type) =>
    type.typeId === FLOAT && Number.isFinite(value) ? shortest(Number(value)) : json(value, type, inner);
  return outer;
}

function shortest(value: number): number {
  if (Number.isInteger(value)) return value;
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

const OUT_OF_MEMORY = 'Out of Memory Error';

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    // What DuckDB advises behind the first line is by settings that are sealed here.
    if (message.startsWith(OUT_OF_MEMORY))
      throw new SqlError('SQL_TOO_LARGE', message.split('\n', 1)[0] ?? message, { cause: error });
    throw new SqlError('SQL_INVALID', message, { cause: error });
  }
}
