import { parseLsn, type Lsn } from '../../log/position.ts';
import { codeOf } from '../../runtime/codes.ts';
import type { Config } from '../../runtime/config.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { failpointFromEnvironment } from '../../runtime/failpoints.ts';
import type { AdoptFinding } from '../adopt/finding.ts';
import { lookAtSource, lookAtTopics, type AdoptLook, type LookOptions } from '../adopt/look.ts';
import { readOffsets, readSparkCheckpoint } from '../adopt/offsets.ts';
import { claimAdopted, takeTables, writeReaderState, type TakeOver } from '../adopt/take-over.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';

interface Flags {
  readonly config?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly lsn?: string;
  readonly offsets?: string;
  readonly checkpoint?: string;
  readonly allowMissing?: boolean;
  readonly copyOnWrite?: boolean;
}

/** `sluice adopt`: goes on where Debezium and another lake writer stood, without a snapshot. */
export const adoptCommand: CommandModule = (program, context) => {
  withConfig(program.command('adopt'))
    .description(
      'take over a Debezium slot, or its topics, with lake tables that something else wrote, without a snapshot',
    )
    .option('--dry-run', 'look and say what would be done, and do nothing (so it is without --yes)')
    .option('--yes', 'do it')
    .option('--lsn <lsn>', 'LSN of the source up to which the tables hold everything (slot)')
    .option('--offsets <file|list>', 'topic:partition:offset,… : the next offsets to read (topics)')
    .option('--checkpoint <path>', 'checkpoint folder of the Spark query that wrote the tables (topics)')
    .option('--allow-missing', 'add columns that the tables lack; fill them by `sluice backfill --columns`')
    .option('--copy-on-write', 'leave deletion vectors off: files are rewritten instead')
    .option('--json', 'print one JSON object')
    .action(context.run(async (flags: Flags) => adopt(flags, context)));
};

async function adopt(flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const topics = config.log.debezium.topics.length > 0;
  if (flags.yes === true && flags.dryRun === true)
    throw new ConfigError('--yes and --dry-run say two things', 'give one');
  if (topics && flags.lsn !== undefined)
    throw new ConfigError('--lsn is for a slot', 'of topics give --offsets or --checkpoint');
  if (!topics && (flags.offsets !== undefined || flags.checkpoint !== undefined))
    throw new ConfigError('--offsets and --checkpoint are for topics', 'name them in log.debezium.topics');
  if (flags.offsets !== undefined && flags.checkpoint !== undefined)
    throw new ConfigError('--offsets and --checkpoint say two things', 'give one');
  return topics ? adoptTopics(config, flags, context) : adoptSlot(config, flags, context);
}

async function adoptSlot(config: Config, flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): Config => context.loadConfig(flags.config);
  const lake = openLake(config);
  const source = await openSource(config, reload);
  const session = await source.session('adopt');
  try {
    const options = lookOptions(config, lake, flags, context);
    const asked = flags.lsn === undefined ? null : lsnOf(flags.lsn);
    const look = await lookAtSource(session, options, asked, Date.now());
    if (!report(look, flags, context)) return ExitCode.clean;
    const { from } = look;
    if (from === null) throw new RangeError('a slot without a position was not refused');
    const replication = await source.replication('adopt');
    try {
      const take = takeOver(config, reload, lake, look, flags, context);
      const { database } = source.connection;
      await claimAdopted(take, { session, replication, database, from });
      await writeReaderState(take, { session, replication, database, from });
      await takeTables(take);
    } finally {
      await replication.close();
    }
    done(look, 'sluice run', flags, context);
    return ExitCode.clean;
  } finally {
    await session.close();
    await lake.close();
  }
}

