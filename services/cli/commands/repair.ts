import type { Config } from '../../runtime/config.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { describeMend, findStopped, mendSource, mendStopped, stoppedLine } from '../mend-stopped.ts';
import { describeCost, readCost } from '../read-cost.ts';
import { repairTable, type RepairResult } from '../repair-table.ts';
import { runService } from '../service.ts';
import { callService, nobodyServes } from '../service-client.ts';
import { parseTableName } from '../table-name.ts';
import { withVerify, type VerifySession } from '../verify-session.ts';
import type { TableReport } from '../verify-tables.ts';
import { maskedReport } from './verify.ts';

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
    .description('mend a table that stands still or differs by the smallest re-read, and compare again')
    .argument('[table]', 'SCHEMA.TABLE')
    .option('--all', 'every table that stands still; and where the source broke, make the slot anew and read all again')
    .option('--dry-run', 'show the plan, and do nothing')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (table: string | undefined, flags: Flags) => {
        if ((table === undefined) === (flags.all !== true))
          throw new ConfigError('repair needs a table or --all', 'name SCHEMA.TABLE, or give --all');
        const config = context.loadConfig(flags.config);
        if (await isServed(config, flags.url)) return work(table, flags, context);
        if (flags.dryRun === true) return planUnserved(table, config, flags, context);
        return ownService(table, config, flags, context);
      }),
    );
};

const work = (table: string | undefined, flags: Flags, context: CliContext): Promise<ExitCode> =>
  table === undefined ? repairAll(flags, context) : repair(table, flags, context);

async function isServed(config: Config, url: string | undefined): Promise<boolean> {
  try {
    await callService(config, { path: '/status', url, half: 'stream' });
    return true;
  } catch (error) {
    if (nobodyServes(error) && url === undefined) return false;
    throw error;
  }
}

/** No service runs: the pipeline runs here until everything is mended and committed. */
function ownService(table: string | undefined, config: Config, flags: Flags, context: CliContext): Promise<ExitCode> {
  // Commands without a token are taken on a loopback address only.
  const reload = (): Config => {
    const now = context.loadConfig(flags.config);
    return { ...now, http: { ...now.http, host: '127.0.0.1' } };
  };
  return runService(
    {
      config: { ...config, http: { ...config.http, host: '127.0.0.1' } },
      reload,
      parts: { reader: true, stream: true },
      availableNow: true,
      failOnQuarantine: false,
      onSourceBreak: table === undefined ? 'resnapshot' : 'stop',
      work: (url) => work(table, { ...flags, url }, context),
    },
    context,
  );
}

async function planUnserved(
  table: string | undefined,
  config: Config,
  flags: Flags,
  context: CliContext,
): Promise<ExitCode> {
  const source = await openSource(config, () => context.loadConfig(flags.config));
  const cost = await readCost(source, config, table === undefined ? null : [parseTableName(table)]);
  const what = table === undefined ? 'every table of the pipeline' : table;
  context.out(
    flags.json === true
      ? `${JSON.stringify({ schemaVersion: 1, table: table ?? null, dryRun: true, served: false, estimate: cost })}\n`
      : `no service runs: would run the pipeline here, mend what stands still and compare; at most it reads ${what} again: ${describeCost(cost)}; nothing was done\n`,
  );
  return ExitCode.clean;
}

