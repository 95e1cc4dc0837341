import type { Config } from '../../runtime/config.ts';
import { ExitCode } from '../../runtime/errors.ts';
import { withConfig, type CommandModule } from '../command.ts';
import { callService } from '../service-client.ts';
import { troubleExit } from '../passing-trouble.ts';
import { describeStatus, troublesOf, type StatusReport } from '../status-report.ts';

interface Flags {
  readonly config?: string;
  readonly json?: boolean;
  readonly url?: string;
}

/** `sluice status`: asks the running service. Exit 4 when a table or the reader stands still by a named state, 3 when the source cannot be reached, or a full disk or a refused login holds it up, 1 when verify found a difference. */
export const statusCommand: CommandModule = (program, context) => {
  withConfig(program.command('status'))
    .description('state, positions and lag of every table of the running pipeline')
    .option('--url <url>', 'endpoint of the service (default: http.host and http.port of the configuration)')
    .option('--json', 'print one JSON object')
    .action(
      context.run(async (flags: Flags) => {
        const config = context.loadConfig(flags.config);
        const report = await fetchStatus(config, flags.url);
        context.out(flags.json === true ? `${JSON.stringify(report)}\n` : describeStatus(report));
        const stopped = report.reader?.stopped != null || report.tables.some((table) => table.why !== null);
        if (stopped) return ExitCode.namedState;
        return report.reader?.phase === 'reconnecting' ? ExitCode.environment : troubleExit(troublesOf(report));
      }),
    );
};

export function fetchStatus(config: Config, url: string | undefined): Promise<StatusReport> {
  return callService<StatusReport>(config, { path: '/status', url });
}
