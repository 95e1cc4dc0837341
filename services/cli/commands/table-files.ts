import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { parseStats } from '../../../lakehouse/table/stats-read.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { printColumns } from '../print-columns.ts';
import { openTablePlace, openToRead, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

/** `sluice table files`: the live files of a version. */
export const filesCommand: CommandModule = (table, context) => {
  tableCommand(table, 'files', 'the live files, with rows and deletion vectors')
    .option('--at <version|time>', 'an older version')
    .action(
      context.run(async (name: string, options: TableOptions & { readonly at?: string }) => {
        const store = openTablePlace(context, name, options);
        const snapshot = await openToRead(context, store, options.at);
        const files = [...snapshot.files].map((file) => ({
          path: file.path,
          bytes: file.size,
          rows: parseStats(file.stats)?.rowCount ?? null,
          deletedRows: file.deletionVector?.cardinality ?? 0n,
          partitionValues: file.partitionValues,
        }));
        if (options.json === true) {
          context.out(`${stringifyLossless(files)}\n`);
          return ExitCode.clean;
        }
        const rows = files.map((file) => [
          String(file.bytes),
          file.rows === null ? '?' : String(file.rows),
          String(file.deletedRows),
          Object.entries(file.partitionValues)
            .map(([column, value]) => `${column}=${value ?? 'NULL'}`)
            .join(','),
          file.path,
        ]);
        context.out(printColumns(['bytes', 'rows', 'deleted', 'partition', 'path'], rows));
        return ExitCode.clean;
      }),
    );
};
