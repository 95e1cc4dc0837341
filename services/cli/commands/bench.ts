import { join } from 'node:path';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';

interface Flags {
  readonly json?: boolean;
  readonly rows: string;
  readonly tableRows: string;
  readonly rate: string;
  readonly tables: string;
  readonly brokers?: string;
  readonly python?: string;
}

const PARTS = ['reader', 'load', 'log', 'gate', 'merge', 'compact', 'open', 'scan', 'stream', 'latency'] as const;
type Part = (typeof PARTS)[number];

/** `sluice bench [part]`: each part beside its baseline in one run on this machine, with memory. One part gives its bare result. */
export const benchCommand: CommandModule = (program, context) => {
  program
    .command('bench')
    .argument('[part]', `one of ${PARTS.join(', ')}; default all`)
    .description('measure the parts on this machine, as ratios to a baseline in the same run')
    .option('--rows <n>', 'rows of reader, load and stream', '200000')
    .option(
      '--table-rows <list>',
      'table sizes of merge, with commas between (50000000 takes some ten minutes)',
      '100000,1000000,10000000',
    )
    .option('--rate <n>', 'rows a second of latency', '1000')
    .option('--tables <n>', 'tables of latency, one of which is written to', '1')
    .option('--brokers <list>', 'Kafka for log and reader, host:port with commas between')
    .option(
      '--python <path>',
      'an interpreter that has deltalake and pyarrow: runs the merge batches through it, too; default one that tests left in .cache',
    )
    .option('--json', 'print one JSON value')
    .action(
      context.run(async (part: string | undefined, flags: Flags) => {
        const wanted = part === undefined ? PARTS : PARTS.filter((name) => name === part);
        if (wanted.length === 0)
          throw new ConfigError(`there is no bench '${part ?? ''}'`, `one of ${PARTS.join(', ')}`);
        const results: Record<string, unknown> = {};
        for (const name of wanted) {
          const result = await measure(name, flags, context, (line) => context.err(`${line}\n`));
          results[name] = result;
          if (flags.json !== true) context.out(await table(name, result));
        }
        if (flags.json === true) context.out(`${JSON.stringify(part === undefined ? results : results[part])}\n`);
        return ExitCode.clean;
      }),
    );
};

async function measure(
  part: Part,
  flags: Flags,
  context: CliContext,
  progress: (line: string) => void,
): Promise<unknown> {
  const rows = count(flags.rows, '--rows');
  const brokers = flags.brokers?.split(',');
  // Loaded when asked for: they bring clients and engines that no other command needs.
  switch (part) {
    case 'reader':
      return (await import('../../../ops/bench/reader.ts')).benchReader(rows, { brokers, pgBin: context.env['PGBIN'] });
    case 'load':
      return (await import('../../../ops/bench/load.ts')).benchLoad(rows);
    case 'log':
      return (await import('../../../ops/bench/log.ts')).benchLog(brokers === undefined ? {} : { brokers });
    case 'gate':
      return (await import('../../../ops/bench/gate.ts')).benchGate();
    case 'merge': {
      const { cachedPython } = await import('../../../ops/bench/merge.ts');
      const { benchMergeApart } = await import('../../../ops/bench/merge-apart.ts');
      const sizes = flags.tableRows.split(',').map((text) => count(text, '--table-rows'));
      return benchMergeApart(sizes, {
        python: flags.python ?? (await cachedPython(join(context.cwd, '.cache'))),
        progress,
      });
    }
    case 'compact':
      return (await import('../../../ops/bench/compact.ts')).benchCompact();
    case 'open':
      return (await import('../../../ops/bench/open.ts')).benchOpen();
    case 'scan':
      return (await import('../../../ops/bench/scan.ts')).benchScan();
    case 'stream':
      return (await import('../../../ops/bench/stream.ts')).benchStream({
        events: rows,
        maxOffsetsPerTrigger: 50_000,
        changeDataFeed: true,
      });
    case 'latency':
      return (await import('../../../ops/bench/latency.ts')).benchLatency(
        count(flags.rate, '--rate'),
        count(flags.tables, '--tables'),
      );
  }
}

function count(text: string, flag: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new ConfigError(`${flag} cannot be '${text}'`, 'give whole numbers above 0');
}

/** A result as lines `name  value`; a list as a table with a line a row. */
async function table(part: Part, result: unknown): Promise<string> {
  if (part === 'gate') {
    const { formatGateBench } = await import('../../../ops/bench/gate.ts');
    return `${formatGateBench(result as Parameters<typeof formatGateBench>[0])}\n`;
  }
  const rows = (Array.isArray(result) ? result : [result]) as Record<string, unknown>[];
  const names = Object.keys(rows[0] ?? {}).filter(
    (name) => typeof rows[0]?.[name] !== 'object' || rows[0]?.[name] === null,
  );
  const cells = rows.map((row) => names.map((name) => shown(row[name])));
  const widths = names.map((name, i) => Math.max(name.length, ...cells.map((line) => line[i]?.length ?? 0)));
  const line = (values: readonly string[]): string =>
    `  ${values.map((value, i) => value.padStart(widths[i] ?? 0)).join('  ')}\n`;
  return `${part}\n${line(names)}${cells.map(line).join('')}`;
}

function shown(value: unknown): string {
  if (typeof value === 'number') return Number.isInteger(value) ? value.toLocaleString('en-US') : value.toFixed(2);
  return value === null || value === undefined ? '-' : typeof value === 'string' ? value : JSON.stringify(value);
}
