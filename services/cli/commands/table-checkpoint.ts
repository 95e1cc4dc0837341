import { writeCheckpoint } from '../../../lakehouse/table/checkpoint.ts';
import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { cleanLog } from '../../../lakehouse/upkeep/clean-log.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatBytes } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

/** `sluice table checkpoint`: writes one of the newest version, and with `--clean` removes the log that it makes needless. */
export const checkpointCommand: CommandModule = (table, context) => {
  tableCommand(table, 'checkpoint', 'write a checkpoint of the newest version')
    .option('--clean', 'then remove the log older than delta.logRetentionDuration')
    .action(
      context.run(async (name: string, options: TableOptions & { readonly clean?: boolean }) => {
        const store = openTablePlace(context, name, options);
        const written = await writeCheckpoint(await openSnapshot(store, { tombstones: true }));
        const cleaned = options.clean === true ? await cleanLog(store) : null;
        if (options.json === true) {
          context.out(
            `${stringifyLossless({ ...written, ...(cleaned === null ? {} : { logFilesRemoved: cleaned.removed.length }) })}\n`,
          );
          return ExitCode.clean;
        }
        context.out(
          `checkpoint of version ${written.version}: ${written.actions} actions, ${formatBytes(written.sizeBytes)}\n`,
        );
        if (cleaned !== null) context.out(`${cleaned.removed.length} log files removed\n`);
        return ExitCode.clean;
      }),
    );
};
