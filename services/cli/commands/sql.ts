import { appendFileSync, closeSync, existsSync, openSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { Option } from 'commander';
import { quoteName, type SqlResult } from '../../../lakehouse/read/duckdb.ts';
import { SqlError } from '../../../lakehouse/read/sql-error.ts';
import { runSql, type SqlRun } from '../../../lakehouse/read/sql.ts';
import type { TableName } from '../../../lakehouse/read/sql-statement.ts';
import type { Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { parseSize } from '../../runtime/duration.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { writeCsv, writeJson, writeTable } from '../sql-output.ts';
import { openTablePlace, openToRead } from '../table-place.ts';
import type { Write } from '../text-pieces.ts';

interface Flags {
  readonly config?: string;
  readonly format?: 'table' | 'csv' | 'json' | 'parquet';
  readonly json?: boolean;
  readonly output?: string;
  readonly at?: string;
  readonly table: readonly string[];
  readonly memory?: string;
}

/** `sluice sql "select …"`: one SELECT over the lake's tables, or over any Delta tables. */
export const sqlCommand: CommandModule = (program, context) => {
  withConfig(program.command('sql'))
    .description('run one SELECT over tables of the lake (SCHEMA.TABLE), or over any Delta table')
    .argument('<query>', 'a SELECT; reads only, and only the tables that it names')
    .addOption(new Option('-f, --format <format>', 'how to print').choices(['table', 'csv', 'json', 'parquet']))
    .option('--json', 'the same as --format json')
    .option('-o, --output <file>', 'write there instead of to stdout (parquet needs it)')
    .option('--at <version|time>', 'the tables as of a version, or as of a time')
    .option('--memory <size>', 'what the query may take, default 384MB')
    .option('-t, --table <name=uri>', 'give the Delta table at a path or URI a name; may be repeated', collect, [])
    .addHelpText(
      'after',
      '\nIn JSON a 64-bit integer or decimal is a number where a double holds it exactly, else a string of all its digits.',
    )
    .action(
      context.run(async (query: string, flags: Flags) => {
        try {
          return await sql(query, flags, context);
        } catch (error) {
          throw error instanceof SqlError ? explained(error) : error;
        }
      }),
    );
};

function explained(error: SqlError): SluiceError {
  const remedy =
    error.code === 'SQL_INVALID'
      ? "write one SELECT, in DuckDB's dialect, over SCHEMA.TABLE or the names given with --table"
      : 'name fewer columns, filter by a column that cuts files off, or give it more memory: --memory 2GB';
  const exit = error.code === 'SQL_INVALID' ? ExitCode.usage : ExitCode.findings;
  return new SluiceError(error.code, error.message.trimEnd(), { exit, remedy, cause: error });
}

/** As DuckDB takes it. */
function memoryOf(text: string): string {
  const bytes = parseSize(text);
  if (bytes === null || bytes === 0) throw new ConfigError(`--memory ${text} is no size`, 'write for example 2GB');
  return `${bytes}B`;
}

const collect = (value: string, before: readonly string[]): readonly string[] => [...before, value];

async function sql(query: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const format = flags.json === true ? 'json' : (flags.format ?? 'table');
  if (flags.json === true && flags.format !== undefined && flags.format !== 'json')
    throw new ConfigError(`--json and --format ${flags.format} say two things`, 'give one of the two');
  const output = flags.output === undefined ? null : resolve(context.cwd, flags.output);
  if (format === 'parquet' && output === null)
    throw new ConfigError('parquet is not for a terminal', 'name a file with --output');
  if (output !== null && !existsSync(dirname(output))) throw cannotWrite(output, 'its folder does not exist');
  const named = namedTables(flags.table);
  const open = (table: TableName): Promise<Snapshot> => snapshotOf(table, named, flags, context);
  const memory = flags.memory === undefined ? null : memoryOf(flags.memory);
  await runSql(query, { resolve: open, ...(memory === null ? {} : { memory }) }, async (run) => {
    if (format === 'parquet' && output !== null) await copyOut(await run.parquet(), output);
    else if (output === null) await print(await run.rows(), format, context.write);
    else await printTo(output, run, format);
  });
  return ExitCode.clean;
}

async function printTo(path: string, run: SqlRun, format: string): Promise<void> {
  // The query starts before the file is touched: a refused one leaves what stands there.
  const result = await run.rows();
  const file = openOut(path);
  try {
    await print(result, format, (text) => appendFileSync(file, text));
  } finally {
    closeSync(file);
  }
}

function openOut(path: string): number {
  try {
    return openSync(path, 'w');
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

async function copyOut(from: string, to: string): Promise<void> {
  try {
    await copyFile(from, to);
  } catch (error) {
    throw cannotWrite(to, error);
  }
}

function cannotWrite(path: string, why: unknown): ConfigError {
  const reason = why instanceof Error && 'code' in why ? String(why.code) : String(why);
  return new ConfigError(`cannot write ${path}: ${reason}`, 'name a file in a folder that you may write to');
}

async function print(result: SqlResult, format: string, write: Write): Promise<void> {
  if (format === 'json') return writeJson(result, write);
  return format === 'csv' ? writeCsv(result, write) : writeTable(result, write);
}

/** Lower-case name, with its schema if it has one, to path or URI. */
function namedTables(flags: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    flags.map((flag) => {
      const equals = flag.indexOf('=');
      if (equals < 1 || equals === flag.length - 1)
        throw new ConfigError(`--table ${flag} is not NAME=URI`, 'write --table orders=./lake/public/orders');
      return [flag.slice(0, equals).toLowerCase(), flag.slice(equals + 1)];
    }),
  );
}

async function snapshotOf(
  table: TableName,
  named: ReadonlyMap<string, string>,
  flags: Flags,
  context: CliContext,
): Promise<Snapshot> {
  const full = table.schema === null ? table.name : `${table.schema}.${table.name}`;
  const given = named.get(full.toLowerCase());
  const config = flags.config === undefined ? {} : { config: flags.config };
  // A path without a slash would be read as a table's name.
  const lakeName = table.schema === null ? table.name : `${quoteName(table.schema)}.${quoteName(table.name)}`;
  const place = given === undefined ? lakeName : /[/\\:]/.test(given) ? given : `./${given}`;
  const store = openTablePlace(
    context,
    given === undefined || /^[a-z0-9+.-]+:/i.test(place) ? place : resolve(context.cwd, place),
    config,
  );
  return openToRead(context, store, flags.at);
}
