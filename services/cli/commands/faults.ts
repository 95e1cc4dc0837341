import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LakeKind, LogKind } from '../../../ops/faults/fault-plan.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';

interface Flags {
  readonly seed?: string;
  readonly runs: string;
  readonly log: string;
  readonly lake: string;
  readonly faults: string;
  readonly keep?: string;
  readonly cache?: string;
  readonly json?: boolean;
}

/** `sluice faults`: kills and faults against a pipeline of its own, by a seed; after each run source and lake must be equal. */
export const faultsCommand: CommandModule = (program, context) => {
  program
    .command('faults')
    .description(
      'drill: kill and hurt a pipeline of its own in many ways, by a seed, and compare source and lake after each run',
    )
    .option('--seed <n>', 'seed of the first run; the next ones count up (default: drawn, and shown)')
    .option('--runs <n>', 'runs', '10')
    .option('--log <kinds>', 'embedded, kafka, or both with a comma between (kafka needs Java)', 'embedded')
    .option('--lake <kinds>', 'file, s3, or both with a comma between (s3 needs Go)', 'file')
    .option('--faults <n>', 'faults a run, at most', '6')
    .option('--keep <dir>', 'folder of the runs; those that fail are kept in any case')
    .option('--cache <dir>', 'where fetched servers are kept (default: the user cache folder)')
    .option('--json', 'print one JSON object at the end')
    .action(context.run(async (flags: Flags) => faults(flags, context)));
};

async function faults(flags: Flags, context: CliContext): Promise<ExitCode> {
  const firstSeed = flags.seed === undefined ? 1 + Math.floor(Math.random() * 1_000_000) : count(flags.seed, '--seed');
  const folder =
    flags.keep === undefined ? mkdtempSync(join(tmpdir(), 'sluice-faults-')) : resolve(context.cwd, flags.keep);
  const tell = (line: string): void => (flags.json === true ? context.err : context.out)(`${line}\n`);
  tell(
    `seeds ${firstSeed} and up; one run again: sluice faults --seed N --runs 1 --log ${flags.log} --lake ${flags.lake} --faults ${flags.faults}`,
  );
  // Loaded when asked for: it brings servers and clients that no other command needs.
  const { runDrill } = await import('../../../ops/faults/fault-runner.ts');
  const summary = await runDrill({
    firstSeed,
    runs: count(flags.runs, '--runs'),
    logs: kinds<LogKind>(flags.log, '--log', ['embedded', 'kafka']),
    lakes: kinds<LakeKind>(flags.lake, '--lake', ['file', 's3']),
    faultsMax: count(flags.faults, '--faults'),
    folder,
    program: [process.execPath, fileURLToPath(new URL('../main.js', import.meta.url))],
    env: context.env,
    signal: context.signal,
    tell,
    ...(flags.cache === undefined ? {} : { cache: resolve(context.cwd, flags.cache) }),
  });
  if (flags.keep === undefined && summary.failed.length === 0) rmSync(folder, { recursive: true, force: true });
  if (flags.json === true) context.out(`${JSON.stringify(summary)}\n`);
  else
    context.out(
      `${summary.runs} runs, ${summary.failed.length} failed${summary.failed.map(({ seed }) => ` (seed ${seed})`).join('')}; ${summary.transactions} transactions, ${summary.rowsCompared} rows compared, ${Math.round(summary.seconds)} s\n`,
    );
  return summary.failed.length === 0 && !context.signal.aborted ? ExitCode.clean : ExitCode.findings;
}

function count(text: string, option: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new ConfigError(`${option} cannot be '${text}'`, 'give a whole number above 0');
  return value;
}

function kinds<T extends string>(text: string, option: string, all: readonly [T, ...T[]]): [T, ...T[]] {
  const wanted = text.split(',').map((part) => part.trim());
  const [first, ...rest] = all.filter((kind) => wanted.includes(kind));
  if (first === undefined || rest.length + 1 !== new Set(wanted).size)
    throw new ConfigError(`${option} cannot be '${text}'`, `give ${all.join(' or ')}, or both with a comma between`);
  return [first, ...rest];
}
