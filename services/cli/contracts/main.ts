import { runContracts } from '../../../contracts/cli/command-line.ts';
import { CommandError, EXIT } from '../../../contracts/cli/exit-code.ts';
import type { CommandErrorCode } from '../../../contracts/cli/exit-code.ts';
import type { Ports } from '../../../contracts/cli/ports.ts';
import { openStore } from '../../../lakehouse/store/open-store.ts';
import { parseConnection } from '../../reader/connection.ts';
import { openPostgresSource } from '../../reader/pg-source.ts';
import { codeOf } from '../../runtime/codes.ts';
import { ExitCode } from '../../runtime/errors.ts';
import { withoutCredentials } from '../../runtime/logger.ts';
import { explainFailure } from '../explain-failure.ts';
import { diskFiles } from './disk-files.ts';
import { createGit } from './git-process.ts';
import { openLakeSession } from './lake-table.ts';
import { openCatalog } from './live-catalog.ts';
import { openStream } from './log-stream.ts';

// `contracts … | head`: the reader went away, and that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

const nowMicros = (): bigint => BigInt(Date.now()) * 1000n;

/** What a port throws becomes one error of the environment, or of usage, with what to do. */
async function reached<T>(code: CommandErrorCode, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const failure = explainFailure(error);
    const exit = failure.exit === ExitCode.usage ? EXIT.usage : EXIT.environment;
    throw new CommandError(code, exit, withoutCredentials(failure.message), withoutCredentials(failure.remedy), error);
  }
}

const ports: Ports = {
  cwd: process.cwd(),
  env: process.env,
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  files: diskFiles,
  git: createGit(process.env),
  numberOf: (word) => codeOf(word)?.entry.code ?? null,
  nowMicros,
  catalog: (url) =>
    reached('SOURCE_UNREADABLE', async () => {
      const source = await openPostgresSource(() => parseConnection(url));
      const session = await openCatalog(source, nowMicros);
      return { ...session, tables: () => reached('SOURCE_UNREADABLE', () => session.tables()) };
    }),
  lake: (uri) =>
    reached('LAKE_UNREADABLE', () => {
      const endpoint = process.env['AWS_ENDPOINT_URL_S3'] ?? process.env['AWS_ENDPOINT_URL'] ?? null;
      const region = process.env['AWS_REGION'] ?? process.env['AWS_DEFAULT_REGION'] ?? 'us-east-1';
      return Promise.resolve(openLakeSession(openStore(uri, { endpoint, region }), nowMicros, withoutCredentials));
    }),
  stream: (config) => reached('LOG_UNREADABLE', () => openStream(config, { cwd: process.cwd(), env: process.env })),
};

try {
  process.exitCode = await runContracts(process.argv.slice(2), ports);
} catch (error) {
  const failure = explainFailure(error);
  process.stderr.write(`contracts: ${withoutCredentials(failure.message)}\n`);
  if (failure.remedy !== '') process.stderr.write(`  ${failure.remedy}\n`);
  if (process.env['SLUICE_DEBUG'] !== undefined && error instanceof Error)
    process.stderr.write(`${withoutCredentials(error.stack ?? '')}\n`);
  process.exitCode = failure.exit;
}
