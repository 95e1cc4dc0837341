import { readHistory } from '../../../lakehouse/table/history.ts';
import { commitKey } from '../../../lakehouse/table/log-files.ts';
import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { TableError } from '../../../lakehouse/table/table-error.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatTime, printColumns } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

const LIMIT = 20;

interface Entry extends Readonly<Record<string, unknown>> {
  readonly version: bigint;
}

/** `sluice table history`: the commits, newest first. */
export const historyCommand: CommandModule = (table, context) => {
  tableCommand(table, 'history', 'the commits, newest first')
    .option('--limit <n>', 'how many', String(LIMIT))
    .action(
      context.run(async (name: string, options: TableOptions & { readonly limit: string }) => {
        if (!/^[1-9]\d{0,8}$/.test(options.limit)) {
          throw new ConfigError(`--limit ${options.limit} is no count`, 'give a whole number from 1');
        }
        const entries: Entry[] = [];
        const store = openTablePlace(context, name, options);
        let hole: bigint | null = null;
        for await (const { version, timestampMs, commit } of readHistory(store)) {
          const last = entries.at(-1)?.version;
          if (last !== undefined && version !== last - 1n) hole = last - 1n;
          const info = commit.commitInfo ?? {};
          entries.push({
            version,
            timestamp: formatTime(timestampMs),
            operation: info['operation'] ?? null,
            operationParameters: info['operationParameters'] ?? {},
            operationMetrics: info['operationMetrics'] ?? {},
            filesAdded: commit.adds.length,
            filesRemoved: commit.removes.length,
            engineInfo: info['engineInfo'] ?? null,
          });
          if (entries.length >= Number(options.limit)) break;
        }
        context.out(options.json === true ? `${stringifyLossless(entries)}\n` : columns(entries));
        if (hole !== null)
          throw new TableError(
            'LOG_HOLE',
            { table: store.uri, version: hole, file: commitKey(hole) },
            `commit ${hole} is missing although newer ones exist; restore the file from a backup`,
          );
        return ExitCode.clean;
      }),
    );
};

function columns(entries: readonly Readonly<Record<string, unknown>>[]): string {
  const shown = ['version', 'timestamp', 'operation', 'filesAdded', 'filesRemoved', 'engineInfo'];
  const text = (value: unknown): string =>
    typeof value === 'string' ? value : value === null ? '' : stringifyLossless(value);
  return printColumns(
    shown,
    entries.map((entry) => shown.map((column) => text(entry[column]))),
  );
}
