import { findTable, listAttributes } from '../../reader/catalog.ts';
import type { PostgresSource } from '../../reader/source.ts';
import type { BackfillState } from '../../replay/backfill-jobs.ts';
import { keyCells, keyRange, sinceXmin } from '../../replay/backfill-range.ts';
import { requireCondition } from '../../replay/source-condition.ts';
import { parseSize } from '../../runtime/duration.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { lakeReaches } from '../lake-reaches.ts';
import { backfill, removeExtras } from '../repair-table.ts';
import { costOf, describeCost } from '../read-cost.ts';
import { speedOf } from '../read-speed.ts';
import { retryPassing } from '../retry-passing.ts';
import { callService, pollService } from '../service-client.ts';
import { keyColumns } from '../source-key.ts';
import { estimateRead, withReadOnly } from '../source-estimate.ts';
import { parseTableName } from '../table-name.ts';
import { withVerify } from '../verify-session.ts';
import { markBehind } from '../verify-tables.ts';
import { walFacts } from '../wal-facts.ts';
import type { StatusReport } from '../status-report.ts';

interface Flags {
  readonly config?: string;
  readonly where?: string;
  readonly fromKey?: string;
  readonly toKey?: string;
  readonly sinceXmin?: string;
  readonly columns?: string;
  readonly parallel?: string;
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
    .argument('<table>', 'SCHEMA.TABLE; or status, pause, resume, cancel of a backfill that runs')
    .argument('[of]', 'SCHEMA.TABLE, behind status, pause, resume or cancel')
    .option('--where <sql>', 'only the rows that this condition selects')
    .option('--from-key <key>', 'only keys from this one on; of several columns a JSON list')
    .option('--to-key <key>', 'only keys up to this one, included')
    .option('--since-xmin <xid>', 'only rows that this transaction or a later one wrote')
    .option('--columns <names>', 'only these, filled into the rows that the lake has; with commas between')
    .option('--parallel <n>', 'steps of 4 MiB that are read at once')
    .option('--rate <bytes>', 'bytes of the table read a second, such as 50MB')
    .option('--exact', 'afterwards compare, and remove rows of the lake that the source no longer has')
    .option('--dry-run', 'say how much it would read, and do nothing')
    .option('--cancel', 'the same as `backfill cancel TABLE`')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (table: string, of: string | undefined, flags: Flags) => {
        const verb = VERBS.find((each) => each === table);
        if (verb !== undefined) return control(verb, of, flags, context);
        if (of !== undefined) throw new ConfigError(`backfill takes one table, not '${of}', too`, 'name SCHEMA.TABLE');
        return run(table, flags, context);
      }),
    );
};

const VERBS = ['status', 'pause', 'resume', 'cancel'] as const;

/** What a person does with backfills that run in the service. */
async function control(
  verb: (typeof VERBS)[number],
  name: string | undefined,
  flags: Flags,
  context: CliContext,
): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const ask = <T>(path: string, body: object): Promise<T> =>
    callService<T>(config, { path: `/control/${path}`, body, url: flags.url, half: 'reader' });
  if (verb !== 'status' && name === undefined)
    throw new ConfigError(`backfill ${verb} needs a table`, 'name SCHEMA.TABLE');
  const wanted = name === undefined ? null : parseTableName(name);
  const id = wanted === null ? null : `${wanted.schema}.${wanted.table}`;
  const states =
    verb === 'status'
      ? (await ask<{ backfills: BackfillState[] }>('backfills', {})).backfills.filter(
          ({ table }) => id === null || table === id,
        )
      : [await ask<BackfillState>(`${verb}-backfill`, { table: id })];
  if (flags.json === true) context.out(`${JSON.stringify({ schemaVersion: 1, backfills: states })}\n`);
  else if (states.length === 0) context.out('no backfill was started since the service was\n');
  else for (const state of states) context.out(`${stateText(state)}\n`);
  return ExitCode.clean;
}

function stateText({ table, phase, progress: done, rows, leftMs, where, error }: BackfillState): string {
  const left = leftMs === null || phase !== 'running' ? '' : `, about ${Math.ceil(leftMs / 1000)} s left`;
  const of = where === null ? '' : ` where ${where}`;
  return `${table}  ${phase}  ${Math.round(done * 100)}%  ${rows} rows${left}${of}${error === null ? '' : `: ${error.message}`}`;
}

