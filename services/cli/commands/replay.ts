import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ContractText } from '../../ingest/contract-files.ts';
import { findBatch } from '../../replay/replay/batch-place.ts';
import { assertSameBuild, buildTable, discardBuild, idOf, storeOf } from '../../replay/replay/build-table.ts';
import type { BuildRequest, BuildResult, TableId } from '../../replay/replay/build-table.ts';
import { diffBuild } from '../../replay/replay/diff-build.ts';
import { estimateReplay } from '../../replay/replay/estimate.ts';
import type { InPlaceResult } from '../../replay/replay/in-place.ts';
import { readShapes, shapeOf } from '../../replay/replay/parts.ts';
import { parseRangePoint } from '../../replay/replay/range-point.ts';
import { resolveRange } from '../../replay/replay/range.ts';
import type { ReplayJobState } from '../../replay/replay/replay-jobs.ts';
import { listBuilds, listSwaps, readBuild } from '../../replay/replay/replay-record.ts';
import type { SwapResult } from '../../replay/replay/swap-steps.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { fetchKeys } from '../repair-table.ts';
import {
  buildJson,
  buildText,
  diffJson,
  diffText,
  estimateText,
  failureText,
  hasDifferences,
  inPlaceText,
  json,
  listText,
  swapText,
  type InPlaceReport,
} from '../replay-report.ts';
import {
  buildProgress,
  followJob,
  leftText,
  progressLine,
  replayFailpoint,
  withReplay,
  type ReplaySession,
} from '../replay-session.ts';
import { parseTableName } from '../table-name.ts';
import { withTableOwner, type OwnerRequest } from '../table-owner.ts';

interface Flags {
  readonly config?: string;
  readonly from?: string;
  readonly to?: string;
  readonly into?: string;
  readonly contract?: string;
  readonly diff?: boolean;
  readonly swap?: boolean;
  readonly undo?: boolean;
  readonly discard?: boolean;
  readonly list?: boolean;
  readonly cancel?: boolean;
  readonly dryRun?: boolean;
  readonly show: string;
  readonly url?: string;
  readonly json?: boolean;
}

/** `sluice replay`: the stream again over an older range of the log, in place or into a second table that can be switched in. */
export const replayCommand: CommandModule = (program, context) => {
  withConfig(program.command('replay'))
    .description(
      'run the stream again over the log: in place (fenced), or into a second table to compare and switch in',
    )
    .argument('[tables...]', 'SCHEMA.TABLE (default: all, in place)')
    .option('--from <position>', 'beginning, earliest, offset:N, lsn:X/Y, batch:N or a time (default: beginning)')
    .option('--to <position>', 'now, offset:N, lsn:X/Y, batch:N or a time (default: now)')
    .option('--into <table>', 'build this second table instead; a build that was killed goes on')
    .option('--contract <file>', 'with --into: build it by this contract instead of the head one')
    .option('--diff', 'with --into: show what a switch would change; exit 1 if anything')
    .option('--swap', 'with --into: switch the table to what was built, in one commit')
    .option('--undo', 'switch back to what the table was, and apply what came since')
    .option('--discard', 'with --into: remove a table that a replay built')
    .option('--list', 'show what replays have built and switched')
    .option('--cancel', 'end a replay that the service runs')
    .option('--dry-run', 'say how much it would take, and do nothing')
    .option('--show <n>', 'with --diff: samples of each kind', '5')
    .option('--url <url>', 'endpoint of the service; without a service the work is done here')
    .option('--json', 'print one JSON object')
    .action(context.run(async (tables: string[], flags: Flags) => run(tables, flags, context)));
};

