import { join, resolve } from 'node:path';
import { contractFolder } from '../../ingest/contract-files.ts';
import { shapesOf } from '../../ingest/foreign-topics.ts';
import type { EventLog } from '../../log/log.ts';
import { dataTopic, quarantineTopic } from '../../log/topics.ts';
import { listTables } from '../../reader/catalog.ts';
import { findPublication } from '../../reader/publication.ts';
import { dropSlot, findSlot } from '../../reader/slot.ts';
import type { SourceSession } from '../../reader/source.ts';
import { quoteIdent } from '../../reader/sql-text.ts';
import { matchesGlobs } from '../../reader/table-globs.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { Config } from '../../runtime/config.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { foreignTables } from '../assemble/foreign-tables.ts';
import { readIdentity } from '../assemble/identity.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { needsNoSource, openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { filesOf, objectsOf, removeFiles } from '../own-places.ts';

interface Flags {
  readonly config?: string;
  readonly yes?: boolean;
  readonly tables?: boolean;
  readonly adopted?: boolean;
}

interface Step {
  readonly what: string;
  readonly run: () => Promise<void>;
}

/** `sluice teardown`: shows, and with --yes drops, what a pipeline made. Tables of the lake only with --tables. */
export const teardownCommand: CommandModule = (program, context) => {
  withConfig(program.command('teardown'))
    .description('show, and with --yes drop, the slot, our publication, topics and state; tables only with --tables')
    .option('--yes', 'drop them')
    .option('--adopted', 'drop the slot that `sluice adopt` took over, too')
    .option('--tables', 'drop the lake of this pipeline, too')
    .action(context.run(async (flags: Flags) => teardown(flags, context)));
};

async function teardown(flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const reload = (): Config => context.loadConfig(flags.config);
  const lake = openLake(config);
  // Behind Debezium there may be no source, and nothing of ours in it.
  const session = needsNoSource(config) ? null : await (await openSource(config, reload)).session('teardown');
  try {
    const left = session === null ? null : await adoptedSlot(config, session, lake);
    const log = await logSteps(config, reload, session);
    const state = stateSteps(config, context.cwd);
    const objects = await lakeSteps(config, lake, flags.tables === true);
    const steps = [
      ...(session === null ? [] : await sourceSteps(config, session, lake, flags)),
      ...log.steps,
      ...state.steps,
      ...objects.steps,
    ];
    const strangers = [...log.strangers, ...state.strangers, ...objects.strangers];
    if (steps.length === 0) context.out(`nothing of pipeline '${config.name}' stands any more\n`);
    for (const step of steps) {
      if (flags.yes === true) await step.run();
      context.out(`${flags.yes === true ? 'dropped' : 'would drop'} ${step.what}\n`);
    }
    if (flags.yes !== true && steps.length > 0) context.out('nothing was dropped; run again with --yes\n');
    if (flags.adopted !== true && left !== null) context.out(left);
    if (strangers.length > 0)
      context.out(`not known to be of this pipeline, and left alone: ${strangers.join(', ')}\n`);
    if (flags.tables !== true) context.out(`the tables in ${lake.uri} stay; --tables drops them, too\n`);
    return ExitCode.clean;
  } finally {
    await session?.close();
    await lake.close();
  }
}

async function sourceSteps(
  config: Config,
  session: SourceSession,
  lake: ObjectStore,
  { yes, adopted }: Flags,
): Promise<Step[]> {
  const steps: Step[] = [];
  const identity = await readIdentity(lake);
  const slot = await findSlot(session, config.source.slot);
  if (slot !== null && slot.plugin === 'pgoutput') {
    const inUse = `in use${slot.activePid === null ? '' : ` by process ${slot.activePid}`}`;
    const remedy = 'stop `sluice run` (or `sluice reader`) first';
    const refusal = (): SluiceError =>
      new SluiceError('SLOT_IN_USE', `slot ${slot.name} is ${inUse}`, { exit: ExitCode.environment, remedy });
    if (slot.active && yes === true) throw refusal();
    if (identity?.adoptedSlot !== true || adopted === true) {
      const what = `replication slot ${slot.name}${slot.active ? ` (${inUse}: ${remedy})` : ''}`;
      // A service may have been started since.
      const run = async (): Promise<void> => {
        if (!(await dropSlot(session, slot.name))) throw refusal();
      };
      steps.push({ what, run });
    }
  }
  const publication = await findPublication(session, config.source.publication);
  const ours = identity?.madePublication === true && identity.publication === config.source.publication;
  if (publication !== null && ours) {
    steps.push({
      what: `publication ${publication.name}`,
      run: async () => void (await session.query(`DROP PUBLICATION ${quoteIdent(publication.name)}`)),
    });
  }
  return steps;
}

