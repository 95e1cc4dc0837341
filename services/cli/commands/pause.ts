import type { Command } from 'commander';
import type { Config } from '../../runtime/config.ts';
import { ExitCode } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import type { PauseAnswer } from '../control-actions.ts';
import { findStopped, mendPlan } from '../mend-stopped.ts';
import { formatTime } from '../print-columns.ts';
import { callService } from '../service-client.ts';

interface Flags {
  readonly config?: string;
  readonly url?: string;
  readonly json?: boolean;
}

/** `sluice pause TABLE…`: the table stands still, the others and the slot go on. */
export const pauseCommand: CommandModule = (program, context) => {
  register(program, context, 'pause', 'stop applying events to tables; the log keeps them, everything else goes on');
};

/** `sluice resume TABLE…`: goes on after a pause, or tries again after a table stopped by name. */
export const resumeCommand: CommandModule = (program, context) => {
  register(program, context, 'resume', 'go on with tables that were paused or that stopped by name');
};

function register(program: Command, context: CliContext, what: 'pause' | 'resume', description: string): void {
  withConfig(program.command(what))
    .description(description)
    .argument('<tables...>', 'SCHEMA.TABLE')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (tables: string[], flags: Flags) => {
        const config = context.loadConfig(flags.config);
        const answer = await callService<PauseAnswer>(config, {
          path: `/control/${what}`,
          body: { tables },
          url: flags.url,
          half: 'stream',
        });
        const standing = what === 'pause' ? [] : await standingStill(config, flags.url, answer.tables);
        const moving = answer.tables.filter((table) => standing.every((line) => line.table !== table));
        if (flags.json === true) context.out(`${JSON.stringify({ schemaVersion: 1, ...answer, standing })}\n`);
        else {
          for (const table of moving) context.out(`${table} ${describe(what, answer)}\n`);
          for (const { table, state, why, remedy } of standing)
            context.out(`${table} stands still (${state}): ${why ?? ''}\n  ${remedy ?? `sluice repair ${table}`}\n`);
        }
        return standing.length === 0 ? ExitCode.clean : ExitCode.namedState;
      }),
    );
}

/** Of these, the tables that no resume sets going: they are to be read again. */
async function standingStill(
  config: Config,
  url: string | undefined,
  tables: readonly string[],
): Promise<
  { readonly table: string; readonly state: string; readonly why: string | null; readonly remedy: string | null }[]
> {
  // Where the reader is a service of its own that does not answer, only the stream's side is known.
  const stopped = await findStopped(config, url).catch(() => null);
  return (stopped?.tables ?? [])
    .filter((line) => tables.includes(line.table) && mendPlan(line) === 'reread')
    .map(({ table, state, why, remedy }) => ({ table, state, why, remedy }));
}

function describe(what: 'pause' | 'resume', { keptUntilMs }: PauseAnswer): string {
  if (what === 'resume') return 'goes on';
  return keptUntilMs === null
    ? 'is paused; the log keeps its events until it is resumed'
    : `is paused; the log keeps its events (log.retention), the first of them until ${formatTime(keptUntilMs)}: resume before`;
}