async function run(names: readonly string[], flags: Flags, context: CliContext): Promise<ExitCode> {
  refuseMixtures(names, flags);
  const tables = names.map(parseTableName);
  const [first] = tables;
  const into = flags.into === undefined ? null : parseTableName(flags.into);
  if (flags.list === true) return inSession(flags, context, (session) => list(session, flags, context));
  if (flags.discard === true && into !== null)
    return inSession(flags, context, async ({ parts }) => {
      const { objects } = await discardBuild(parts, into);
      tell(
        flags,
        context,
        { kind: 'discard', into: idOf(into), objects },
        `${idOf(into)} is removed (${objects} objects)\n`,
      );
      return ExitCode.clean;
    });
  if (flags.cancel === true && first !== undefined) return cancel(first, flags, context);
  if (flags.undo === true && first !== undefined) return swapOrUndo({ kind: 'undo', table: first }, flags, context);
  if (into !== null && first !== undefined) return intoTable(first, into, flags, context);
  return inPlace(tables, flags, context);
}

function refuseMixtures(names: readonly string[], flags: Flags): void {
  const said = (['diff', 'swap', 'undo', 'discard', 'list', 'cancel'] as const).filter((flag) => flags[flag] === true);
  const [what, other] = said;
  const refuse = (message: string, remedy: string): never => {
    throw new ConfigError(message, remedy);
  };
  if (other !== undefined) refuse(`--${what} and --${other} are two commands`, 'give one of them');
  if (flags.into === undefined && (flags.diff === true || flags.swap === true || flags.discard === true))
    refuse(`--${what} needs --into`, 'name the table that a replay built');
  if (flags.into === undefined && flags.contract !== undefined)
    refuse('--contract needs --into', 'a replay in place goes by the head contract: edit that');
  if (flags.into !== undefined && names.length !== 1 && flags.discard !== true && flags.list !== true)
    refuse(
      `--into builds one table, and ${names.length} were named`,
      'name the one SCHEMA.TABLE whose events it is built from',
    );
  if ((flags.undo === true || flags.cancel === true) && names.length !== 1)
    refuse(`--${what} is for one table`, 'name it: SCHEMA.TABLE');
  if (flags.undo === true && flags.into !== undefined)
    refuse('--undo needs no --into', 'the table remembers what was switched in');
  if (flags.to !== undefined && flags.swap === true)
    refuse('--swap needs no --to', 'a switch goes to where the table is in the log');
  const ranged = flags.from !== undefined || flags.to !== undefined;
  if (ranged && (flags.undo === true || flags.discard === true || flags.list === true || flags.cancel === true))
    refuse(`--${what} has no range`, 'leave --from and --to out');
  if (!/^\d{1,6}$/.test(flags.show)) refuse(`--show cannot be '${flags.show}'`, 'give a number');
  parseRangePoint('--from', flags.from ?? 'beginning');
  parseRangePoint('--to', flags.to ?? 'now');
}

const reloadOf = (flags: Flags, context: CliContext) => (): ReturnType<CliContext['loadConfig']> =>
  context.loadConfig(flags.config);

function inSession<T>(flags: Flags, context: CliContext, work: (session: ReplaySession) => Promise<T>): Promise<T> {
  return withReplay(reloadOf(flags, context), context, work);
}

function tell(flags: Flags, context: CliContext, body: object, text: string): void {
  context.out(flags.json === true ? json(body) : text);
}

async function list({ parts }: ReplaySession, flags: Flags, context: CliContext): Promise<ExitCode> {
  const [builds, swaps] = [await listBuilds(parts.lake), await listSwaps(parts.lake)];
  tell(flags, context, { kind: 'list', builds, swaps }, listText(builds, swaps));
  return ExitCode.clean;
}

async function cancel(table: TableId, flags: Flags, context: CliContext): Promise<ExitCode> {
  await withTableOwner(ownerRequest(flags, context), (call) => call('cancel-replay', { table: idOf(table) }));
  tell(
    flags,
    context,
    { kind: 'cancel', table: idOf(table) },
    `${idOf(table)}: the replay ends behind its batch in hand\n`,
  );
  return ExitCode.clean;
}

