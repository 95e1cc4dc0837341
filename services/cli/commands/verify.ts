import type { TableShape } from '../../log/event.ts';
import { formatLsn } from '../../log/position.ts';
import { requireCondition } from '../../replay/source-condition.ts';
import { splitKey } from '../../replay/verify/source-snapshot.ts';
import { parseSize } from '../../runtime/duration.ts';
import { ConfigError, ExitCode, SluiceError } from '../../runtime/errors.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { explainFailure } from '../explain-failure.ts';
import { offerReport } from '../publish-report.ts';
import { REPAIR_VERIFY, repairTable } from '../repair-table.ts';
import { inOrder } from '../in-order.ts';
import { verifyContinuously } from '../verify-continuously.ts';
import { withVerify } from '../verify-session.ts';
import type { SampleSize, TableReport } from '../verify-tables.ts';
import { shownImage } from '../../replay/verify/row-image.ts';

interface Flags {
  readonly config?: string;
  readonly tables?: string;
  readonly where?: string;
  readonly sample?: string;
  readonly rate?: string;
  readonly show: string;
  readonly json?: boolean;
  readonly repair?: boolean;
  readonly continuous?: boolean;
  readonly url?: string;
}

/** `sluice verify`: source and lake compared by row contents at a known LSN, while writes go on. Exit 1 on a difference. */
export const verifyCommand: CommandModule = (program, context) => {
  withConfig(program.command('verify'))
    .description('compare source and lake by row contents at one LSN, while writes go on')
    .option('--tables <globs>', 'tables, as globs on schema.table, with commas between')
    .option('--where <sql>', 'compare only the rows that this condition selects, in the source and in the lake')
    .option('--sample <part>', 'compare a part drawn at random: 0.05, 5%, or a number of rows such as 10000')
    .option('--rate <bytes>', 'bytes of the source read a second, such as 50MB')
    .option('--show <n>', 'differences shown a table', '10')
    .option('--repair', 'read what differs again, through the running service, and compare again')
    .option('--url <url>', 'endpoint of the service, for --repair')
    .option(
      '--continuous',
      'go on with all tables, one after the other, until stopped; the service publishes what is found',
    )
    .option('--json', 'print one JSON object (with --continuous, one a table)')
    .action(context.run(async (flags: Flags) => verify(flags, context)));
};

async function verify(flags: Flags, context: CliContext): Promise<ExitCode> {
  const bytesPerSecond = flags.rate === undefined ? null : parseSize(flags.rate);
  if (flags.rate !== undefined && (bytesPerSecond === null || bytesPerSecond <= 0))
    throw new ConfigError(`--rate cannot be '${flags.rate}'`, 'give a size such as 50MB');
  if (flags.repair === true && flags.where !== undefined)
    throw new ConfigError('--repair and --where do not go together', 'repair looks at whole tables');
  const sample = flags.sample === undefined ? {} : { sample: parseSample(flags.sample) };
  const where = flags.where === undefined ? null : requireCondition(flags.where);
  if (flags.continuous === true) {
    if (where !== null || flags.repair === true || flags.sample !== undefined)
      throw new ConfigError('--continuous goes with none of --where, --sample, --repair', 'it compares whole tables');
    return continuous(flags, bytesPerSecond ?? CONTINUOUS_BYTES, context);
  }
  const reports: TableReport[] = [];
  const standing: { table: string; why: string; remedy: string }[] = [];
  await withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    async (session) => {
      const globs = flags.tables?.split(',').map((glob) => glob.trim()) ?? session.config.source.tables;
      const options = flags.repair === true ? REPAIR_VERIFY : {};
      const compare = (shape: TableShape): Promise<TableReport | SluiceError> =>
        session.verify(shape, { where, bytesPerSecond, options, ...sample }).catch(standsStill);
      // A repair and a rate are for one table at a time.
      const most = flags.repair === true || bytesPerSecond !== null ? 1 : TABLES_AT_ONCE;
      for await (const [shape, found] of inOrder(session.tables(globs), most, compare)) {
        if (found instanceof SluiceError) {
          standing.push({ table: `${shape.schema}.${shape.table}`, why: found.message, remedy: found.remedy });
          if (flags.json !== true) context.out(`${found.message}: not compared\n  ${found.remedy}\n`);
          continue;
        }
        let report = found;
        await offerReport(session, report, { url: flags.url, whole: where === null });
        if (flags.json !== true) context.out(describe(report, Number(flags.show)));
        if (flags.repair === true && !report.equal) {
          const how = { url: flags.url, dryRun: false, signal: context.signal, tell: context.err, first: report };
          report = (await repairTable(session, shape, how)).report;
          if (flags.json !== true) context.out(describe(report, Number(flags.show)));
        }
        reports.push(report);
      }
    },
  );
  const equal = standing.length === 0 && reports.every((report) => report.equal);
  if (flags.json === true)
    context.out(
      `${JSON.stringify({ schemaVersion: 1, equal, tables: reports.map((report) => maskedReport(report, Number(flags.show))), notCompared: standing })}\n`,
    );
  else context.out(`verified: ${equal}\n`);
  return equal ? ExitCode.clean : ExitCode.findings;
}

