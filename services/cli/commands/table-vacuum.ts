import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { vacuum } from '../../../lakehouse/upkeep/vacuum.ts';
import { parseDuration } from '../../runtime/duration.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatBytes } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

interface VacuumCommandOptions extends TableOptions {
  readonly retain?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

/** `sluice table vacuum`: deletes files that no version in the retention period needs. */
export const vacuumCommand: CommandModule = (table, context) => {
  tableCommand(table, 'vacuum', 'delete the files that no version in the retention period needs')
    .option('--retain <duration>', "instead of the table's delta.deletedFileRetentionDuration, e.g. 168h")
    .option('--dry-run', 'only say what would go')
    .option('--force', "allow a retention below the table's own: only when nothing reads or writes the table")
    .action(
      context.run(async (name: string, options: VacuumCommandOptions) => {
        const retentionMs = options.retain === undefined ? undefined : parseRetention(options.retain);
        const done = await vacuum(openTablePlace(context, name, options), {
          ...(retentionMs === undefined ? {} : { retentionMs }),
          dryRun: options.dryRun === true,
          force: options.force === true,
          inHistory: true,
          signal: context.signal,
        });
        if (options.json === true) {
          context.out(`${stringifyLossless({ ...done, dryRun: options.dryRun === true })}\n`);
          return ExitCode.clean;
        }
        if (options.dryRun === true) for (const key of done.deleted) context.out(`${key}\n`);
        const verb = options.dryRun === true ? 'would be deleted' : 'deleted';
        const unknown = done.leftUnknown === 0 ? '' : `; ${done.leftUnknown} files of unknown kinds left alone`;
        context.out(`${done.deleted.length} files (${formatBytes(done.deletedBytes)}) ${verb}${unknown}\n`);
        return ExitCode.clean;
      }),
    );
};

function parseRetention(text: string): number {
  const ms = parseDuration(text);
  if (ms === null) throw new ConfigError(`--retain ${text} is no duration`, 'write for example 168h or 7d');
  return ms;
}