const ownerRequest = (flags: Flags, context: CliContext): OwnerRequest => ({
  reload: reloadOf(flags, context),
  url: flags.url,
  signal: context.signal,
  failpoint: replayFailpoint(context),
});

async function inPlace(named: readonly TableId[], flags: Flags, context: CliContext): Promise<ExitCode> {
  const tables = await inSession(flags, context, async (session) => {
    const shapes = await readShapes(session.parts);
    for (const { schema, table } of named) shapeOf(shapes, schema, table);
    const wanted = named.length > 0 ? named : shapes.tables().map(({ schema, table }) => ({ schema, table }));
    if (flags.dryRun === true) await estimate(session, wanted, flags, context);
    return flags.dryRun === true ? [] : wanted;
  });
  if (tables.length === 0) return ExitCode.clean;
  const reports: InPlaceReport[] = [];
  const failures: SluiceError[] = [];
  const ended = await withTableOwner(ownerRequest(flags, context), async (call, place) => {
    for (const table of tables) {
      const line = progressLine(context, idOf(table));
      const order = { kind: 'in-place', table: idOf(table), from: flags.from ?? 'beginning', to: flags.to ?? 'now' };
      let state: ReplayJobState;
      try {
        state = await followJob(call, place, order, context, (now) => line.show(now.progress, leftText(now.leftMs)));
      } catch (error) {
        // One of several that cannot be replayed does not keep the others from it.
        if (!(error instanceof SluiceError) || tables.length === 1 || error.exit === ExitCode.environment) throw error;
        failures.push(error);
        continue;
      } finally {
        line.end();
      }
      if (state.replayed === null) return state;
      reports.push(await settle(state.replayed, flags, context));
    }
    return null;
  });
  if (ended !== null) return interrupted(ended, flags, context);
  const failed = failures.map(({ code, message, remedy }) => ({ code, message, remedy }));
  const text = [...reports.map(inPlaceText), ...failures.map(failureText)].join('');
  tell(flags, context, { kind: 'in-place', tables: reports, failed }, text);
  if (failures[0] !== undefined) return failures[0].exit;
  return reports.every(({ settled }) => settled) ? ExitCode.clean : ExitCode.findings;
}

function interrupted(state: ReplayJobState, flags: Flags, context: CliContext): ExitCode {
  const goesOn = state.phase === 'running';
  const text = goesOn ? 'goes on in the service' : 'cancelled; the same command goes on where it was';
  tell(flags, context, { kind: state.kind, table: state.table, phase: state.phase }, `${state.table}: ${text}\n`);
  return goesOn ? ExitCode.clean : ExitCode.findings;
}

/** Values from before the range are the source's to tell: its rows of these keys are read again, behind the stream. */
async function settle(result: InPlaceResult, flags: Flags, context: CliContext): Promise<InPlaceReport> {
  const { unsettled, ...rest } = result;
  if (unsettled.length === 0) return { ...rest, keysRead: 0, settled: true };
  try {
    const read = await fetchKeys(context.loadConfig(flags.config), result.table, unsettled, flags.url);
    return { ...rest, keysRead: read, settled: unsettled.length === result.unsettledKeys };
  } catch (error) {
    if (!(error instanceof SluiceError) || !['SERVICE_UNREACHABLE', 'OTHER_HALF'].includes(error.code)) throw error;
    return { ...rest, keysRead: 0, settled: false };
  }
}

async function estimate(
  { parts }: ReplaySession,
  tables: readonly TableId[],
  flags: Flags,
  context: CliContext,
): Promise<void> {
  const estimates = [];
  for (const { schema, table } of tables) {
    const store = storeOf(parts, { schema, table });
    const range = await resolveRange(
      { reader: parts.log.reader, name: parts.name, findBatch: (id, batch) => findBatch(store, id, batch) },
      {
        schema,
        table,
        from: parseRangePoint('--from', flags.from ?? 'beginning'),
        to: parseRangePoint('--to', flags.to ?? 'now'),
      },
    );
    estimates.push(await estimateReplay(parts, range, flags.into === undefined ? 'in place' : 'into a table'));
  }
  tell(flags, context, { kind: 'estimate', dryRun: true, tables: estimates }, estimates.map(estimateText).join(''));
}

