import type { Command } from 'commander';
import { ConfigError } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import type { PipelineParts } from '../pipeline.ts';
import { runService } from '../service.ts';

interface Flags {
  readonly config?: string;
  readonly availableNow?: boolean;
  readonly failOn?: string;
}

/** `sluice run`: reader and stream in one process. */
export const runCommand: CommandModule = (program, context) => {
  const command = program
    .command('run')
    .description('keep the lake equal to the source: reader and stream in one process');
  withFlags(command).action(
    context.run(async (flags: Flags) => service(flags, { reader: true, stream: true }, 8950, context)),
  );
};

/** `sluice reader`: PostgreSQL to the log, as a service of its own. */
export const readerCommand: CommandModule = (program, context) => {
  const command = program.command('reader').description('the first half: PostgreSQL into the log');
  withFlags(command).action(
    context.run(async (flags: Flags) => service(flags, { reader: true, stream: false }, 8951, context)),
  );
};

/** `sluice stream`: the log to the lake, as a service of its own. */
export const streamCommand: CommandModule = (program, context) => {
  const command = program.command('stream').description('the second half: the log into the lake');
  withFlags(command).action(
    context.run(async (flags: Flags) => service(flags, { reader: false, stream: true }, 8952, context)),
  );
};

function withFlags(command: Command): Command {
  return withConfig(command)
    .option('--available-now', 'catch up with what stands there now, commit everything, exit 0')
    .option('--fail-on <what>', 'quarantine: exit 1 when rows were quarantined');
}

function service(flags: Flags, parts: PipelineParts, port: number, context: CliContext): ReturnType<typeof runService> {
  if (flags.failOn !== undefined && flags.failOn !== 'quarantine') {
    throw new ConfigError(`--fail-on cannot be '${flags.failOn}'`, 'expected: quarantine');
  }
  const reload = (): ReturnType<CliContext['loadConfig']> => {
    const config = context.loadConfig(flags.config);
    // The halves have ports of their own, unless the user chose one.
    return config.http.port === 8950 ? { ...config, http: { ...config.http, port } } : config;
  };
  const config = reload();
  const availableNow = flags.availableNow === true || config.stream.trigger === 'available-now';
  return runService({ config, reload, parts, availableNow, failOnQuarantine: flags.failOn !== undefined }, context);
}
