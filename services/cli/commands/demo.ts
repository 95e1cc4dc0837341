import { resolve } from 'node:path';
import { createLogger } from '../../runtime/logger.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import type { CliContext, CommandModule } from '../command.ts';
import { runDemo, type DemoSummary } from '../demo/run-demo.ts';

interface Flags {
  readonly seconds: string;
  readonly rows: string;
  readonly seed: string;
  readonly json?: boolean;
  readonly keep?: string;
}

/** `sluice demo`: the whole way on this machine, and the proof at its end. Exit 1 if anything differs. */
export const demoCommand: CommandModule = (program, context) => {
  program
    .command('demo')
    .description('run the whole path here: a PostgreSQL from npm, a workload, a lake in a folder, and the comparison')
    .option('--seconds <n>', 'seconds of workload', '10')
    .option('--rows <n>', 'orders loaded at the start', '5000')
    .option('--seed <n>', 'seed of the workload', '1')
    .option('--keep <dir>', 'leave lake, contracts and state there')
    .option('--json', 'print the summary as one JSON object')
    .action(context.run(async (flags: Flags) => demo(flags, context)));
};

async function demo(flags: Flags, context: CliContext): Promise<ExitCode> {
  const json = flags.json === true;
  const say = (text: string): void => {
    if (!json) context.out(text);
  };
  const live = context.isTty && !json;
  const summary = await runDemo({
    seconds: positive(flags.seconds, '--seconds'),
    rows: positive(flags.rows, '--rows'),
    seed: positive(flags.seed, '--seed'),
    keep: flags.keep === undefined ? null : resolve(context.cwd, flags.keep),
    logger: createLogger({ level: 'error', pipeline: 'shop' }),
    signal: context.signal,
    onStep: (text) => say(`${live ? '\r\u001b[K' : ''}- ${text}\n`),
    onProgress: (line) => say(live ? `\r\u001b[K  ${line}` : `  ${line}\n`),
  });
  if (live) context.out('\r\u001b[K');
  if (json) context.out(`${JSON.stringify(summary)}\n`);
  else context.out(describe(summary));
  if (context.signal.aborted) return ExitCode.findings;
  return summary.verified ? ExitCode.clean : ExitCode.findings;
}

function positive(text: string, flag: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new ConfigError(`${flag} cannot be '${text}'`, 'give a whole number above 0');
}

function describe(summary: DemoSummary): string {
  const head = ['table', 'source rows', 'lake rows', 'batches', 'version', 'quarantined', 'equal'];
  const rows = summary.tables.map((table) => [
    table.table,
    String(table.sourceRows),
    String(table.lakeRows),
    String(table.batches),
    table.version ?? '-',
    String(table.quarantined),
    table.equal
      ? table.parkedKeys > 0
        ? `yes, but ${table.parkedKeys} parked`
        : 'yes'
      : `NO, ${table.differences} rows`,
  ]);
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('  ')}\n`;
  let text = `\n${line(head)}${rows.map(line).join('')}`;
  for (const reason of summary.quarantine) {
    text += `quarantined in ${reason.table}: ${reason.rows} by ${reason.rule} (${reason.message})\n`;
  }
  const { workload } = summary;
  text += `workload: ${workload.transactions} transactions, ${workload.rowChanges} row changes, ${workload.rolledBack} rolled back\n`;
  text += `${summary.events} events in ${summary.seconds} s, ${summary.eventsPerSecond} events/s; ${summary.snapshotRows} rows by snapshot; lag ${summary.lagSeconds} s\n`;
  if (summary.lake !== null) {
    text += `the lake stands in ${summary.lake}; query it with\n  npx sluice sql --table orders=${summary.lake}/public/orders "select count(*) from orders"\n`;
  }
  return `${text}verified: ${summary.verified}\n`;
}
