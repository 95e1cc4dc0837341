import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { restoreTable } from '../../../lakehouse/upkeep/restore.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { openTablePlace, parseVersion, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

interface RestoreCommandOptions extends TableOptions {
  readonly to: string;
  readonly ignoreMissing?: boolean;
}

/** `sluice table restore`: an older version again, as a new commit. */
export const restoreCommand: CommandModule = (table, context) => {
  tableCommand(table, 'restore', 'bring an older version back, as a new commit')
    .requiredOption('--to <version|time>', 'the version')
    .option('--ignore-missing', 'even though files of it are gone: their rows are lost')
    .action(
      context.run(async (name: string, options: RestoreCommandOptions) => {
        const store = openTablePlace(context, name, options);
        const target = await parseVersion(store, options.to);
        const done = await restoreTable(store, target, { ignoreMissing: options.ignoreMissing === true });
        const shown = { restored: target, version: done.snapshot.version, changed: done.version !== null };
        context.out(
          options.json === true
            ? `${stringifyLossless(shown)}\n`
            : done.version === null
              ? `the table already is as it was at version ${target}\n`
              : `version ${done.version} is as version ${target} was\n`,
        );
        return ExitCode.clean;
      }),
    );
};
