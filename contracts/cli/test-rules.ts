/** `contracts test`: every rule of the contracts on a stage, each passed, failed or NOT RUN; and NOT RUN fails. */
import type { CatalogTable } from '../engine/catalog.ts';
import type { Contract, TableContract } from '../engine/model.ts';
import { parseContract } from '../engine/parse.ts';
import { plannedRules } from '../engine/rules/planned-rules.ts';
import { runTableRules } from '../engine/rules/table-rules.ts';
import type { RuleResult } from '../engine/rules/table-rules.ts';
import type { TableProbe } from '../engine/rules/table-probe.ts';
import { loadContracts, openScopes } from './contract-set.ts';
import type { ContractFile } from './contract-set.ts';
import { parseSpan } from './duration.ts';
import { CommandError, usageError } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import type { Ports } from './ports.ts';
import { exitOf, problemOf } from './report/report.ts';
import type { FailOn, Outcome, Problem, Report, Suite } from './report/report.ts';
import { writeReport } from './report/write-report.ts';
import type { Format } from './report/write-report.ts';
import { streamProbe } from './stream-probe.ts';
import { sourceName } from '../engine/source-name.ts';
import { matchesTable } from './table-name.ts';
import type { SourceName } from '../engine/source-name.ts';

export const STAGES = ['source', 'stream', 'lake'] as const;
export type Stage = (typeof STAGES)[number];

export interface TestOptions {
  readonly paths: readonly string[];
  readonly stage: Stage;
  readonly rule: string | null;
  /** `1h` */
  readonly since: string | null;
  /** Failing rows to name, a rule; 0 = none. */
  readonly sample: number;
  /** Lists what would run, and reads nothing. */
  readonly dryRun: boolean;
  readonly table: string | null;
  readonly source: string | null;
  readonly lake: string | null;
  readonly config: string | null;
  readonly strict: boolean;
  readonly failOn: FailOn;
  readonly format: Format;
  readonly output: string | null;
  readonly quiet: boolean;
}

/** What a stage gives of one table: a probe and a word on it (`v418 of the table`); null = it is not there. */
interface OpenStage {
  table(name: SourceName): Promise<{ readonly probe: TableProbe; readonly note: string } | null>;
  close(): Promise<void>;
}

const SAMPLE_ROWS_MAX = 100_000;

export async function runTest(ports: Ports, options: TestOptions): Promise<ExitCode> {
  const started = ports.nowMicros();
  const files = loadContracts(ports, openScopes(ports, options.paths), options.table);
  const problems: Problem[] = [];
  const suites: Suite[] = [];
  const since = sinceOf(ports, options);
  let invalid = false;
  let stage: OpenStage | null = null;
  try {
    stage = options.dryRun ? null : await openStage(ports, options, since);
    for (const file of files) {
      const contract = runnable(file);
      if (contract === null) {
        invalid = true;
        suites.push({
          file: file.file,
          name: file.file,
          heading: 'not valid: run `contracts check`',
          facts: {},
          findings: file.findings,
          outcomes: [],
        });
        continue;
      }
      for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item)))
        suites.push(await testTable(contract, table, stage, options));
    }
  } catch (error) {
    // One unreadable stage is one error, not one a rule.
    if (!(error instanceof CommandError)) throw error;
    problems.push(problemOf(error, ports));
  } finally {
    await stage?.close();
  }
  if (
    options.rule !== null &&
    problems.length === 0 &&
    !invalid &&
    suites.every(({ outcomes }) => outcomes.length === 0)
  )
    throw usageError(
      `no contract has a rule ${options.rule}`,
      'rules are named by their id: `contracts docs` lists them',
    );
  const report: Report = {
    command: 'test',
    suites,
    problems,
    tables: suites.length,
    elapsedMs: Number((ports.nowMicros() - started) / 1000n),
    strict: options.strict,
    quiet: options.quiet,
    exit: exitOf(suites, problems, { failOn: options.failOn, invalid }),
  };
  await writeReport(ports, report, options.format, options.output);
  return report.exit;
}

/** A rule that we have no engine for is no reason to run none: it ends as NOT RUN. */
function runnable({ contract, findings, text, file }: ContractFile): Contract | null {
  if (contract !== null) return contract;
  const others = findings.filter(({ level, code }) => level === 'error' && code !== 'UNKNOWN_ENGINE');
  return others.length > 0 ? null : parseContract(text, file).contract;
}

