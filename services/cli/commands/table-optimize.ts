import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { compactTable } from '../../../lakehouse/upkeep/compact.ts';
import type { CompactOptions } from '../../../lakehouse/upkeep/compact.ts';
import { parseSize } from '../../runtime/duration.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { formatBytes } from '../print-columns.ts';
import { openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

interface OptimizeCommandOptions extends TableOptions {
  readonly targetSize?: string;
  readonly sort?: string;
  readonly zorder?: string;
}

/** `sluice table optimize`: joins small files and takes deleted rows out of the files; with an order, rewrites all. */
export const optimizeCommand: CommandModule = (table, context) => {
  tableCommand(table, 'optimize', 'join small files and purge deleted rows')
    .option('--target-size <size>', 'of the files to be made, default 128MB')
    .option('--sort <columns>', 'rewrite every file in the order of these columns (comma-separated)')
    .option('--zorder <columns>', 'rewrite every file along a Z-curve through these columns (four at most)')
    .action(
      context.run(async (name: string, options: OptimizeCommandOptions) => {
        const store = openTablePlace(context, name, options);
        const snapshot = await openSnapshot(store);
        const compact = compactOptions(options, new Set(snapshot.schema.fields.map((field) => field.name)));
        const done = await compactTable(snapshot, { ...compact, signal: context.signal });
        if (options.json === true) {
          context.out(`${stringifyLossless(done)}\n`);
          return ExitCode.clean;
        }
        context.out(
          done.version === null
            ? 'nothing to do\n'
            : `version ${done.version}: ${done.filesRemoved} files (${formatBytes(done.bytesRemoved)}) became ` +
                `${done.filesAdded} (${formatBytes(done.bytesAdded)}), ${done.rowsPurged} deleted rows purged\n`,
        );
        if (done.binsLost > 0)
          context.out(`${done.binsLost} groups of files were left to another writer that changed them\n`);
        return ExitCode.clean;
      }),
    );
};

function compactOptions(options: OptimizeCommandOptions, columns: ReadonlySet<string>): CompactOptions {
  if (options.sort !== undefined && options.zorder !== undefined) {
    throw new ConfigError('--sort and --zorder exclude each other', 'give one of them');
  }
  const targetBytes = options.targetSize === undefined ? null : parseSize(options.targetSize);
  if (options.targetSize !== undefined && (targetBytes === null || targetBytes < 1)) {
    throw new ConfigError(`--target-size ${options.targetSize} is no size`, 'write for example 128MB');
  }
  const given = options.zorder ?? options.sort;
  const named = given === undefined ? null : given.split(',').map((column) => column.trim());
  const unknown = named?.find((column) => !columns.has(column));
  if (unknown !== undefined) {
    throw new ConfigError(`the table has no column "${unknown}"`, '`sluice table schema` lists the columns');
  }
  if (options.zorder !== undefined && (named?.length ?? 0) > 4) {
    throw new ConfigError('a Z-order takes four columns at most', 'name the four that queries filter by most');
  }
  return {
    ...(targetBytes === null ? {} : { plan: { targetBytes } }),
    ...(named === null ? {} : { order: { kind: options.zorder === undefined ? 'sort' : 'z-order', columns: named } }),
  };
}
