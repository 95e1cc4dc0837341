import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inferContract, contractFileName } from '../../../contracts/engine/infer.ts';
import { grantsSql, type ServerKind } from '../../../ops/sql/grants.ts';
import { listTables, matchesGlobs } from '../../reader/catalog.ts';
import { findPublication } from '../../reader/publication.ts';
import type { SourceSession } from '../../reader/source.ts';
import { parseConfig } from '../../runtime/config.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import type { CliContext, CommandModule } from '../command.ts';
import { catalogTable } from '../contracts/live-catalog.ts';

interface Flags {
  readonly postgres: string;
  readonly lake: string;
  readonly name: string;
  readonly tables: string;
  readonly dir: string;
  readonly role: string;
  readonly force?: boolean;
}

/** `sluice init`: sluice.yaml, grants.sql for the server it finds, and a contract a table. Overwrites nothing without --force. */
export const initCommand: CommandModule = (program, context) => {
  program
    .command('init')
    .description('write sluice.yaml, grants.sql and contracts for a database')
    .requiredOption('--postgres <url>', 'the database; the password goes into the environment, not into the file')
    .requiredOption('--lake <uri>', 'a path, file:///… or s3://bucket/prefix')
    .option('--name <name>', 'pipeline name', 'sluice')
    .option('--tables <globs>', 'globs on schema.table, with commas between', 'public.*')
    .option('--role <role>', 'role that grants.sql makes', 'sluice')
    .option('--dir <folder>', 'where to write', '.')
    .option('--force', 'overwrite files that stand there')
    .action(context.run(async (flags: Flags) => init(flags, context)));
};

async function init(flags: Flags, context: CliContext): Promise<ExitCode> {
  const folder = resolve(context.cwd, flags.dir);
  const tables = flags.tables.split(',').map((glob) => glob.trim());
  const yaml = configText(flags, tables);
  const config = parseConfig({
    text: yaml,
    file: 'sluice.yaml',
    env: { ...context.env, PGURL: flags.postgres },
    readFile: () => '',
  });
  const session = await (await openSource(config, () => config)).session('init');
  try {
    const found = (await listTables(session)).filter((table) => matchesGlobs(tables, table.schema, table.table));
    if (found.length === 0)
      throw new ConfigError(`no table matches ${flags.tables}`, 'correct --tables: globs on schema.table');
    const server = await serverKind(session);
    const [row] = await session.query('select current_database() as name');
    write(context, flags, join(folder, 'sluice.yaml'), yaml);
    write(
      context,
      flags,
      join(folder, 'grants.sql'),
      grantsSql({
        server,
        database: row?.['name'] ?? '',
        role: flags.role,
        publication: config.source.publication,
        slot: config.source.slot,
        tables: found.map(({ schema, table }) => ({ schema, table })),
        wholeSchemas: tables.filter((glob) => /^[^*?!]+\.\*$/.test(glob)).map((glob) => glob.slice(0, -2)),
        major: Math.floor(session.serverVersion / 10_000),
      }),
    );
    mkdirSync(join(folder, 'contracts'), { recursive: true });
    const publication = await findPublication(session, config.source.publication);
    for (const table of found) {
      const shape = await catalogTable(session, table, publication);
      const { text, notes } = inferContract(shape, { name: flags.name });
      write(context, flags, join(folder, 'contracts', contractFileName(shape)), text);
      for (const note of notes)
        context.out(
          `  look at ${table.schema}.${table.table}${note.column === null ? '' : `.${note.column}`}: ${note.message}\n`,
        );
    }
    context.out(
      `found ${server === 'plain' ? 'a plain PostgreSQL' : server} ${Math.floor(session.serverVersion / 10_000)} with ${found.length} tables\n`,
    );
    context.out("next: have the tables' owner run grants.sql, export PGURL, then `sluice doctor` and `sluice run`\n");
    return ExitCode.clean;
  } finally {
    await session.close();
  }
}

function configText(flags: Flags, tables: readonly string[]): string {
  return `name: ${JSON.stringify(flags.name)}
source:
  postgres: \${PGURL}               # export PGURL=postgres://${flags.role}:…@host:5432/database
  tables: [${tables.map((glob) => JSON.stringify(glob)).join(', ')}]
log:
  kind: embedded                  # or kafka, with brokers: ["host:9092"]
contracts: ./contracts
lake:
  uri: ${JSON.stringify(flags.lake)}
`;
}

function write(context: CliContext, flags: Flags, path: string, text: string): void {
  if (existsSync(path) && flags.force !== true) {
    context.out(`kept  ${path} (it stands there; --force overwrites it)\n`);
    return;
  }
  writeFileSync(path, text);
  context.out(`wrote ${path}\n`);
}

/** Which provider runs this server, by roles and settings that only it has. */
async function serverKind(session: SourceSession): Promise<ServerKind> {
  const [row] = await session.query(`
select case
  when exists (select from pg_roles where rolname = 'rds_superuser') then 'rds'
  when exists (select from pg_roles where rolname = 'cloudsqlsuperuser') then 'cloud-sql'
  when exists (select from pg_roles where rolname = 'azure_pg_admin') then 'azure'
  when exists (select from pg_roles where rolname = 'supabase_admin') then 'supabase'
  when exists (select from pg_roles where rolname = 'neon_superuser') then 'neon'
  else 'plain' end as kind`);
  return (row?.['kind'] ?? 'plain') as ServerKind;
}
