/**
 * DuckDB, as one in-memory session (the only importer of its driver). Set up by us, then sealed: no other files than the
 * given folders, no extension, no setting can be changed any more.
 */
import type * as DuckDb from '@duckdb/node-api';
import type { DuckDBConnection, Json } from '@duckdb/node-api';
import { SqlError } from './sql-error.ts';

export interface ResultColumn {
  readonly name: string;
  /** As DuckDB prints it: `BIGINT`, `DECIMAL(12,2)`, `STRUCT(a INTEGER)[]`, … */
  readonly type: string;
}

export interface SqlResult {
  readonly columns: readonly ResultColumn[];
  /**
   * Rows, some thousand at a time. 64-bit integers and decimals are text with all their digits, dates and times too;
   * smaller integers and floats are numbers, NaN and infinities text.
   */
  readonly rows: AsyncIterable<readonly (readonly Json[])[]>;
}

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
  async function* rows(): AsyncGenerator<readonly (readonly Json[])[]> {
    for (;;) {
      const chunk = await guarded(() => result.fetchChunk());
      if (chunk === null || chunk.rowCount === 0) return;
      yield chunk.convertRows(engine.JsonDuckDBValueConverter);
    }
  }
  return { columns, rows: rows() };
}

async function guarded<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new SqlError('SQL_INVALID', message, { cause: error });
  }
}
