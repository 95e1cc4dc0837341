import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { CatalogTable } from '../../../contracts/engine/catalog.ts';
import { inferContract, contractFileName, type InferResult } from '../../../contracts/engine/infer.ts';
import { grantsSql, type ServerKind } from '../../../ops/sql/grants.ts';
import { listTables, type SourceTable } from '../../reader/catalog.ts';
import { exactGlob, matchesGlobs, schemaGlob } from '../../reader/table-globs.ts';
import { findPublication } from '../../reader/publication.ts';
import type { SourceSession } from '../../reader/source.ts';
import { select } from '../../reader/table-selection.ts';
import { parseConfig } from '../../runtime/config.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import type { CliContext, CommandModule } from '../command.ts';
import { columnFault, noColumns } from '../column-names.ts';
import { catalogTable } from '../contracts/live-catalog.ts';

interface Flags {
  readonly postgres: string;
  readonly lake: string;
  readonly name: string;
  readonly tables?: string;
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
    .option('--tables <globs>', 'globs on schema.table, with commas between (default: every schema that has tables)')
    .option('--role <role>', 'role that grants.sql makes', 'sluice')
    .option('--dir <folder>', 'where to write', '.')
    .option('--force', 'overwrite files that stand there')
    .action(context.run(async (flags: Flags) => init(flags, context)));
};

async function init(flags: Flags, context: CliContext): Promise<ExitCode> {
  const folder = resolve(context.cwd, flags.dir);
  const wanted = flags.tables?.split(',').map((glob) => glob.trim()) ?? null;
  const config = parseConfig({
    text: configText(
      flags,
      (wanted ?? ['*']).map((glob) => ({ glob, why: null })),
    ),
    file: 'sluice.yaml',
    env: { ...context.env, PGURL: flags.postgres },
    readFile: () => '',
  });
  const session = await (await openSource(config, () => config)).session('init');
  try {
    const all = await listTables(session);
    const globs = wanted ?? [...new Set(all.map(({ schema }) => schemaGlob(schema)))];
    const found = all.filter((table) => matchesGlobs(globs, table.schema, table.table));
    if (found.length === 0)
      throw new ConfigError(
        wanted === null ? 'the database has no tables that this role may see' : `no table matches ${flags.tables}`,
        'correct --postgres (is it the right database?) or --tables: globs on schema.table',
      );
    const { taken, left } = await sort(session, found, config.source.publication, flags.name);
    if (taken.length === 0)
      throw new ConfigError(
        `none of ${found.length} tables can be followed: ${left.map(({ table, message }) => `${label(table)}: ${message}`).join('; ')}`,
        left[0]?.remedy ?? '',
      );
    const server = await serverKind(session);
    const [row] = await session.query('select current_database() as name');
    mkdirSync(folder, { recursive: true });
    const yaml = configText(flags, [
      ...globs.map((glob) => ({ glob, why: null })),
      ...left.map(({ table, message }) => ({ glob: `!${exactGlob(table)}`, why: message })),
    ]);
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
        tables: taken.map(({ schema, table, partitions }) => ({ schema, table, partitions })),
        wholeSchemas: wholeSchemas(globs, left),
        major: Math.floor(session.serverVersion / 10_000),
      }),
    );
    mkdirSync(join(folder, 'contracts'), { recursive: true });
    for (const { contract, shape } of taken) {
      write(context, flags, join(folder, 'contracts', contractFileName(shape)), contract.text);
      for (const note of contract.notes)
        context.out(`  look at ${label(shape)}${note.column === null ? '' : `.${note.column}`}: ${note.message}\n`);
    }
    for (const { table, message, remedy } of left)
      context.out(`warning ${label(table)} is left out: ${message}\n        fix: ${remedy}\n`);
    context.out(
      `found ${server === 'plain' ? 'a plain PostgreSQL' : server} ${Math.floor(session.serverVersion / 10_000)} with ${found.length} tables${left.length === 0 ? '' : `, ${left.length} of them left out: take the line of one out of sluice.yaml when it is mended`}\n`,
    );
    context.out("next: have the tables' owner run grants.sql, export PGURL, then `sluice doctor` and `sluice run`\n");
    return ExitCode.clean;
  } finally {
    await session.close();
  }
}

interface Taken {
  readonly schema: string;
  readonly table: string;
  readonly partitions: SourceTable['heaps'];
  readonly shape: CatalogTable;
  readonly contract: InferResult;
}

interface Left {
  readonly table: { readonly schema: string; readonly table: string };
  readonly message: string;
  readonly remedy: string;
}

/** Those that can be followed, each with its contract; and the others, each with its fix. One of them never hides the rest. */
async function sort(
  session: SourceSession,
  found: readonly SourceTable[],
  publicationName: string,
  name: string,
): Promise<{ readonly taken: readonly Taken[]; readonly left: readonly Left[] }> {
  const publication = await findPublication(session, publicationName);
  const { taken: followed, refused } = select(found, 'embedded');
  const left: Left[] = refused.map(({ schema, table, error }) => ({
    table: { schema, table },
    message: error.message,
    remedy: error.remedy,
  }));
  const taken: Taken[] = [];
  for (const each of followed) {
    const { schema, table } = each;
    const shape = await catalogTable(session, each, publication);
    const names = shape.columns.map((column) => column.name);
    const fault = names.length === 0 ? noColumns(shape) : columnFault(shape, names);
    if (fault !== null) left.push({ table: { schema, table }, ...fault });
    else {
      const partitions = each.relkind === 'p' ? each.heaps : [];
      taken.push({ schema, table, partitions, shape, contract: inferContract(shape, { name }) });
    }
  }
  return { taken, left };
}

const label = ({ schema, table }: { readonly schema: string; readonly table: string }): string => `${schema}.${table}`;

/** The publication of a whole schema would take a table without key, too, and its owner could not update it any more. */
function wholeSchemas(globs: readonly string[], left: readonly Left[]): readonly string[] {
  return globs
    .filter((glob) => /^[^*?!\\]+\.\*$/.test(glob))
    .map((glob) => glob.slice(0, -2))
    .filter((schema) => left.every(({ table }) => table.schema !== schema));
}

interface Glob {
  readonly glob: string;
  readonly why: string | null;
}

function configText(flags: Flags, tables: readonly Glob[]): string {
  const lines = tables.map(
    ({ glob, why }) => `    - ${JSON.stringify(glob)}${why === null ? '' : `   # ${why.replaceAll(/\s+/g, ' ')}`}\n`,
  );
  return `name: ${JSON.stringify(flags.name)}
source:
  postgres: \${PGURL}               # export PGURL=postgres://${flags.role}:…@host:5432/database
  tables:
${lines.join('')}log:
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
