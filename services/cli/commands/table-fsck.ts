import { join, resolve } from 'node:path';
import { lakeTableName } from '../../../contracts/engine/lake-name.ts';
import { stringifyLossless } from '../../../lakehouse/table/lossless-json.ts';
import { fsck } from '../../../lakehouse/upkeep/fsck.ts';
import { checkIndex, rebuildIndex, type IndexCheck } from '../../../lakehouse/upkeep/fsck-index.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';
import { formatBytes, printColumns } from '../print-columns.ts';
import { callService, nobodyServes } from '../service-client.ts';
import { isUri, openTablePlace, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';
import { parseTableName } from '../table-name.ts';

interface FsckOptions extends TableOptions {
  readonly quick?: boolean;
  readonly index?: string;
  readonly repair?: boolean;
}

/** `sluice table fsck`: does what the log names stand there as the log says, and does the key index agree? Exit 1 with findings. */
export const fsckCommand: CommandModule = (table, context) => {
  tableCommand(table, 'fsck', 'check files, vectors, statistics and the key index against the log')
    .option('--quick', 'do not read the rows of the files, nor check the index')
    .option('--index <folder>', "the key index's folder; default <state>/index/SCHEMA/TABLE for a table of the lake")
    .option('--repair', 'rebuild the key index if it is wrong; no process may be running on it')
    .action(
      context.run(async (name: string, options: FsckOptions) => {
        if (options.repair === true && options.quick === true)
          throw new ConfigError('--quick does not look at the index', 'leave --quick out to repair it');
        const store = openTablePlace(context, name, options);
        const report = await fsck(store, { deep: options.quick !== true, signal: context.signal });
        const folder = options.quick === true ? null : indexFolder(context, name, options);
        let index = folder === null ? null : await checkIndex(store, folder, context.signal);
        let rebuiltAt: bigint | null = null;
        if (options.repair === true && folder !== null && index !== null && index.findings.length > 0) {
          await refuseWhileRunning(context, options);
          rebuiltAt = await rebuildIndex(store, folder);
          index = await checkIndex(store, folder, context.signal);
        }
        const findings = [...report.findings, ...(index?.findings ?? [])];
        if (options.json === true) {
          context.out(`${stringifyLossless({ ...report, findings, index, rebuiltAt })}\n`);
        } else {
          const rows = findings.map(({ kind, file, message }) => [kind, file, message]);
          if (rows.length > 0) context.out(printColumns(['finding', 'file', 'what to do'], rows));
          const { count, bytes } = report.orphans;
          context.out(
            `version ${report.version}: ${report.filesChecked} files checked, ${findings.length} findings, ` +
              `${count} files (${formatBytes(bytes)}) that the log does not name\n`,
          );
          if (index !== null) context.out(`${indexLine(index)}\n`);
          if (rebuiltAt !== null) context.out(`the key index was built anew at version ${rebuiltAt}\n`);
        }
        return findings.length === 0 ? ExitCode.clean : ExitCode.findings;
      }),
    );
};

function indexLine({ version, rowsChecked, skipped, findings }: IndexCheck): string {
  if (skipped !== null) return `key index: not checked, ${skipped}`;
  if (version !== null) return `key index at version ${version}: ${rowsChecked} rows looked up`;
  return findings.length > 0 ? 'key index: cannot be read' : 'key index: none here';
}

/** Null for a table outside of the lake, whose index nobody named. */
function indexFolder(context: CliContext, name: string, options: FsckOptions): string | null {
  if (options.index !== undefined) return resolve(context.cwd, options.index);
  if (isUri(name)) return null;
  const { schema, table } = parseTableName(name);
  const { state } = context.loadConfig(options.config);
  return join(resolve(context.cwd, state), 'index', lakeTableName(schema), lakeTableName(table));
}

/** A service that runs has the index open: what is built under its hands it would overwrite. */
async function refuseWhileRunning(context: CliContext, options: FsckOptions): Promise<void> {
  const call = { path: '/status', half: 'stream', timeoutMs: 2_000 } as const;
  // One that does not answer in time has it open, too.
  const answered = await callService(context.loadConfig(options.config), call).then(
    () => true,
    (error: unknown) => !nobodyServes(error),
  );
  if (answered) throw new ConfigError('a running service has the key index open', 'stop it, then repair');
}