/** Every table that stands still, then compared. */
async function repairAll(flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const tell = flags.json === true ? context.err : context.out;
  let { tables: stopped, reader: broken } = await findStopped(config, flags.url);
  let reread: readonly string[] = [];
  if (broken !== null) {
    tell(`source ${broken.state}: ${broken.detail}\nsource: makes the slot anew and reads every table again\n`);
    if (flags.dryRun !== true) {
      reread = await mendSource(config, { url: flags.url, signal: context.signal, tell });
      ({ tables: stopped, reader: broken } = await findStopped(config, flags.url));
    }
  }
  const tables = [...new Set([...reread, ...stopped.map(({ table }) => table)])];
  if (flags.dryRun === true) {
    for (const line of stopped) tell(describeMend(line));
    const source = await openSource(config, () => context.loadConfig(flags.config));
    const cost = await readCost(source, config, broken === null ? tables.map(parseTableName) : null);
    if (flags.json === true)
      context.out(`${JSON.stringify({ schemaVersion: 1, dryRun: true, tables, estimate: cost })}\n`);
    else if (stopped.length === 0 && broken === null) context.out('no table stands still\n');
    else context.out(`${describeCost(cost)}; nothing was done\n`);
    return ExitCode.clean;
  }
  const failed: string[] = [];
  for (const line of stopped) {
    try {
      await mendStopped(config, line, { url: flags.url, signal: context.signal, tell });
    } catch (error) {
      // One table's failing never blocks another.
      if (!(error instanceof SluiceError)) throw error;
      failed.push(line.table);
      context.err(`sluice: ${line.table}: ${error.message}\n  ${error.remedy}\n`);
    }
  }
  const mended = tables.filter((table) => !failed.includes(table));
  const unequal = mended.length === 0 ? [] : await compare(mended, flags, context, tell);
  if (flags.json === true)
    context.out(`${JSON.stringify({ schemaVersion: 1, dryRun: false, tables, failed, unequal })}\n`);
  else if (tables.length === 0) context.out('no table stands still\n');
  return failed.length > 0 ? ExitCode.namedState : unequal.length > 0 ? ExitCode.findings : ExitCode.clean;
}

/** Gives the tables that are not equal. */
async function compare(
  tables: readonly string[],
  flags: Flags,
  context: CliContext,
  tell: (text: string) => void,
): Promise<string[]> {
  const unequal: string[] = [];
  await withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    async (session) => {
      for (const table of tables) {
        const { equal } = await session.verify(shapeOf(session, table));
        tell(`${table}: ${equal ? 'equal now' : 'STILL NOT EQUAL'}\n`);
        if (!equal) unequal.push(table);
      }
    },
  );
  return unequal;
}

type Shape = ReturnType<VerifySession['tables']>[number];

function shapeOf(session: VerifySession, id: string): Shape {
  const found = session.tables([id]).find(({ schema, table }) => `${schema}.${table}` === id);
  if (found === undefined) throw new ConfigError(`the pipeline has no table ${id}`, 'see `sluice status`');
  return found;
}

async function repair(name: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const { schema, table } = parseTableName(name);
  const id = `${schema}.${table}`;
  const dryRun = flags.dryRun === true;
  const config = context.loadConfig(flags.config);
  const tell = flags.json === true ? context.err : context.out;
  const stopped = await stoppedLine(config, flags.url, id);
  if (stopped !== undefined && dryRun) {
    tell(describeMend(stopped));
    const source = await openSource(config, () => context.loadConfig(flags.config));
    const cost = await readCost(source, config, [{ schema, table }]);
    context.out(
      flags.json === true
        ? `${JSON.stringify({ schemaVersion: 1, table: id, dryRun, plan: 'table', equal: false, estimate: cost })}\n`
        : `${describeCost(cost)}; nothing was done\n`,
    );
    return ExitCode.clean;
  }
  if (stopped !== undefined) await mendStopped(config, stopped, { url: flags.url, signal: context.signal, tell });
  const result = await withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    (session) => repairTable(session, shapeOf(session, id), { url: flags.url, dryRun, signal: context.signal, tell }),
  );
  context.out(flags.json === true ? `${JSON.stringify(summary(result, dryRun))}\n` : describe(result, dryRun));
  return result.equal ? ExitCode.clean : ExitCode.findings;
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
    report: maskedReport(report satisfies TableReport, 10),
  };
}

function describe(result: RepairResult, dryRun: boolean): string {
  const { table, equal, plan, keys, wholeReads } = result;
  if (plan.kind === 'nothing') return '';
  if (dryRun) return 'nothing was done\n';
  const whole = wholeReads === 0 ? '' : `, the table read whole ${wholeReads === 1 ? 'once' : `${wholeReads} times`}`;
  return `${table}: ${keys} keys read again${whole}; ${equal ? 'equal now' : 'STILL NOT EQUAL'}\n`;
}
