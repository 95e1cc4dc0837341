import { Option } from 'commander';
import { COMPATIBILITY_MODES } from '../engine/model.ts';
import { runCheck } from './check.ts';
import { choice, formatOf, formatOption, openSettings } from './arguments.ts';
import type { Register } from './arguments.ts';
import { FAIL_ON } from './report/report.ts';

interface Flags {
  readonly against?: string;
  readonly mode?: string;
  readonly strict?: boolean;
  readonly failOn?: string;
  readonly format?: string;
  readonly output?: string;
  readonly contracts?: string;
  readonly table?: string;
  readonly allVersions?: boolean;
  readonly source?: string;
  readonly lake?: string;
  readonly data?: string;
  readonly config?: string;
  readonly quiet?: boolean;
}

export const registerCheck: Register = ({ program, ports, action }) => {
  program
    .command('check')
    .description('lint, compatibility, version and privacy gates, drift, blast radius: the one command for CI')
    .argument('[paths...]', 'contract files, or folders of them (default: contracts)')
    .option('--against <base>', 'branch, tag or commit (its merge-base with HEAD), folder or file to compare with')
    .addOption(
      new Option('--mode <mode>', 'compatibility mode, in place of the contracts’ own').choices(COMPATIBILITY_MODES),
    )
    .option('--strict', 'widened types are errors; warnings fail in JUnit')
    .addOption(new Option('--fail-on <level>', 'what makes exit code 1 (default: error)').choices(FAIL_ON))
    .addOption(formatOption())
    .option('--output <file>', 'write the report there instead of to stdout')
    .option('--contracts <folder>', 'where the contracts and contracts.config.yaml are')
    .option('--table <glob>', 'only these tables: orders, public.*')
    .option('--all-versions', 'against every released version (git tags), whatever the mode')
    .option('--source <url>', 'compare with the live catalog: postgres://…')
    .option('--lake <uri>', 'compare with the Delta tables of this lake')
    .option(
      '--data <span>',
      'how many rows of the last 7d (90s, 15m, 1h, 2w) the contract would hold back; needs --lake or --config',
    )
    .option('--config <file>', 'for --data: count events of the log that this sluice.yaml names, not rows of the lake')
    .option('--quiet', 'no summary, no infos')
    .action(
      action(async (given: readonly string[], flags: Flags) => {
        const { paths, settings } = openSettings(ports, given, flags.contracts);
        const { defaults } = settings;
        const lake = flags.lake ?? defaults.lake ?? null;
        return runCheck(
          ports,
          {
            paths,
            against: flags.against ?? defaults.against ?? null,
            mode:
              flags.mode === undefined && defaults.mode === undefined
                ? null
                : choice('mode', flags.mode ?? defaults.mode, 'FORWARD_TRANSITIVE', COMPATIBILITY_MODES),
            strict: flags.strict ?? settings.strict,
            failOn: choice('failOn', flags.failOn ?? defaults.failOn, 'error', FAIL_ON),
            format: formatOf(flags.format ?? defaults.format),
            output: flags.output ?? null,
            table: flags.table ?? null,
            allVersions: flags.allVersions === true,
            source: flags.source ?? defaults.source ?? null,
            lake,
            config: flags.config ?? null,
            data: flags.data ?? (lake === null ? null : (defaults.data ?? null)),
            quiet: flags.quiet === true,
          },
          settings,
        );
      }),
    );
};
