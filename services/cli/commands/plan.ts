import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Config } from '../../runtime/config.ts';
import { ExitCode } from '../../runtime/errors.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CommandModule } from '../command.ts';
import { planRun, type KnownTopics, type RunPlan } from '../plan-run.ts';
import { formatBytes, printColumns } from '../print-columns.ts';
import { describeCost } from '../read-cost.ts';
import { withReadOnly } from '../source-estimate.ts';

interface Flags {
  readonly config?: string;
  readonly json?: boolean;
}

/** `sluice plan`: every object that `sluice run` would make, and what it would read. Makes none. Exit 1 when a table is refused. */
export const planCommand: CommandModule = (program, context) => {
  withConfig(program.command('plan'))
    .description('list what `sluice run` would create and read; creates nothing')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (flags: Flags) => {
        const config = context.loadConfig(flags.config);
        const reload = (): Config => context.loadConfig(flags.config);
        const lake = openLake(config);
        try {
          const topics = await knownTopics(config, reload, context.cwd);
          const source = await openSource(config, reload);
          const plan = await withReadOnly(source, 'plan', (session) => planRun(config, session, lake, topics));
          context.out(flags.json === true ? `${JSON.stringify({ schemaVersion: 1, ...plan })}\n` : describe(plan));
          return plan.tables.every(({ refused }) => refused === null) ? ExitCode.clean : ExitCode.findings;
        } finally {
          await lake.close();
        }
      }),
    );
};

/** Opening an embedded log would make it. */
async function knownTopics(config: Config, reload: () => Config, cwd: string): Promise<KnownTopics> {
  if (config.log.kind === 'embedded') return existsSync(join(resolve(cwd, config.log.path))) ? new Set<string>() : null;
  const log = await openLog(config, reload);
  try {
    return new Set(await log.admin.topics());
  } finally {
    await log.close();
  }
}

function describe(plan: RunPlan): string {
  const objects = plan.objects.map(({ kind, name, exists, sql }) => [
    exists ? (sql === null ? 'stands' : 'add to') : 'create',
    kind,
    name,
    sql ?? '',
  ]);
  let text = printColumns(['', 'object', 'name', 'by'], objects);
  const taken = plan.tables.filter(({ refused }) => refused === null);
  const rows = taken.map(({ table, rows: n, bytes, minutes }) => [
    table,
    String(n),
    formatBytes(bytes),
    String(minutes),
  ]);
  if (rows.length > 0) text += `\n${printColumns(['table', 'rows', 'bytes', 'minutes'], rows)}`;
  for (const { table, refused } of plan.tables)
    if (refused !== null) text += `\nrefused ${table}: ${refused.why}\n  ${refused.remedy}\n`;
  text += `\nthe first read: ${describeCost(plan.firstRead)}\nrequests to the store: at most ${plan.storeRequestsAMonth} a month, with changes in every table at every trigger\n`;
  const limit = plan.walLimitBytes === null ? 'without a limit' : `at most ${formatBytes(plan.walLimitBytes)}`;
  text += `\nthe source writes ${formatBytes(plan.walBytesPerSecond)} of WAL a second now; while the service is down the slot holds it back, ${limit}\n`;
  return `${text}nothing was created\n`;
}