async function intoTable(table: TableId, into: TableId, flags: Flags, context: CliContext): Promise<ExitCode> {
  const built = await inSession(flags, context, async (session) => {
    shapeOf(await readShapes(session.parts), table.schema, table.table);
    if (flags.dryRun === true) {
      await estimate(session, [table], flags, context);
      return ExitCode.clean;
    }
    // A switch brings what stands up to now by itself; without one it is built first.
    const standing = await readBuild(session.parts.lake, idOf(into));
    if (flags.swap === true && standing !== null) {
      assertSameBuild(standing, { table, into, ...buildWish(flags, context) });
      return null;
    }
    const result = await build(session, { table, into }, flags, context);
    if (flags.swap === true) return null;
    if (flags.diff === true) return diff(session, { table, into }, flags, context);
    tell(flags, context, buildJson(result), buildText(result));
    return ExitCode.clean;
  });
  return built ?? swapOrUndo({ kind: 'swap', table, into }, flags, context);
}

async function build(
  { parts }: ReplaySession,
  names: { readonly table: TableId; readonly into: TableId },
  flags: Flags,
  context: CliContext,
): Promise<BuildResult> {
  const line = progressLine(context, idOf(names.into));
  const result = await buildTable(
    parts,
    {
      ...names,
      ...buildWish(flags, context),
      to: parseRangePoint('--to', flags.to ?? 'now'),
    },
    { signal: context.signal, onProgress: buildProgress(line, Date.now()) },
  );
  line.end();
  return result;
}

/** Null: not said. */
function buildWish(flags: Flags, context: CliContext): Pick<BuildRequest, 'from' | 'contract'> {
  return {
    from: flags.from === undefined ? null : { point: parseRangePoint('--from', flags.from), text: flags.from },
    contract: flags.contract === undefined ? null : contractText(flags.contract, context),
  };
}

function contractText(file: string, context: CliContext): ContractText {
  try {
    return { file, text: readFileSync(resolve(context.cwd, file), 'utf8') };
  } catch (cause) {
    throw new ConfigError(`the contract ${file} cannot be read`, 'name an ODCS file with --contract', cause);
  }
}

async function diff(
  { parts }: ReplaySession,
  names: { readonly table: TableId; readonly into: TableId },
  flags: Flags,
  context: CliContext,
): Promise<ExitCode> {
  const found = await diffBuild(parts, names, { signal: context.signal, samplesMax: Number(flags.show) });
  tell(flags, context, diffJson(found), diffText(found));
  return hasDifferences(found) ? ExitCode.findings : ExitCode.clean;
}

async function swapOrUndo(
  order: { readonly kind: 'swap' | 'undo'; readonly table: TableId; readonly into?: TableId },
  flags: Flags,
  context: CliContext,
): Promise<ExitCode> {
  const { kind, table, into } = order;
  if (flags.dryRun === true) {
    tell(
      flags,
      context,
      { kind, dryRun: true, table: idOf(table) },
      `would switch ${idOf(table)} in one commit; nothing was done\n`,
    );
    return ExitCode.clean;
  }
  const line = progressLine(context, idOf(table));
  const body = { kind, table: idOf(table), ...(into === undefined ? {} : { into: idOf(into) }) };
  const state = await withTableOwner(ownerRequest(flags, context), (call, place) =>
    followJob(call, place, body, context, (now) => line.show(now.progress, leftText(now.leftMs))),
  );
  line.end();
  const swapped: SwapResult | null = state.swapped;
  if (swapped === null) return interrupted(state, flags, context);
  tell(flags, context, { kind, ...swapped }, swapText(kind, swapped));
  return ExitCode.clean;
}
