import { Option } from 'commander';
import { choice, formatOf, formatOption, openSettings } from './arguments.ts';
import type { Register } from './arguments.ts';
import { usageError } from './exit-code.ts';
import { FAIL_ON } from './report/report.ts';
import { runTest, STAGES } from './test-rules.ts';
import type { Stage } from './test-rules.ts';

interface Flags {
  readonly stage?: Stage;
  readonly rule?: string;
  readonly since?: string;
  readonly sample?: string;
  readonly dryRun?: boolean;
  readonly table?: string;
  readonly contracts?: string;
  readonly source?: string;
  readonly lake?: string;
  readonly config?: string;
  readonly strict?: boolean;
  readonly failOn?: string;
  readonly format?: string;
  readonly output?: string;
  readonly quiet?: boolean;
}

const SAMPLE_MAX = 1000;

function wholeNumber(text: string | undefined): number {
  if (text === undefined) return 0;
  const count = /^\d{1,4}$/.test(text) ? Number(text) : SAMPLE_MAX + 1;
  if (count <= SAMPLE_MAX) return count;
  throw usageError(`--sample ${text} is no number of rows`, `write 0 to ${SAMPLE_MAX}`);
}

export const registerTest: Register = ({ program, ports, action }) => {
  program
    .command('test')
    .description('run the rules on the source, the stream or the lake; each ends as passed, failed or NOT RUN')
    .argument('[paths...]', 'contract files, or folders of them (default: contracts)')
    .addOption(new Option('--stage <stage>', 'where to test (default: lake)').choices(STAGES))
    .option('--rule <id>', 'only this rule')
    .option('--since <span>', 'only rows of the last 1h (90s, 15m, 7d, 2w); stream and lake')
    .option('--sample <n>', 'name so many failing rows of each rule by their keys; classified values are masked')
    .option('--dry-run', 'list what would run, and read nothing')
    .option('--table <glob>', 'only these tables')
    .option('--contracts <folder>', 'where the contracts and contracts.config.yaml are')
    .option('--source <url>', 'for --stage source: postgres://…')
    .option('--lake <uri>', 'for --stage lake: a path, file:///… or s3://bucket/prefix')
    .option('--config <file>', 'for --stage stream: the configuration that names the log (default: ./sluice.yaml)')
    .option('--strict', 'warnings fail in JUnit')
    .addOption(new Option('--fail-on <level>', 'what makes exit code 1 (default: error)').choices(FAIL_ON))
    .addOption(formatOption())
    .option('--output <file>', 'write the report there instead of to stdout')
    .option('--quiet', 'only what did not pass')
    .action(
      action(async (given: readonly string[], flags: Flags) => {
        const { paths, settings } = openSettings(ports, given, flags.contracts);
        const { defaults } = settings;
        return runTest(ports, {
          paths,
          stage: flags.stage ?? 'lake',
          rule: flags.rule ?? null,
          since: flags.since ?? null,
          sample: wholeNumber(flags.sample),
          dryRun: flags.dryRun === true,
          table: flags.table ?? null,
          source: flags.source ?? defaults.source ?? null,
          lake: flags.lake ?? defaults.lake ?? null,
          config: flags.config ?? defaults.config ?? null,
          strict: flags.strict ?? settings.strict,
          failOn: choice('failOn', flags.failOn ?? defaults.failOn, 'error', FAIL_ON),
          format: formatOf(flags.format ?? defaults.format),
          output: flags.output ?? null,
          quiet: flags.quiet === true,
        });
      }),
    );
};
