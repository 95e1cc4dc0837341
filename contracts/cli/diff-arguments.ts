import { Option } from 'commander';
import { resolve } from 'node:path';
import { openSettings } from './arguments.ts';
import type { Register } from './arguments.ts';
import { runDiff } from './diff.ts';

interface Flags {
  readonly contracts?: string;
  readonly table?: string;
  readonly format: 'text' | 'json';
}

export const registerDiff: Register = ({ program, ports, action }) => {
  program
    .command('diff')
    .description('all changes from A to B, without a verdict')
    .argument('<a>', 'branch, tag or commit, folder or file')
    .argument('[b]', 'the same (default: the contracts as they stand)')
    .option('--contracts <folder>', 'where the contracts are')
    .option('--table <glob>', 'only these tables')
    .addOption(new Option('--format <format>', 'how to print').choices(['text', 'json']).default('text'))
    .action(
      action(async (from: string, to: string | undefined, flags: Flags) => {
        const { settings } = openSettings(ports, [], flags.contracts);
        const folder = resolve(ports.cwd, flags.contracts ?? 'contracts');
        const { format, table = null } = flags;
        return runDiff(ports, { from, to: to ?? null, folder, table, format }, settings);
      }),
    );
};
