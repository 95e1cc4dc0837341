import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { backfill, repairTable, type RepairResult } from '../repair-table.ts';
import { runService } from '../service.ts';
import { callService } from '../service-client.ts';
import { parseTableName } from '../table-name.ts';
import { withVerify } from '../verify-session.ts';
import { maskedReport } from './verify.ts';
import { fetchStatus } from './status.ts';

interface Flags {
  readonly config?: string;
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly url?: string;
  readonly json?: boolean;
}

/** `sluice repair TABLE`: finds what differs, shows the smallest re-read, does it, and compares again. Exit 1 if still unequal. */
export const repairCommand: CommandModule = (program, context) => {
  withConfig(program.command('repair'))
    .description('find what differs, read just that again, and compare again')
    .argument('[table]', 'SCHEMA.TABLE')
    .option(
      '--all',
      'the source broke (slot lost or moved, another system): make the slot anew and read every table again',
    )
    .option('--dry-run', 'show the plan, and do nothing')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (table: string | undefined, flags: Flags) => {
        if (flags.all === true) return repairAll(flags, context);
        if (table === undefined) throw new ConfigError('repair needs a table', 'name SCHEMA.TABLE, or give --all');
        return repair(table, flags, context);
      }),
    );
};

/** Runs the pipeline until every table was read again and is committed; stop the service first, it has one owner. */
function repairAll(flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): ReturnType<CliContext['loadConfig']> => context.loadConfig(flags.config);
  if (flags.dryRun === true) {
    context.out('would make the replication slot anew where it broke, and read every table of the pipeline again\n');
    return Promise.resolve(ExitCode.clean);
  }
  const parts = { reader: true, stream: true };
  return runService(
    { config: reload(), reload, parts, availableNow: true, failOnQuarantine: false, onSourceBreak: 'resnapshot' },
    context,
  );
}

async function repair(name: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const { schema, table } = parseTableName(name);
  const id = `${schema}.${table}`;
  const dryRun = flags.dryRun === true;
  const tell = flags.json === true ? context.err : context.out;
  if (await standsStill(id, flags, context, { dryRun, tell })) {
    if (flags.json === true)
      context.out(`${JSON.stringify({ schemaVersion: 1, table: id, dryRun, plan: 'table', equal: false })}\n`);
    return ExitCode.clean;
  }
  const result = await withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    async (session) => {
      const shape = session.tables([id]).find((each) => each.schema === schema && each.table === table);
      if (shape === undefined) throw new ConfigError(`the pipeline has no table ${id}`, 'see `sluice status`');
      return repairTable(session, shape, { url: flags.url, dryRun, signal: context.signal, tell });
    },
  );
  context.out(flags.json === true ? `${JSON.stringify(summary(result, dryRun))}\n` : describe(result, dryRun));
  return result.equal ? ExitCode.clean : ExitCode.findings;
}

/**
 * A table that stopped by name is not compared but mended: read whole where the source's side stopped, and set going. True =
 * only the plan was wanted, or it does not go on yet.
 */
async function standsStill(
  id: string,
  flags: Flags,
  context: CliContext,
  { dryRun, tell }: { readonly dryRun: boolean; readonly tell: (text: string) => void },
): Promise<boolean> {
  const config = context.loadConfig(flags.config);
  const line = (await fetchStatus(config, flags.url)).tables.find(({ table }) => table === id);
  if (line === undefined || line.why === null) return false;
  tell(`${id} ${line.state}: ${line.why}\n`);
  if (line.stoppedAt === 'reader') {
    tell(`${id}: reads the whole table again, without what the source no longer has\n`);
    if (dryRun) return true;
    await backfill(config, { table: id, exact: true }, { url: flags.url, signal: context.signal });
  } else {
    tell(`${id}: tries again\n`);
    if (dryRun) return true;
    await callService(config, { path: '/control/resume', body: { tables: [id] }, url: flags.url, half: 'stream' });
  }
  return false;
}

function summary(result: RepairResult, dryRun: boolean): object {
  const { table, equal, plan, keys, wholeReads, report } = result;
  return {
    schemaVersion: 1,
    table,
    dryRun,
    equal,
    plan: plan.kind,
    differences: plan.kind === 'nothing' ? null : plan.counts,
    keys,
    wholeReads,
    report: maskedReport(report, 10),
  };
}

function describe(result: RepairResult, dryRun: boolean): string {
  const { table, equal, plan, keys, wholeReads } = result;
  if (plan.kind === 'nothing') return '';
  if (dryRun) return 'nothing was done\n';
  const whole = wholeReads === 0 ? '' : `, the table read whole ${wholeReads === 1 ? 'once' : `${wholeReads} times`}`;
  return `${table}: ${keys} keys read again${whole}; ${equal ? 'equal now' : 'STILL NOT EQUAL'}\n`;
}
