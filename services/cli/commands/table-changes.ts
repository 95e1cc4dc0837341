import { setTimeout as sleep } from 'node:timers/promises';
import { changesSchema, readChanges } from '../../../lakehouse/read/changes.ts';
import { followChanges } from '../../../lakehouse/read/follow-changes.ts';
import { jsonRow } from '../../../lakehouse/read/json-value.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import type { ColumnBatch } from '../../../lakehouse/table/column.ts';
import type { StructType } from '../../../lakehouse/table/schema.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';
import { isVersion, openTablePlace, openToRead, parseFirstVersion, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';
import { createTextPieces, type Write } from '../text-pieces.ts';

interface ChangesOptions extends TableOptions {
  readonly from: string;
  readonly to?: string;
  readonly follow?: boolean;
}

/** Between two looks at a table that is followed. */
const FOLLOW_PAUSE_MS = 1000;

/** `sluice table changes`: the change data feed, one JSON object a line (with or without `--json`), as it streams. */
export const changesCommand: CommandModule = (table, context) => {
  tableCommand(table, 'changes', 'the rows that changed between two versions, one JSON object a line')
    .requiredOption('--from <version|time>', 'first version, inclusive, or the first from a time on')
    .option('--to <version|time>', 'last version, inclusive, or the last at a time (default: the newest)')
    .option(
      '--follow',
      'go on with every version that comes, until Ctrl-C; a later run goes on from the last `_commit_version` + 1',
    )
    .action(
      context.run(async (name: string, options: ChangesOptions) => {
        const store = openTablePlace(context, name, options);
        const from = await parseFirstVersion(store, options.from);
        if (options.follow === true) return follow(store, from, options.to, context);
        const last = await openToRead(context, store, options.to);
        // Nothing was committed in that time.
        if (from > last.version && !isVersion(options.from)) return ExitCode.clean;
        const schema = changesSchema(last);
        for await (const batch of readChanges(store, { from, to: last.version })) {
          context.signal.throwIfAborted();
          await writeLines(schema, batch, context.write);
        }
        return ExitCode.clean;
      }),
    );
};

async function follow(
  store: ObjectStore,
  from: bigint,
  to: string | undefined,
  { signal, write }: CliContext,
): Promise<ExitCode> {
  if (to !== undefined) throw new ConfigError('--follow has no last version', 'leave out --to or --follow');
  const pause = (): Promise<void> => sleep(FOLLOW_PAUSE_MS, undefined, { signal }).catch(() => undefined);
  for await (const { schema, batch } of followChanges(store, { from, pause, signal }))
    await writeLines(schema, batch, write);
  return ExitCode.clean;
}

async function writeLines(schema: StructType, batch: ColumnBatch, write: Write): Promise<void> {
  const pieces = createTextPieces(write);
  for (let row = 0; row < batch.rowCount; row++) {
    const full = pieces.add(`${jsonRow(schema, batch, row)}\n`);
    if (full !== null) await full;
  }
  await pieces.end();
}
