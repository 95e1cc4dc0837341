import { contractFolder } from '../../ingest/contract-files.ts';
import { createShapeFeed } from '../../ingest/shape-feed.ts';
import { formatLsn } from '../../log/position.ts';
import { matchesGlobs } from '../../reader/catalog.ts';
import { splitKey } from '../../replay/verify/source-snapshot.ts';
import { parseSize } from '../../runtime/duration.ts';
import { ConfigError, ExitCode } from '../../runtime/errors.ts';
import { openLake } from '../assemble/lake.ts';
import { openLog } from '../assemble/log.ts';
import { openSource } from '../assemble/source.ts';
import { withConfig, type CliContext, type CommandModule } from '../command.ts';
import { lakeReaches } from '../lake-reaches.ts';
import { verifyOne, type TableReport } from '../verify-tables.ts';

interface Flags {
  readonly config?: string;
  readonly tables?: string;
  readonly where?: string;
  readonly rate?: string;
  readonly show: string;
  readonly json?: boolean;
}

/** `sluice verify`: source and lake compared by row contents at a known LSN, while writes go on. Exit 1 on a difference. */
export const verifyCommand: CommandModule = (program, context) => {
  withConfig(program.command('verify'))
    .description('compare source and lake by row contents at one LSN, while writes go on')
    .option('--tables <globs>', 'tables, as globs on schema.table, with commas between')
    .option(
      '--where <sql>',
      'compare only the source rows that this condition selects (rows that are extra in the lake are then not looked for)',
    )
    .option('--rate <bytes>', 'bytes of the source read a second, such as 50MB')
    .option('--show <n>', 'differences shown a table', '10')
    .option('--json', 'print one JSON object')
    .action(context.run(async (flags: Flags) => verify(flags, context)));
};

async function verify(flags: Flags, context: CliContext): Promise<ExitCode> {
  const config = context.loadConfig(flags.config);
  const rate = flags.rate === undefined ? null : parseSize(flags.rate);
  if (flags.rate !== undefined && (rate === null || rate <= 0))
    throw new ConfigError(`--rate cannot be '${flags.rate}'`, 'give a size such as 50MB');
  const reload = (): typeof config => context.loadConfig(flags.config);
  const lake = openLake(config, null, { requests: 0, sentBytes: 0, receivedBytes: 0 });
  const source = await openSource(config, reload);
  const log = await openLog(config, reload);
  const reports: TableReport[] = [];
  try {
    const shapes = createShapeFeed(log.reader, config.name);
    await shapes.refresh();
    const globs =
      flags.tables === undefined ? config.source.tables : flags.tables.split(',').map((glob) => glob.trim());
    const wanted = shapes.tables().filter((shape) => matchesGlobs(globs, shape.schema, shape.table));
    if (wanted.length === 0)
      throw new ConfigError(
        `no table of the pipeline matches ${globs.join(', ')}`,
        'see `sluice status` for the tables, and start `sluice run` if there are none yet',
      );
    for (const shape of wanted) {
      const report = await verifyOne(shape, {
        source,
        lake,
        contracts: contractFolder(config.contracts),
        reached: lakeReaches(config, lake, context.signal, `${shape.schema}.${shape.table}`),
        where: flags.where ?? null,
        bytesPerSecond: rate,
      });
      reports.push(report);
      if (flags.json !== true) context.out(describe(report, Number(flags.show)));
    }
  } finally {
    await log.close();
    await lake.close();
  }
  const equal = reports.every((report) => report.equal);
  if (flags.json === true)
    context.out(
      `${JSON.stringify({ schemaVersion: 1, equal, tables: reports.map((report) => masked(report, Number(flags.show))) })}\n`,
    );
  else context.out(`verified: ${equal}\n`);
  return equal ? ExitCode.clean : ExitCode.findings;
}

function describe(report: TableReport, show: number): string {
  const found = report.differences.length + report.unsettled;
  let text = `${report.table}  ${report.equal ? 'equal' : `NOT EQUAL, ${found} keys`}  source ${report.sourceRows} rows, lake ${report.lakeRows} rows, at ${formatLsn(report.lsn)}, version ${report.lakeVersion}`;
  if (report.parkedKeys > 0) text += `, ${report.parkedKeys} keys in quarantine`;
  text += '\n';
  for (const difference of report.differences.slice(0, show))
    text += `  ${difference.kind} ${maskedKey(difference.key)}\n`;
  if (report.differences.length > show) text += `  and ${report.differences.length - show} more\n`;
  if (report.unsettled > 0) text += `  ${report.unsettled} keys kept changing while they were compared\n`;
  for (const { column, reason } of report.left) text += `  column ${column} not compared: ${reason}\n`;
  return text;
}

/** Keys are shown, values are not: of a row's image only the cells' lengths. */
function masked(report: TableReport, show: number): unknown {
  const { lsn, lakeVersion, differences, ...rest } = report;
  return {
    ...rest,
    lsn: formatLsn(lsn),
    lakeVersion: lakeVersion.toString(),
    differing: differences.length,
    differences: differences.slice(0, show).map(({ kind, key, source, lake }) => ({
      kind,
      key: splitKey(key),
      source: source === null ? null : imageOf(source),
      lake: lake === null ? null : imageOf(lake),
    })),
  };
}

/** A row's image with its values masked: each cell's length, `~` for NULL. */
function imageOf(text: string): string {
  let at = 0;
  let image = '';
  while (at < text.length) {
    if (text[at] === '~') {
      image += '~ ';
      at += 1;
      continue;
    }
    const colon = text.indexOf(':', at);
    const octets = Number(text.slice(at, colon));
    image += `${octets} `;
    at =
      colon +
      1 +
      Buffer.from(text.slice(colon + 1))
        .subarray(0, octets)
        .toString().length;
  }
  return image.trimEnd();
}

const maskedKey = (key: string): string => `(${splitKey(key).join(', ')})`;
