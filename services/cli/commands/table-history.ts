import { readHistory } from '../../../lakehouse/table/history.ts';
import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatTime, printColumns } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

const LIMIT = 20;

/** `sluice table history`: the commits, newest first. */
export const historyCommand: CommandModule = (table, context) => {
  tableCommand(table, 'history', 'the commits, newest first')
    .option('--limit <n>', 'how many', String(LIMIT))
    .action(
      context.run(async (name: string, options: TableOptions & { readonly limit: string }) => {
        if (!/^[1-9]\d{0,8}$/.test(options.limit)) {
          throw new ConfigError(`--limit ${options.limit} is no count`, 'give a whole number from 1');
        }
        const entries: Readonly<Record<string, unknown>>[] = [];
        for await (const { version, timestampMs, commit } of readHistory(openTablePlace(context, name, options))) {
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
