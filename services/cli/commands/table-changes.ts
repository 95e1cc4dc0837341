import { jsonRow } from '../../../lakehouse/read/json-value.ts';
import { changesSchema, readChanges } from '../../../lakehouse/read/changes.ts';
import { openSnapshot } from '../../../lakehouse/table/snapshot.ts';
import { ExitCode } from '../../runtime/errors.ts';
import type { CommandModule } from '../command.ts';
import { openTablePlace, parseVersion, tableCommand } from '../table-place.ts';
import type { TableOptions } from '../table-place.ts';

interface ChangesOptions extends TableOptions {
  readonly from: string;
  readonly to?: string;
}

/** `sluice table changes`: the change data feed, one JSON object a line (with or without `--json`), as it streams. */
export const changesCommand: CommandModule = (table, context) => {
  tableCommand(table, 'changes', 'the rows that changed between two versions, one JSON object a line')
    .requiredOption('--from <version|time>', 'first version, inclusive')
    .option('--to <version|time>', 'last version, inclusive (default: the newest)')
    .action(
      context.run(async (name: string, options: ChangesOptions) => {
        const store = openTablePlace(context, name, options);
        const from = await parseVersion(store, options.from);
        const asked = options.to === undefined ? {} : { version: await parseVersion(store, options.to) };
        const last = await openSnapshot(store, asked);
        const schema = changesSchema(last);
        for await (const batch of readChanges(store, { from, to: last.version })) {
          context.signal.throwIfAborted();
          let text = '';
          for (let row = 0; row < batch.rowCount; row++) text += `${jsonRow(schema, batch, row)}\n`;
          context.out(text);
        }
        return ExitCode.clean;
      }),
    );
};
