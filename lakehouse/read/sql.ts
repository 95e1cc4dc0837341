/**
 * One SELECT over versions of Delta tables. Only the tables that it names are opened; DuckDB reads their files and nothing
 * else, and can change nothing.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Snapshot } from '../table/snapshot.ts';
import { openDuckDb, quoteName, quoteText, type DuckDbSession, type SqlResult } from './duckdb.ts';
import { parseSelect, type TableName } from './sql-statement.ts';
import { conditionsOf } from './query-needs.ts';
import type { Condition } from './skip-files.ts';
import { SqlError } from './sql-error.ts';
import { blamedFile, createEmptyView, createView, foldersOf, type DiskBudget } from './sql-view.ts';

export interface SqlOptions {
  /** The version to read of a table that the query names. @throws what the query should fail with */
  readonly resolve: (table: TableName) => Promise<Snapshot>;
  /** Local disk for fetched and converted files, bytes; default 4 GB. */
  readonly diskBytesMax?: number;
  /** DuckDB's memory, e.g. `384MB`. */
  readonly memory?: string;
  readonly threads?: number;
  /** Parent of the session's folder, which is removed in the end; default the system's. */
  readonly temporaryFolder?: string;
}

const DISK_BYTES_MAX = 4_000_000_000;

export interface SqlRun {
  readonly rows: () => Promise<SqlResult>;
  /** Writes the result to a Parquet file inside the session's folder and returns its path. */
  readonly parquet: () => Promise<string>;
}

/**
 * Prepares the query and hands it to `use`; everything of the session is gone when `use` ends.
 * @throws SqlError SQL_INVALID | SQL_TOO_LARGE; whatever `resolve` throws; TableError, which names table, version and file;
 * StoreError
 */
export async function runSql<T>(sql: string, options: SqlOptions, use: (run: SqlRun) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(options.temporaryFolder ?? tmpdir(), 'sluice-sql-'));
  try {
    const spillFolder = join(folder, 'spill');
    const filesFolder = join(folder, 'files');
    await Promise.all([mkdir(spillFolder), mkdir(filesFolder)]);
    const session = await openDuckDb({
      memory: options.memory ?? '384MB',
      threads: options.threads ?? 2,
      spillFolder,
    });
    const budget: DiskBudget = {
      folder: filesFolder,
      bytesLeft: options.diskBytesMax ?? DISK_BYTES_MAX,
      files: new Map(),
    };
    try {
      const statement = await parseSelect(session, sql);
      await session.run('CREATE SCHEMA _sluice');
      const folders = new Set([folder]);
      const views: { readonly view: string; readonly snapshot: Snapshot; readonly where: readonly Condition[] }[] = [];
      for (const table of statement.tables) {
        const snapshot = await options.resolve(table);
        if (table.schema !== null) await session.run(`CREATE SCHEMA IF NOT EXISTS ${quoteName(table.schema)}`);
        const view = [...(table.schema === null ? [] : [table.schema]), table.name].map(quoteName).join('.');
        views.push({ view, snapshot, where: conditionsOf(snapshot.schema, statement.testsOf(table)) });
        await createEmptyView(session, view, snapshot);
      }
      for (const { snapshot } of views) for (const read of foldersOf(snapshot)) folders.add(read);
      await session.seal([...folders]);
      // What the query gets wrong is told before a file is fetched.
      await session.check(statement.text);
      const prepare = async (columns: ReadonlySet<string> | null): Promise<void> => {
        for (const [id, { view, snapshot, where }] of views.entries())
          await createView(session, view, snapshot, { id, budget, columns, where });
      };
      await prepare(statement.columns);
      if (statement.columns !== null)
        await session.check(statement.text).catch(async (error: unknown) => {
          // It names columns in a way that we did not see.
          if (!(error instanceof SqlError)) throw error;
          await prepare(null);
        });
      return await use({
        rows: () => session.query(statement.text),
        parquet: async () => {
          const path = join(filesFolder, 'result.parquet');
          const query = await withExactTypes(session, statement.text);
          await session.run(`COPY (${query}) TO ${quoteText(path)} (FORMAT parquet, COMPRESSION zstd)`);
          return path;
        },
      });
    } catch (error) {
      throw blamedFile(error, budget);
    } finally {
      session.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A sum of integers is of 128 bits, which DuckDB would write to Parquet as doubles: as decimals of 38 digits they are exact. */
async function withExactTypes(session: DuckDbSession, query: string): Promise<string> {
  const columns: { readonly name: string; readonly type: string }[] = [];
  for await (const rows of (await session.query(`DESCRIBE ${query}`)).rows)
    for (const [name, type] of rows)
      if (typeof name === 'string' && typeof type === 'string') columns.push({ name, type });
  const exact = columns.map(({ type }) =>
    type.replace(/"(?:[^"]|"")*"|\bU?HUGEINT(?=[,)[]|$)/g, (word) => (word.startsWith('"') ? word : 'DECIMAL(38,0)')),
  );
  if (exact.every((type, i) => type === columns[i]?.type)) return query;
  const aliases = columns.map((_, i) => `c${i}`);
  const cast = columns.map(({ name }, i) => `CAST(c${i} AS ${exact[i] ?? ''}) AS ${quoteName(name)}`);
  return `SELECT ${cast.join(', ')} FROM (${query}) AS r(${aliases.join(', ')})`;
}
