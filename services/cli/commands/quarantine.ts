import type { Command } from 'commander';
import type { RetryResult } from '../../ingest/quarantine-retry.ts';
import { ExitCode } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { listOptions } from '../control-actions.ts';
import { withParkedRows } from '../parked-rows.ts';
import { printColumns } from '../print-columns.ts';
import { withQuarantineOwner } from '../quarantine-owner.ts';
import { parseTableName } from '../table-name.ts';

interface Flags {
  readonly config?: string;
  readonly url?: string;
  readonly json?: boolean;
}

interface ListFlags extends Flags {
  readonly status: string;
  readonly rule?: string;
  readonly limit: string;
}

/** `sluice quarantine …`: events that violated their contract; each waits until it is healed, retried or given up. */
export const quarantineCommands: CommandModule = (program, context) => {
  const group = program
    .command('quarantine')
    .description('look at, retry and give up events that violated their contract');
  withFlags(group.command('list'))
    .description('parked events, values masked')
    .argument('[table]', 'SCHEMA.TABLE (default: all)')
    .option('--status <names>', 'parked, healed, released, dropped, with commas between', 'parked')
    .option('--rule <id>', 'only those that failed this rule')
    .option('--limit <n>', 'at most so many of each table', '100')
    .action(context.run(async (table: string | undefined, flags: ListFlags) => list(table ?? null, flags, context)));
  withOwner(group.command('show'))
    .description('one event with its columns, masked where they are classified')
    .argument('<id>', 'the id, or how it begins')
    .action(context.run(async (id: string, flags: Flags) => show(id, flags, context)));
  withOwner(group.command('retry'))
    .description('run parked events through the contract as it is now; exit 1 when some still violate it')
    .argument('[table]', 'SCHEMA.TABLE (default: every table that has parked events)')
    .action(context.run(async (table: string | undefined, flags: Flags) => retry(table ?? null, flags, context)));
  withOwner(group.command('drop'))
    .description('give an event up: its row stays as the table has it')
    .argument('<id>', 'the id, or how it begins')
    .action(context.run(async (id: string, flags: Flags) => drop(id, flags, context)));
};

const withFlags = (command: Command): Command => withConfig(command).option('--json', 'print one JSON object');
const withOwner = (command: Command): Command =>
  withFlags(command).option('--url <url>', 'endpoint of the service; without a service the work is done here');

async function list(table: string | null, flags: ListFlags, context: CliContext): Promise<ExitCode> {
  const options = listOptions({
    statuses: flags.status.split(',').map((name) => name.trim()),
    limit: Number(flags.limit),
    ...(flags.rule === undefined ? {} : { rule: flags.rule }),
  });
  const rows = await withParkedRows(
    () => context.loadConfig(flags.config),
    (parked) => parked.list(table, options),
  );
  if (flags.json === true) context.out(`${JSON.stringify({ schemaVersion: 1, rows })}\n`);
  else if (rows.length === 0) context.out('nothing is in quarantine\n');
  else
    context.out(
      printColumns(
        ['id', 'table', 'status', 'op', 'lsn', 'attempts', 'rules'],
        rows.map((row) => [
          row.id,
          row.table,
          row.status,
          row.op ?? '-',
          row.lsn,
          String(row.attempts),
          (row.rules.length > 0 ? row.rules : row.codes).join(', '),
        ]),
      ),
    );
  return ExitCode.clean;
}

async function show(prefix: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): ReturnType<CliContext['loadConfig']> => context.loadConfig(flags.config);
  const { table, id } = await withParkedRows(reload, (parked) => parked.find(prefix));
  const { row } = await withQuarantineOwner(reload, flags.url, context.signal, (owner) => owner.show(table, id));
  if (flags.json === true) {
    context.out(`${JSON.stringify({ schemaVersion: 1, table, row })}\n`);
    return ExitCode.clean;
  }
  if (row === null) {
    context.out(`${id} is gone from ${table}\n`);
    return ExitCode.findings;
  }
  const { columns, messages, rules, codes, ...rest } = row;
  let text = `table  ${table}\n`;
  for (const [name, value] of Object.entries(rest)) text += `${name}  ${String(value ?? '-')}\n`;
  for (const [at, message] of messages.entries()) text += `failed  ${rules[at] ?? codes[at] ?? '-'}: ${message}\n`;
  for (const [name, value] of Object.entries(columns ?? {})) text += `  ${name} = ${value ?? 'NULL'}\n`;
  context.out(text);
  return ExitCode.clean;
}

async function retry(only: string | null, flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): ReturnType<CliContext['loadConfig']> => context.loadConfig(flags.config);
  const parked = await withParkedRows(reload, (rows) => rows.list(only, listOptions({ limit: 1 })));
  const named = only === null ? null : parseTableName(only);
  const tables = named === null ? parked.map(({ table }) => table) : [`${named.schema}.${named.table}`];
  const results: (RetryResult & { readonly table: string })[] = [];
  if (parked.length > 0)
    await withQuarantineOwner(reload, flags.url, context.signal, async (owner) => {
      for (const table of tables) results.push({ ...(await owner.retry(table, null)), table });
    });
  if (flags.json === true) {
    const shown = results.map((result) => ({ ...result, version: result.version?.toString() ?? null }));
    context.out(`${JSON.stringify({ schemaVersion: 1, tables: shown })}\n`);
  } else if (results.length === 0) context.out('nothing is in quarantine\n');
  for (const { table, retried, applied, superseded, parkedAgain } of flags.json === true ? [] : results)
    context.out(
      `${table}: ${retried} retried, ${applied} applied, ${superseded} superseded by newer rows, ${parkedAgain} parked again\n`,
    );
  return results.some(({ parkedAgain }) => parkedAgain > 0) ? ExitCode.findings : ExitCode.clean;
}

async function drop(prefix: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): ReturnType<CliContext['loadConfig']> => context.loadConfig(flags.config);
  const { table, id } = await withParkedRows(reload, (parked) => parked.find(prefix));
  const { dropped } = await withQuarantineOwner(reload, flags.url, context.signal, (owner) => owner.drop(table, [id]));
  if (flags.json === true) context.out(`${JSON.stringify({ schemaVersion: 1, table, id, dropped })}\n`);
  else context.out(dropped === 1 ? `${id} of ${table} is given up\n` : `${id} of ${table} was not parked any more\n`);
  return ExitCode.clean;
}