/** The user's condition and the named ranges, all together. */
async function conditionOf(
  flags: Flags,
  source: PostgresSource,
  { schema, table }: { readonly schema: string; readonly table: string },
): Promise<string | null> {
  const parts: string[] = [];
  if (flags.where !== undefined) parts.push(requireCondition(flags.where));
  if (flags.sinceXmin !== undefined) parts.push(sinceXmin(flags.sinceXmin));
  const { fromKey, toKey } = flags;
  if (fromKey !== undefined || toKey !== undefined) {
    const columns = await withReadOnly(source, 'key', (session) => keyColumns(session, schema, table));
    const range = keyRange(
      columns,
      fromKey === undefined ? null : keyCells(fromKey, columns, '--from-key'),
      toKey === undefined ? null : keyCells(toKey, columns, '--to-key'),
    );
    if (range !== null) parts.push(range);
  }
  if (parts.length < 2) return parts[0] ?? null;
  return parts.map((part) => `(${part})`).join(' AND ');
}

/** @throws ConfigError for a column that the table does not have */
async function columnsOf(
  list: string,
  source: PostgresSource,
  { schema, table }: { readonly schema: string; readonly table: string },
): Promise<readonly string[]> {
  const names = list.split(',').map((name) => name.trim());
  return withReadOnly(source, 'columns', async (session) => {
    const found = await findTable(session, schema, table);
    const known = found === null ? [] : (await listAttributes(session, found.oid)).map((attribute) => attribute.name);
    const unknown = names.filter((name) => !known.includes(name));
    if (unknown.length === 0) return names;
    throw new ConfigError(
      `${schema}.${table} has no column ${unknown.map((name) => `'${name}'`).join(', ')}`,
      `name some of ${known.join(', ')}`,
    );
  });
}

async function run(name: string, flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const { schema, table } = parseTableName(name);
  const id = `${schema}.${table}`;
  const rate = flags.rate === undefined ? null : parseSize(flags.rate);
  if (flags.rate !== undefined && (rate === null || rate <= 0))
    throw new ConfigError(`--rate cannot be '${flags.rate}'`, 'give a size such as 50MB');
  const parallel = Number(flags.parallel ?? '1');
  if (!Number.isInteger(parallel) || parallel < 1 || parallel > 16)
    throw new ConfigError(`--parallel cannot be '${flags.parallel ?? ''}'`, 'give 1 to 16');
  const tell = (json: object, text: string): void =>
    context.out(flags.json === true ? `${JSON.stringify({ schemaVersion: 1, ...json })}\n` : text);

  if (flags.cancel === true) {
    const call = { path: '/control/cancel-backfill', body: { table: id }, url: flags.url, half: 'reader' as const };
    const state = await callService<BackfillState>(config, call);
    tell(state, `${id}: cancelled after ${state.rows} rows\n`);
    return ExitCode.clean;
  }
  const source = await openSource(config, () => context.loadConfig(flags.config));
  const where = await conditionOf(flags, source, { schema, table });
  const columns = flags.columns === undefined ? null : await columnsOf(flags.columns, source, { schema, table });
  if (columns !== null && flags.exact === true)
    throw new ConfigError('--columns fills rows and --exact removes some', 'give them one after the other');
  if (flags.dryRun === true) {
    const speed = await speedOf(config);
    const cost = await withReadOnly(source, 'estimate', async (session) => {
      const { walBytesPerSecond } = await walFacts(session);
      return costOf(await estimateRead(session, schema, table, where), { walBytesPerSecond, speed, rate });
    });
    tell({ table: id, dryRun: true, estimate: cost }, `${id}: would read ${describeCost(cost)}; nothing was done\n`);
    return ExitCode.clean;
  }

  const state = await backfill(
    config,
    { table: id, where, rate, parallel, ...(columns === null ? {} : { columns }) },
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
      const lsn = await retryPassing(() => markBehind(session.source));
      await lakeReaches({ ...session, askForMark: () => markBehind(session.source) }, context.signal, id)(lsn);
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
  const call = { path: '/status', url: flags.url };
  const report = await pollService<StatusReport>(context.loadConfig(flags.config), call);
  return report.tables.some((table) => table.table === id && table.state === 'PAUSED');
}

function progress(state: BackfillState, context: CliContext): void {
  if (!context.isTty) return;
  const left = state.leftMs === null ? '' : `, about ${Math.ceil(state.leftMs / 1000)} s left`;
  context.err(`\r${state.table}  ${Math.round(state.progress * 100)}%  ${state.rows} rows${left}   `);
}