/** Something else made it, and may go on with it; but it holds WAL for as long as it stands. */
async function adoptedSlot(config: Config, session: SourceSession, lake: ObjectStore): Promise<string | null> {
  if ((await readIdentity(lake))?.adoptedSlot !== true) return null;
  if ((await findSlot(session, config.source.slot)) === null) return null;
  return `the slot ${config.source.slot} was adopted, not made by this pipeline: it stays and holds back WAL; --adopted drops it, too\n`;
}

async function logSteps(
  config: Config,
  reload: () => Config,
  session: SourceSession | null,
): Promise<{ readonly steps: Step[]; readonly strangers: readonly string[] }> {
  if (config.log.kind === 'embedded') return { steps: [], strangers: [] };
  const log = await openLog(config, reload);
  try {
    const alike = (await log.admin.topics()).filter((topic) => topic.startsWith(`${config.name}.`));
    const isOurs = await ownTopics(config, log, session);
    const topics = alike.filter(isOurs);
    const drop = {
      what: `${topics.length} topics ${config.name}.*`,
      async run() {
        const again = await openLog(config, reload);
        try {
          await again.admin.deleteTopics(topics);
        } finally {
          await again.close();
        }
      },
    };
    return { steps: topics.length === 0 ? [] : [drop], strangers: alike.filter((topic) => !isOurs(topic)) };
  } finally {
    await log.close();
  }
}

/** A name that begins as ours does may be anybody's: another pipeline's, Debezium's, an application's. */
async function ownTopics(
  config: Config,
  log: EventLog,
  session: SourceSession | null,
): Promise<(topic: string) => boolean> {
  const { name } = config;
  const foreign = await foreignTables(config, contractFolder(config.contracts));
  const shapes = shapesOf(log.reader, name, foreign);
  // A pipeline is torn down because it is broken, too: what the log cannot say, the source may.
  await shapes.refresh().catch(() => undefined);
  const ours = new Set(shapes.tables().map(({ schema, table }) => quarantineTopic(name, schema, table)));
  if (foreign === null) {
    // Of a table that was never read only the topic stands: the log does not know it yet, the source does.
    const wanted = session === null ? [] : await listTables(session);
    const known = [
      ...shapes.tables(),
      ...wanted.filter((table) => matchesGlobs(config.source.tables, table.schema, table.table)),
    ];
    for (const { schema, table } of known) ours.add(dataTopic(name, schema, table));
  }
  return (topic) => topic.startsWith(`${name}.__`) || ours.has(topic);
}

function stateSteps(config: Config, cwd: string): { readonly steps: Step[]; readonly strangers: readonly string[] } {
  const state = resolve(cwd, config.state);
  const log = resolve(cwd, config.log.path);
  const files = [filesOf(state, 'state'), ...(log === join(state, 'log') ? [] : [filesOf(log, 'log')])];
  return {
    steps: files
      .filter(({ own }) => own.length > 0)
      .map((each) => ({ what: `local state ${each.folder}`, run: () => Promise.resolve(removeFiles(each)) })),
    strangers: files.flatMap(({ folder, own, strangers }) =>
      own.length === 0 ? [] : strangers.map((name) => join(folder, name)),
    ),
  };
}

async function lakeSteps(
  config: Config,
  lake: ObjectStore,
  tables: boolean,
): Promise<{ readonly steps: Step[]; readonly strangers: readonly string[] }> {
  const { own, strangers } = await objectsOf(lake, config.name, tables);
  const what = tables
    ? `${own.length} objects of the lake ${lake.uri}`
    : `${own.length} objects under ${lake.uri}/_sluice`;
  return {
    steps: own.length === 0 ? [] : [{ what, run: () => lake.delete(own) }],
    strangers: strangers.map((name) => `${lake.uri}/${name}`),
  };
}