async function adoptTopics(config: Config, flags: Flags, context: CliContext): Promise<ExitCode> {
  const reload = (): Config => context.loadConfig(flags.config);
  const lake = openLake(config);
  try {
    const checkpoint = flags.checkpoint === undefined ? null : await sparkCheckpoint(config, flags.checkpoint);
    const given = flags.offsets === undefined ? null : readOffsets(flags.offsets, context.cwd);
    const offsets = given ?? checkpoint?.offsets ?? new Map();
    const log = await openLog(config, reload);
    let look: AdoptLook;
    try {
      look = await lookAtTopics(lookOptions(config, lake, flags, context), { log, offsets, checkpoint });
    } finally {
      await log.close();
    }
    if (!report(look, flags, context)) return ExitCode.clean;
    await takeTables(takeOver(config, reload, lake, look, flags, context));
    done(look, 'sluice stream', flags, context);
    return ExitCode.clean;
  } finally {
    await lake.close();
  }
}

async function sparkCheckpoint(config: Config, uri: string): ReturnType<typeof readSparkCheckpoint> {
  const store = openLake({ ...config, lake: { ...config.lake, uri } });
  try {
    return await readSparkCheckpoint(store);
  } finally {
    await store.close();
  }
}

function lsnOf(text: string): Lsn {
  try {
    return parseLsn(text);
  } catch (cause) {
    throw new ConfigError(`--lsn ${text} is no LSN`, 'write it as PostgreSQL does: 16/B374D848', cause);
  }
}

function lookOptions(config: Config, lake: LookOptions['lake'], flags: Flags, context: CliContext): LookOptions {
  return { config, lake, allowMissing: flags.allowMissing === true, scanKeys: true, signal: context.signal };
}

function takeOver(
  config: Config,
  reload: () => Config,
  lake: LookOptions['lake'],
  look: AdoptLook,
  flags: Flags,
  context: CliContext,
): TakeOver {
  const deletionVectors = config.lake.deletionVectors && flags.copyOnWrite !== true;
  const tell = flags.json === true ? context.err : context.out;
  const { tables, from } = look;
  const failpoint = failpointFromEnvironment(context.env['SLUICE_FAILPOINT'], () =>
    process.kill(process.pid, 'SIGKILL'),
  );
  const { signal } = context;
  return { config, reload, lake, tables, lsn: from ?? 0n, deletionVectors, signal, failpoint, tell };
}

/** Shows what was found; true when it is to be done. @throws SluiceError ADOPT_REFUSED */
function report(look: AdoptLook, flags: Flags, context: CliContext): boolean {
  const wrong = look.findings.filter(({ level }) => level === 'refused');
  const ids = look.tables.map(({ schema, table }) => `${schema}.${table}`);
  if (flags.json === true)
    context.out(
      `${JSON.stringify({
        schemaVersion: 1,
        safe: wrong.length === 0,
        done: wrong.length === 0 && flags.yes === true,
        tables: ids,
        findings: look.findings.map((each) => ({ ...each, code: codeFor(each) })),
      })}\n`,
    );
  else for (const finding of look.findings) context.out(describeFinding(finding));
  const [first] = wrong;
  if (first !== undefined)
    throw new SluiceError(
      'ADOPT_REFUSED',
      `nothing was taken over: ${wrong.map(({ word, about }) => `${about} ${word ?? ''}`).join('; ')}`,
      { exit: ExitCode.findings, remedy: first.fix },
    );
  if (flags.json !== true && flags.yes !== true)
    context.out(`would take over ${ids.join(', ')}; nothing was done, run again with --yes\n`);
  return flags.yes === true;
}

const codeFor = ({ word }: AdoptFinding): string | null => (word === null ? null : (codeOf(word)?.entry.code ?? null));

export function describeFinding(finding: AdoptFinding): string {
  const { level, word, about, detail, fix } = finding;
  const name = word === null ? '' : ` ${word}${codeFor(finding) === null ? '' : ` (${codeFor(finding) ?? ''})`}`;
  return `${level.padEnd(7)} ${about}:${name === '' ? '' : `${name}:`} ${detail}\n${fix === '' ? '' : `        fix: ${fix}\n`}`;
}

function done(look: AdoptLook, next: string, flags: Flags, context: CliContext): void {
  if (flags.json === true) return;
  context.out(`${look.tables.length} tables are taken over; start \`${next}\`, then compare with \`sluice verify\`\n`);
}
