import { ExitCode } from '../../runtime/errors.ts';
import { withConfig, type CommandModule } from '../command.ts';
import type { CheckResult } from '../doctor/check.ts';
import { runChecks } from '../doctor/checks.ts';

interface Flags {
  readonly config?: string;
  readonly json?: boolean;
}

/** `sluice doctor`: everything that a first user gets wrong, with the fix for each. Exit 1 when something must be mended. */
export const doctorCommand: CommandModule = (program, context) => {
  withConfig(program.command('doctor'))
    .description('check source, log, lake and contracts, and say the fix for each finding')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (flags: Flags) => {
        const config = context.loadConfig(flags.config);
        const results: CheckResult[] = [];
        await runChecks(
          config,
          () => context.loadConfig(flags.config),
          (result) => {
            results.push(result);
            if (flags.json !== true) context.out(describe(result));
          },
        );
        const healthy = results.every((result) => result.status !== 'error');
        if (flags.json === true) context.out(`${JSON.stringify({ schemaVersion: 1, healthy, checks: results })}\n`);
        return healthy ? ExitCode.clean : ExitCode.findings;
      }),
    );
};

function describe({ name, status, detail, fix }: CheckResult): string {
  return `${status.padEnd(7)} ${name}: ${detail}\n${fix === '' ? '' : `        fix: ${fix}\n`}`;
}
