import type { CommandModule } from '../command.ts';
import { changesCommand } from './table-changes.ts';
import { checkpointCommand } from './table-checkpoint.ts';
import { filesCommand } from './table-files.ts';
import { fsckCommand } from './table-fsck.ts';
import { historyCommand } from './table-history.ts';
import { optimizeCommand } from './table-optimize.ts';
import { restoreCommand } from './table-restore.ts';
import { schemaCommand } from './table-schema.ts';
import { showCommand } from './table-show.ts';
import { vacuumCommand } from './table-vacuum.ts';

/** `sluice table …`: one table of the lake, or any Delta table. */
export const tableCommands: CommandModule = (program, context) => {
  const table = program.command('table').description('look at, check and maintain a Delta table');
  for (const register of [
    showCommand,
    historyCommand,
    filesCommand,
    schemaCommand,
    changesCommand,
    optimizeCommand,
    checkpointCommand,
    vacuumCommand,
    fsckCommand,
    restoreCommand,
  ]) {
    register(table, context);
  }
};
