import { readFileSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { request as httpRequest } from 'node:http';
import type { Config } from '../../runtime/config.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { withConfig, type CommandModule } from '../command.ts';
import { describeStatus, type StatusReport } from '../status-report.ts';

interface Flags {
  readonly config?: string;
  readonly json?: boolean;
  readonly url?: string;
}

/** `sluice status`: asks the running service. Exit 4 when a table or the reader stands still by a named state. */
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
        return stopped ? ExitCode.namedState : ExitCode.clean;
      }),
    );
};

export async function fetchStatus(config: Config, given: string | undefined): Promise<StatusReport> {
  const scheme = config.http.tls.cert === null ? 'http' : 'https';
  const host = config.http.host === '0.0.0.0' ? '127.0.0.1' : config.http.host;
  const url = new URL('/status', given ?? `${scheme}://${host}:${config.http.port}`);
  try {
    return JSON.parse(await get(url, config)) as StatusReport;
  } catch (cause) {
    throw new SluiceError(
      'SERVICE_UNREACHABLE',
      `no sluice service answers at ${url.origin}: ${cause instanceof Error ? cause.message : ''}`,
      {
        exit: ExitCode.environment,
        remedy: 'start it with `sluice run`, or name its endpoint with --url',
        cause,
      },
    );
  }
}

function get(url: URL, config: Config): Promise<string> {
  const headers = config.http.token === null ? {} : { authorization: `Bearer ${config.http.token}` };
  const { ca, cert, key } = config.http.tls;
  // Our own certificate is pinned: the service and this command read the same configuration.
  const pinned = [ca, cert].filter((path) => path !== null).map((path) => readFileSync(path));
  const secure = url.protocol === 'https:';
  return new Promise((resolve, reject) => {
    const options = {
      headers,
      timeout: 10_000,
      ...(secure && cert !== null && key !== null
        ? {
            agent: new Agent({
              ca: pinned,
              cert: readFileSync(cert),
              key: readFileSync(key),
              checkServerIdentity: () => undefined,
            }),
          }
        : {}),
    };
    const call = (secure ? httpsRequest : httpRequest)(url, options, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (body += chunk));
      response.on('end', () => {
        if (response.statusCode === 200) resolve(body);
        else
          reject(
            new Error(
              `it answered ${response.statusCode ?? 0}${response.statusCode === 401 ? ' (http.token is wrong)' : ''}`,
            ),
          );
      });
    });
    call.on('timeout', () => call.destroy(new Error('no answer within 10 s')));
    call.on('error', reject);
    call.end();
  });
}
