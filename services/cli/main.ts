/**
 * The command line. What takes signals is set up before anything else is loaded: loading takes a second on a busy machine, and
 * whoever ends a service in that second gets the same 0 as later.
 */
import { existsSync, readFileSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import type { CliContext } from './command.ts';

// The SDK's notice about Node versions would stand in front of every answer; `engines` says what is supported.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';

/** How long open handles may live on after a command's end. */
const LINGER_MS = 1_000;
/** From the first signal on; a service promises to be gone within ten seconds. */
const ENDED_MS = 9_000;
/** Commands that a signal ends in order: 0. Any other was broken off: 130. */
const SERVICES: readonly string[] = ['run', 'reader', 'stream', 'console'];
const BROKEN_OFF = 130;

const abort = new AbortController();
const endedBySignal = SERVICES.includes(process.argv[2] ?? '') ? 0 : BROKEN_OFF;
let loaded = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // Nothing was begun.
    if (!loaded) process.exit(endedBySignal);
    // A second signal means now.
    if (abort.signal.aborted) process.exit(BROKEN_OFF);
    abort.abort(signal);
    setTimeout(() => end(endedBySignal), ENDED_MS).unref();
  });
}

const [{ Command, CommanderError }, { parseConfig }, { ConfigError, ExitCode, SluiceError }, { withoutCredentials }] =
  await Promise.all([
    import('commander'),
    import('../runtime/config.ts'),
    import('../runtime/errors.ts'),
    import('../runtime/logger.ts'),
  ]);
const [{ COMMANDS }, { explainFailure }] = await Promise.all([import('./commands.ts'), import('./explain-failure.ts')]);
loaded = true;

// `sluice … | head`: the reader went away, and that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

const context: CliContext = {
  env: process.env,
  cwd: process.cwd(),
  out: (text) => void process.stdout.write(text),
  write: (text) =>
    new Promise((resolve, reject) => {
      process.stdout.write(text, (error) => (error == null ? resolve() : reject(error)));
    }),
  err: (text) => void process.stderr.write(text),
  isTty: process.stdout.isTTY,
  loadConfig(path) {
    const file = path ?? 'sluice.yaml';
    const absolute = resolve(process.cwd(), file);
    const present = existsSync(absolute);
    if (!present && path !== undefined) {
      throw new ConfigError(
        `${path} does not exist`,
        'name an existing file with --config, or write one with `sluice init`',
      );
    }
    return parseConfig({
      text: present ? readFileSync(absolute, 'utf8') : null,
      file,
      env: process.env,
      readFile: (name) => readFileSync(name, 'utf8'),
    });
  },
  signal: abort.signal,
  run:
    (action) =>
    async (...args) => {
      try {
        process.exitCode = await action(...args);
      } catch (error) {
        // What fails then fails because of it.
        if (abort.signal.aborted && endedBySignal === BROKEN_OFF) {
          process.stderr.write(`sluice: broken off by ${String(abort.signal.reason)}\n`);
          process.exitCode = BROKEN_OFF;
          return;
        }
        const failure = explainFailure(error);
        const code = failure.code === null ? '' : `${failure.code} `;
        process.stderr.write(`sluice: ${code}${withoutCredentials(failure.message)}\n`);
        if (failure.remedy !== '') process.stderr.write(`  ${failure.remedy}\n`);
        if (!(error instanceof SluiceError) && process.env['SLUICE_DEBUG'] !== undefined) {
          process.stderr.write(`${withoutCredentials(error instanceof Error ? (error.stack ?? '') : '')}\n`);
        }
        process.exitCode = failure.exit;
      }
    },
};

const program = new Command('sluice')
  .description('Keeps a Delta Lake row-for-row equal to a PostgreSQL database, through Kafka, behind data contracts.')
  .version('0.1.0')
  .exitOverride()
  .showSuggestionAfterError();
for (const register of COMMANDS) register(program, context);

try {
  await program.parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? ExitCode.clean : ExitCode.usage;
}

/**
 * The command is over and nothing should be open any more; what still is must not hold the user, and is worth a name. A last
 * resort: requests to a store that takes them and never answers are the one thing known to be left (test/e2e/service-start-stop.test.ts).
 */
const linger = (): void => {
  if (process.stdout.writableLength > 0 || process.stderr.writableLength > 0) {
    setTimeout(linger, LINGER_MS).unref();
    return;
  }
  end(process.exitCode);
};
setTimeout(linger, LINGER_MS).unref();

function end(code: typeof process.exitCode): never {
  if (process.env['SLUICE_DEBUG'] !== undefined)
    writeSync(2, `sluice: still open at the end: ${process.getActiveResourcesInfo().join(', ')}\n`);
  process.exit(code);
}
