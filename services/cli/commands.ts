import type { CommandModule } from './command.ts';
import { sqlCommand } from './commands/sql.ts';
import { tableCommands } from './commands/table.ts';
import { demoCommand } from './commands/demo.ts';
import { readerCommand, runCommand, streamCommand } from './commands/run.ts';
import { statusCommand } from './commands/status.ts';
import { verifyCommand } from './commands/verify.ts';

/** Every command of `sluice`, in the order of its help. */
export const COMMANDS: readonly CommandModule[] = [
  demoCommand,
  runCommand,
  readerCommand,
  streamCommand,
  statusCommand,
  verifyCommand,
  tableCommands,
  sqlCommand,
];
