import type { CommandModule } from './command.ts';
import { sqlCommand } from './commands/sql.ts';
import { tableCommands } from './commands/table.ts';
import { demoCommand } from './commands/demo.ts';

/** Every command of `sluice`, in the order of its help. */
export const COMMANDS: readonly CommandModule[] = [demoCommand, tableCommands, sqlCommand];
