import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { fsck } from '../../../lakehouse/upkeep/fsck.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatBytes, printColumns } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

/** `sluice table fsck`: does what the log names stand there as the log says? Exit 1 with findings. */
export const fsckCommand: CommandModule = (table, context) => {
  tableCommand(table, 'fsck', 'check files, vectors and statistics against the log')
    .option('--quick', 'do not read the rows of the files')
    .action(
      context.run(async (name: string, options: TableOptions & { readonly quick?: boolean }) => {
        const store = openTablePlace(context, name, options);
        const report = await fsck(store, { deep: options.quick !== true, signal: context.signal });
        if (options.json === true) {
          context.out(`${stringifyLossless(report)}\n`);
        } else {
          const rows = report.findings.map(({ kind, file, message }) => [kind, file, message]);
          if (rows.length > 0) context.out(printColumns(['finding', 'file', 'what to do'], rows));
          const { count, bytes } = report.orphans;
          context.out(
            `version ${report.version}: ${report.filesChecked} files checked, ${report.findings.length} findings, ` +
              `${count} files (${formatBytes(bytes)}) that the log does not name\n`,
          );
        }
        return report.findings.length === 0 ? ExitCode.clean : ExitCode.findings;
      }),
    );
};