/** Most of a small table's time goes by until the lake has reached its LSN. */
const TABLES_AT_ONCE = 4;

function standsStill(error: unknown): SluiceError {
  if (error instanceof SluiceError && error.code === 'TABLE_STANDS_STILL') return error;
  throw error;
}

/** Bytes a second that --continuous reads without --rate. */
const CONTINUOUS_BYTES = 5_000_000;

async function continuous(flags: Flags, bytesPerSecond: number, context: CliContext): Promise<ExitCode> {
  const equal = await withVerify(
    () => context.loadConfig(flags.config),
    context.signal,
    (session) =>
      verifyContinuously(session, {
        globs: flags.tables?.split(',').map((glob) => glob.trim()) ?? session.config.source.tables,
        bytesPerSecond,
        url: flags.url,
        signal: context.signal,
        onReport: (report) => {
          const json = (): string => `${JSON.stringify(maskedReport(report, Number(flags.show)))}\n`;
          context.out(flags.json === true ? json() : describe(report, Number(flags.show)));
        },
        onSkipped: (table, error) =>
          context.err(`${table}: ${explainFailure(error).message}; tried again in the next round\n`),
      }),
  );
  return equal ? ExitCode.clean : ExitCode.findings;
}

function describe(report: TableReport, show: number): string {
  const found = report.differences.length + report.unsettled;
  let text = `${report.table}  ${report.equal ? 'equal' : `NOT EQUAL, ${found} keys`}  source ${report.sourceRows} rows, lake ${report.lakeRows} rows, at ${formatLsn(report.lsn)}, version ${report.lakeVersion}`;
  if (report.parkedKeys > 0) text += `, ${report.parkedKeys} keys in quarantine`;
  if (report.sampled !== null) text += `, a sample of ${Number((report.sampled * 100).toPrecision(3))}% of the keys`;
  text += '\n';
  for (const difference of report.differences.slice(0, show))
    text += `  ${difference.kind} ${maskedKey(difference.key)}${difference.columns.length === 0 ? '' : ` in ${difference.columns.join(', ')}`}\n`;
  if (report.differences.length > show) text += `  and ${report.differences.length - show} more\n`;
  if (report.unsettled > 0) text += `  ${report.unsettled} keys kept changing while they were compared\n`;
  for (const { column, reason } of report.left) text += `  column ${column} not compared: ${reason}\n`;
  return text;
}

/** Keys are shown, values are not: of a row's image only the cells' lengths. */
export function maskedReport(report: TableReport, show: number): unknown {
  const { lsn, lakeVersion, differences, ...rest } = report;
  return {
    ...rest,
    lsn: formatLsn(lsn),
    lakeVersion: lakeVersion.toString(),
    differing: differences.length,
    differences: differences.slice(0, show).map(({ kind, key, source, lake, columns }) => ({
      kind,
      key: splitKey(key),
      source: source === null ? null : shownImage(source),
      lake: lake === null ? null : shownImage(lake),
      ...(columns.length === 0 ? {} : { columns }),
    })),
  };
}

/** A share of the keys (0.05, 5%), or a number of rows. */
export function parseSample(text: string): SampleSize {
  const percent = /^(\d+(?:\.\d+)?)%$/.exec(text);
  const value = Number(percent?.[1] ?? text);
  if (percent !== null && value > 0 && value <= 100) return { share: value / 100 };
  if (percent === null && value > 0 && value <= 1 && text.includes('.')) return { share: value };
  if (percent === null && Number.isSafeInteger(value) && value > 0) return { rows: value };
  throw new ConfigError(
    `--sample cannot be '${text}'`,
    'give a share such as 0.05 or 5%, or a number of rows such as 10000',
  );
}

const maskedKey = (key: string): string => `(${splitKey(key).join(', ')})`;
