import type { CommandModule } from './command.ts';

/** Every command of `sluice`, in the order of its help. */
export const COMMANDS: readonly CommandModule[] = [];
