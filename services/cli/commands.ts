import type { CommandModule } from './command.ts';
import { sqlCommand } from './commands/sql.ts';
import { tableCommands } from './commands/table.ts';
import { benchCommand } from './commands/bench.ts';
import { demoCommand } from './commands/demo.ts';
import { addCommand, removeCommand } from './commands/add.ts';
import { adoptCommand } from './commands/adopt.ts';
import { backfillCommand } from './commands/backfill.ts';
import { doctorCommand } from './commands/doctor.ts';
import { faultsCommand } from './commands/faults.ts';
import { explainCommand } from './commands/explain.ts';
import { initCommand } from './commands/init.ts';
import { pauseCommand, resumeCommand } from './commands/pause.ts';
import { planCommand } from './commands/plan.ts';
import { quarantineCommands } from './commands/quarantine.ts';
import { repairCommand } from './commands/repair.ts';
import { replayCommand } from './commands/replay.ts';
import { teardownCommand } from './commands/teardown.ts';
import { readerCommand, runCommand, streamCommand } from './commands/run.ts';
import { statusCommand } from './commands/status.ts';
import { verifyCommand } from './commands/verify.ts';

/** Every command of `sluice`, in the order of its help. */
export const COMMANDS: readonly CommandModule[] = [
  demoCommand,
  initCommand,
  runCommand,
  readerCommand,
  streamCommand,
  statusCommand,
  doctorCommand,
  planCommand,
  explainCommand,
  adoptCommand,
  addCommand,
  removeCommand,
  pauseCommand,
  resumeCommand,
  verifyCommand,
  repairCommand,
  backfillCommand,
  replayCommand,
  quarantineCommands,
  teardownCommand,
  tableCommands,
  sqlCommand,
  benchCommand,
  faultsCommand,
];
