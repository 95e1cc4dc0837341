import type { BackfillState } from '../../replay/backfill-jobs.ts';
import { requireCondition } from '../../replay/source-condition.ts';
import { parseSize } from '../../runtime/duration.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { lakeReaches } from '../lake-reaches.ts';
import { formatBytes } from '../print-columns.ts';
import { backfill, removeExtras } from '../repair-table.ts';
import { callService } from '../service-client.ts';
import { estimateRead, withReadOnly } from '../source-estimate.ts';
import { parseTableName } from '../table-name.ts';
import { withVerify } from '../verify-session.ts';
import { markBehind } from '../verify-tables.ts';
import { fetchStatus } from './status.ts';

interface Flags {
  readonly config?: string;
  readonly where?: string;
  readonly rate?: string;
  readonly exact?: boolean;
  readonly dryRun?: boolean;
  readonly cancel?: boolean;
  readonly url?: string;
  readonly json?: boolean;
}

/** `sluice backfill TABLE`: reads a table, or what a condition selects, again while streaming goes on. */
export const backfillCommand: CommandModule = (program, context) => {
  withConfig(program.command('backfill'))
    .description('read a table, or the rows of a condition, from the source again while streaming goes on')
    .argument('<table>', 'SCHEMA.TABLE')
    .option('--where <sql>', 'only the rows that this condition selects')
    .option('--rate <bytes>', 'bytes of the table read a second, such as 50MB')
    .option('--exact', 'afterwards compare, and remove rows of the lake that the source no longer has')
    .option('--dry-run', 'say how much it would read, and do nothing')
    .option('--cancel', 'end a backfill with --where or --rate that is running')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(context.run(async (table: string, flags: Flags) => run(table, flags, context)));
};

async function run(name: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const { schema, table } = parseTableName(name);
  const id = `${schema}.${table}`;
  const where = flags.where === undefined ? null : requireCondition(flags.where);
  const rate = flags.rate === undefined ? null : parseSize(flags.rate);
  if (flags.rate !== undefined && (rate === null || rate <= 0))
    throw new ConfigError(`--rate cannot be '${flags.rate}'`, 'give a size such as 50MB');
  const tell = (json: object, text: string): void =>
    context.out(flags.json === true ? `${JSON.stringify({ schemaVersion: 1, ...json })}\n` : text);

  if (flags.cancel === true) {
    const call = { path: '/control/cancel-backfill', body: { table: id }, url: flags.url, half: 'reader' as const };
    const state = await callService<BackfillState>(config, call);
    tell(state, `${id}: cancelled after ${state.rows} rows\n`);
    return ExitCode.clean;
  }
  const source = await openSource(config, () => context.loadConfig(flags.config));
  if (flags.dryRun === true) {
    const { rows, bytes } = await withReadOnly(source, 'estimate', (session) =>
      estimateRead(session, schema, table, where),
    );
    const time = rate === null ? '' : `, about ${Math.ceil(bytes / rate)} s at that rate`;
    tell(
      { table: id, dryRun: true, estimate: { rows, bytes } },
      `${id}: would read about ${rows} rows from a table of ${formatBytes(bytes)}${time}; nothing was done\n`,
    );
    return ExitCode.clean;
  }

  const state = await backfill(
    config,
    { table: id, where, rate },
    { url: flags.url, signal: context.signal, onState: (now) => progress(now, context) },
  );
  if (context.isTty) context.err('\n');
  if (state.phase !== 'done') {
    tell(state, `${id}: ${state.phase === 'cancelled' ? 'cancelled' : 'goes on in the service'}\n`);
    return state.phase === 'cancelled' ? ExitCode.findings : ExitCode.clean;
  }
  if (await isPaused(id, flags, context)) {
    tell({ ...state, inLake: false }, `${id}: ${state.rows} rows are in the log; the table is paused\n`);
    return ExitCode.clean;
  }
  const removed = await settle(id, flags, context);
  const gone = removed === null ? '' : `, ${removed} rows that the source no longer has removed`;
  tell({ ...state, inLake: true, removed }, `${id}: ${state.rows} rows read again${gone}\n`);
  return ExitCode.clean;
}

/** Until the lake has what was read; then, if asked to, without what the source no longer has. */
async function settle(id: string, flags: Flags, context: CliContext): Promise<number | null> {
  return withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    async (session) => {
      const lsn = await markBehind(session.source);
      await lakeReaches(session.config, session.lake, context.signal, id)(lsn);
      if (flags.exact !== true) return null;
      const { schema, table } = parseTableName(id);
      const shape = session.tables([id]).find((each) => each.schema === schema && each.table === table);
      if (shape === undefined) return 0;
      const how = { url: flags.url, dryRun: false, signal: context.signal, tell: context.err };
      return (await removeExtras(session, shape, how)).removed;
    },
  );
}

async function isPaused(id: string, flags: Flags, context: CliContext): Promise<boolean> {
  const report = await fetchStatus(context.loadConfig(flags.config), flags.url);
  return report.tables.some((table) => table.table === id && table.state === 'PAUSED');
}

function progress(state: BackfillState, context: CliContext): void {
  if (!context.isTty) return;
  const left = state.leftMs === null ? '' : `, about ${Math.ceil(state.leftMs / 1000)} s left`;
  context.err(`\r${state.table}  ${Math.round(state.progress * 100)}%  ${state.rows} rows${left}   `);
}