function sinceOf(ports: Ports, { since, stage }: TestOptions): bigint | null {
  if (since === null) return null;
  const span = parseSpan(since);
  if (span === null) throw usageError(`--since ${since} is no span of time`, 'write 90s, 15m, 1h, 7d or 2w');
  if (stage === 'source')
    throw usageError(
      '--since has no meaning at the source',
      'its rows do not say when they were written: use --stage lake or stream',
    );
  return ports.nowMicros() - span;
}

async function openStage(ports: Ports, options: TestOptions, since: bigint | null): Promise<OpenStage> {
  switch (options.stage) {
    case 'source':
      return openSourceStage(ports, options);
    case 'stream':
      return openStreamStage(ports, options, since);
    case 'lake':
      return openLakeStage(ports, options, since);
  }
}

async function openSourceStage(ports: Ports, { source }: TestOptions): Promise<OpenStage> {
  if (source === null) throw usageError('--stage source needs a database', 'name it with --source postgres://…');
  const session = await ports.catalog(source);
  let tables: readonly CatalogTable[] | null = null;
  return {
    async table({ schema, table }) {
      tables ??= await session.tables();
      const found = tables.find((live) => live.schema === schema && live.table === table);
      return found === undefined ? null : { probe: session.probe(found), note: 'at the source' };
    },
    close: () => session.close(),
  };
}

async function openStreamStage(ports: Ports, { config }: TestOptions, since: bigint | null): Promise<OpenStage> {
  const session = await ports.stream(config);
  return {
    async table({ schema, table }) {
      const sample = await session.sample(schema, table, { sinceMicros: since, rowsMax: SAMPLE_ROWS_MAX });
      if (sample === null) return null;
      return { probe: streamProbe(sample, ports.nowMicros()), note: `${sample.rows.length} events of ${sample.topic}` };
    },
    close: () => session.close(),
  };
}

async function openLakeStage(ports: Ports, { lake }: TestOptions, since: bigint | null): Promise<OpenStage> {
  if (lake === null)
    throw usageError('--stage lake needs a lake', 'name it with --lake: a path, file:///… or s3://bucket/prefix');
  const session = await ports.lake(lake);
  return {
    async table({ schema, table }) {
      const found = await session.table(schema, table);
      return found === null ? null : { probe: found.probe(since), note: `v${found.version} of the table` };
    },
    close: () => Promise.resolve(),
  };
}

async function testTable(
  contract: Contract,
  table: TableContract,
  stage: OpenStage | null,
  { rule, stage: name, sample }: TestOptions,
): Promise<Suite> {
  const opened = (await stage?.table(sourceName(contract, table))) ?? null;
  const results =
    stage === null
      ? plannedRules(contract, table, rule)
      : opened === null
        ? [absent(table, name)]
        : await runTableRules(contract, table, opened.probe, { sample, ...(rule === null ? {} : { rule }) });
  return {
    file: contract.source.file,
    name: table.name,
    heading: `${contract.version}  ${stage === null ? `would run on the ${name}` : (opened?.note ?? '')}`.trimEnd(),
    facts: { id: contract.id, version: contract.version, stage: name },
    findings: [],
    outcomes: results.map((result) => outcomeOf(contract, result)),
  };
}

/** A table that is not there has not passed: one cause, one result, whatever its rules are. */
function absent(table: TableContract, stage: Stage): RuleResult {
  return {
    ruleId: 'table',
    table: table.name,
    column: null,
    status: 'not-run',
    severity: 'error',
    detail: `the ${stage} has no table ${table.physicalName}: none of its rules ran`,
    from: null,
    path: table.path,
  };
}

const FROM = { statistics: 'delta stats', scan: 'scan', sql: 'sql' } as const;

function outcomeOf(contract: Contract, result: RuleResult): Outcome {
  const { line, column } = contract.source.locate(result.path);
  return {
    ruleId: result.ruleId,
    status: result.status,
    severity: result.severity,
    column: result.column,
    detail: result.detail,
    from: result.from === null ? null : FROM[result.from],
    line,
    position: column,
    ...(result.sample === undefined ? {} : { sample: result.sample }),
  };
}
