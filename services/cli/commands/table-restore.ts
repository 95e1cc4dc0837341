import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { restoreTable } from '../../../lakehouse/upkeep/restore.ts';
import { parseLsn } from '../../log/position.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { isUri, openTablePlace, parseVersion, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';
import { versionAtLsn } from '../version-at-lsn.ts';

interface RestoreCommandOptions extends TableOptions {
  readonly to: string;
  readonly ignoreMissing?: boolean;
}

/** `sluice table restore`: an older version again, as a new commit. */
export const restoreCommand: CommandModule = (table, context) => {
  tableCommand(table, 'restore', 'bring an older version back, as a new commit')
    .requiredOption('--to <version|time|lsn>', 'a version, a time, or an LSN of the source such as 0/16B3748')
    .option('--ignore-missing', 'even though files of it are gone: their rows are lost')
    .action(
      context.run(async (name: string, options: RestoreCommandOptions) => {
        const store = openTablePlace(context, name, options);
        const target = LSN.test(options.to)
          ? await versionAtLsn(store, parseLsn(options.to), context.loadConfig(options.config).name)
          : await parseVersion(store, options.to);
        const done = await restoreTable(store, target, { ignoreMissing: options.ignoreMissing === true });
        // The stream's own table: its position stays where it is, so that nothing is applied twice.
        const streamed = !isUri(name) && [...done.snapshot.txns.keys()].some((appId) => appId.endsWith('/lsn.high'));
        const repair = streamed ? `sluice repair ${name.includes('.') ? name : `public.${name}`}` : null;
        const shown = { restored: target, version: done.snapshot.version, changed: done.version !== null, repair };
        context.out(
          options.json === true
            ? `${stringifyLossless(shown)}\n`
            : done.version === null
              ? `the table already is as it was at version ${target}\n`
              : `version ${done.version} is as version ${target} was\n${after(repair)}`,
        );
        return ExitCode.clean;
      }),
    );
};

const LSN = /^[0-9a-f]{1,8}\/[0-9a-f]{1,8}$/i;

/** What holds for a table that a stream keeps. */
function after(repair: string | null): string {
  if (repair === null) return '';
  return `the stream goes on with what changes from now on; to bring its rows up to the source again: ${repair}\n`;
}
