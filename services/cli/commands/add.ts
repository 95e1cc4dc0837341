import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { findTable } from '../../reader/catalog.ts';
import { exactGlob, matchesGlobs } from '../../reader/table-globs.ts';
import {
  addTablesSql,
  alterPublication,
  dropTableSql,
  findPublication,
  missingTables,
} from '../../reader/publication.ts';
import { ReaderError } from '../../reader/reader-error.ts';
import { sqlstateOf } from '../../reader/server-error.ts';
import type { SourceSession } from '../../reader/source.ts';
import { refusalOf } from '../../reader/table-selection.ts';
import type { Config } from '../../runtime/config.ts';
import { changeTables } from '../../runtime/config-tables.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import type { TableChange } from '../control-tables.ts';
import { describeCost, readCost } from '../read-cost.ts';
import { callService, nobodyServes } from '../service-client.ts';
import { parseTableName, writeTableName, type TableName } from '../table-name.ts';

interface Flags {
  readonly config?: string;
  readonly url?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

type What = 'add' | 'remove';

/** `sluice add TABLE…`: follows tables that the pipeline does not follow yet, while the others go on. */
export const addCommand: CommandModule = (program, context) => {
  register(program, context, 'add', 'follow tables: publish, read and keep them, while the others go on');
};

/** `sluice remove TABLE…`: lets go of tables; what the lake has of them stays. */
export const removeCommand: CommandModule = (program, context) => {
  register(program, context, 'remove', 'let go of tables, while the others go on; what the lake has of them stays');
};

function register(program: Command, context: CliContext, what: What, description: string): void {
  withConfig(program.command(what))
    .description(description)
    .argument('<tables...>', 'SCHEMA.TABLE')
    .option('--dry-run', 'say what it would do and read, and do nothing')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(context.run(async (tables: string[], flags: Flags) => change(what, tables, flags, context)));
}

async function change(what: What, names: readonly string[], flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const tables = names.map(parseTableName);
  const ids = tables.map(({ schema, table }) => `${schema}.${table}`);
  const source = await openSource(config, () => context.loadConfig(flags.config));
  const session = await source.session(what);
  try {
    if (what === 'add') for (const table of tables) await requireTakeable(session, table);
    if (flags.dryRun === true) {
      const cost = what === 'add' ? await readCost(source, config, tables) : null;
      const does = cost === null ? 'would let go of' : 'would follow';
      context.out(
        flags.json === true
          ? `${JSON.stringify({ schemaVersion: 1, dryRun: true, tables: ids, estimate: cost })}\n`
          : `${does} ${ids.join(', ')}${cost === null ? '' : `: ${describeCost(cost)}`}; nothing was done\n`,
      );
      return ExitCode.clean;
    }
    const served = await askService(what, tables.map(writeTableName), config, flags.url);
    const changes = served ?? (await changePublication(session, config, what, tables));
    const file = editConfig(what, tables, flags, context);
    if (flags.json === true)
      context.out(
        `${JSON.stringify({ schemaVersion: 1, served: served !== null, configuration: file, tables: changes })}\n`,
      );
    else {
      for (const line of changes) context.out(describe(what, line, served !== null));
      context.out(`${file.said}\n`);
    }
    // A table that could not be published is not followed.
    return what === 'add' && changes.some(({ sql }) => sql !== null) ? ExitCode.findings : ExitCode.clean;
  } finally {
    await session.close();
  }
}

async function requireTakeable(session: SourceSession, { schema, table }: TableName): Promise<void> {
  const found = await findTable(session, schema, table);
  if (found === null)
    throw new SluiceError('SOURCE_TABLE_MISSING', `the source has no table ${schema}.${table}`, {
      exit: ExitCode.usage,
      remedy: 'check the name: SCHEMA.TABLE, as PostgreSQL spells it',
    });
  const refusal = refusalOf(found);
  if (refusal !== null) throw refusal;
}

/** Null where no service runs. */
async function askService(
  what: What,
  tables: readonly string[],
  config: Config,
  url: string | undefined,
): Promise<readonly TableChange[] | null> {
  const ask = <T>(half: 'reader' | 'stream', name: string): Promise<T> =>
    callService<T>(config, { path: `/control/${name}`, body: { tables }, url, half, timeoutMs: 120_000 });
  try {
    if (what === 'remove') await ask('stream', 'let-go');
    const { changes } = await ask<{ changes: TableChange[] }>('reader', `${what}-tables`);
    if (what === 'add') await ask('stream', 'take-up');
    return changes;
  } catch (error) {
    if (nobodyServes(error) && url === undefined) return null;
    throw error;
  }
}

/** Without a service the publication is altered from here, where the role may; the rest is the next start's. */
async function changePublication(
  session: SourceSession,
  config: Config,
  what: What,
  tables: readonly TableName[],
): Promise<readonly TableChange[]> {
  const name = config.source.publication;
  const publication = await findPublication(session, name);
  const changes: TableChange[] = [];
  for (const table of tables) {
    const id = `${table.schema}.${table.table}`;
    const isIn = publication !== null && missingTables(publication, [table]).length === 0;
    const due = publication !== null && !publication.allTables && isIn === (what === 'remove');
    const sql = what === 'add' ? addTablesSql(name, [table]) : dropTableSql(name, table);
    const why = due ? await refusalOfAlter(session, sql) : null;
    changes.push({ table: id, sql: why === null ? null : `${sql};`, why });
  }
  return changes;
}

/** Null where it was done; else why this role may not. What gives way in a deadlock again and again is no want of a right. */
export async function refusalOfAlter(session: SourceSession, sql: string): Promise<string | null> {
  try {
    await alterPublication(session, sql);
    return null;
  } catch (error) {
    if (!(error instanceof ReaderError) || sqlstateOf(error) === null || error.retriable) throw error;
    return error.message;
  }
}

interface Edited {
  readonly changed: boolean;
  readonly said: string;
}

function editConfig(what: What, tables: readonly TableName[], flags: Flags, context: CliContext): Edited {
  const file = flags.config ?? 'sluice.yaml';
  const path = resolve(context.cwd, file);
  const byGlob = new Map(tables.map((table) => [exactGlob(table), table]));
  const globs = [...byGlob.keys()];
  const list = globs.map((glob) => (what === 'add' ? glob : `!${glob}`)).join(', ');
  const byHand = { changed: false, said: `put into source.tables, for the next start: ${list}` };
  // The variable wins over the file, and another process's environment cannot be changed from here.
  if (context.env['SLUICE_SOURCE_TABLES'] !== undefined || !existsSync(path)) return byHand;
  const text = readFileSync(path, 'utf8');
  const wants = (list: readonly string[], glob: string): boolean => {
    const table = byGlob.get(glob);
    return table !== undefined && matchesGlobs(list, table.schema, table.table);
  };
  let edited: string;
  try {
    const change = { add: what === 'add' ? globs : [], remove: what === 'remove' ? globs : [] };
    edited = changeTables(text, file, change, wants);
    if (edited !== text) writeFileSync(path, edited);
  } catch (error) {
    if (error instanceof ConfigError) return byHand;
    return { changed: false, said: `${file} cannot be written; ${byHand.said}` };
  }
  return edited === text
    ? { changed: false, said: `source.tables in ${file} says so already` }
    : { changed: true, said: `source.tables in ${file} was changed accordingly` };
}

function describe(what: What, { table, sql, why }: TableChange, served: boolean): string {
  if (sql !== null && what === 'add')
    return `${table} cannot be published by this role: ${why ?? ''}\n  as its owner: ${sql}\n`;
  const owner = sql === null ? '' : `\n  it stays in the publication; as its owner: ${sql}`;
  if (what === 'remove') return `${table} is let go; what the lake has of it stays${owner}\n`;
  return served ? `${table} is followed, and is being read\n` : `${table} is published; the next start reads it\n`;
}
