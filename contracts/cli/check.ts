/**
 * `contracts check`: lint, what changed since a base and what that asks of the version, what became less private, where the
 * live database and the lake differ from the contracts, and how many rows of the last days a contract would hold back.
 */
import { assess } from '../engine/compat/assess.ts';
import type { Base } from '../engine/compat/assess.ts';
import type { CatalogTable } from '../engine/catalog.ts';
import type { Finding } from '../engine/finding.ts';
import { hasErrors, sortFindings } from '../engine/finding.ts';
import type { CompatibilityMode, Contract, TableContract } from '../engine/model.ts';
import { matchBase } from './base-match.ts';
import { openBase } from './base.ts';
import { modeOf, tableModeOf } from './check-options.ts';
import type { CheckOptions } from './check-options.ts';
import { loadContracts, openScopes } from './contract-set.ts';
import type { ContractFile } from './contract-set.ts';
import { lakeFindings, liveTable, logFindings } from './data-findings.ts';
import { findingAt } from './drift-finding.ts';
import { parseSpan } from './duration.ts';
import { CommandError, EXIT, usageError } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import type { Ports } from './ports.ts';
import { exitOf, problemOf } from './report/report.ts';
import type { Problem, Report, Suite } from './report/report.ts';
import { writeReport } from './report/write-report.ts';
import type { Settings } from './settings.ts';
import { sourceDrift } from './source-drift.ts';
import { sourceName } from '../engine/source-name.ts';
import { matchesTable } from './table-name.ts';

export async function runCheck(ports: Ports, options: CheckOptions, settings: Settings): Promise<ExitCode> {
  const report = await check(ports, options, settings);
  await writeReport(ports, report, options.format, options.output);
  return report.exit;
}

export async function check(ports: Ports, options: CheckOptions, settings: Settings): Promise<Report> {
  const started = ports.nowMicros();
  const since = sinceOf(ports, options);
  const scopes = openScopes(ports, options.paths);
  const files = loadContracts(ports, scopes, options.table);
  const problems: Problem[] = [];
  const attempt = async <T>(work: () => Promise<T>): Promise<T | null> => {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      problems.push(problemOf(error, ports));
      return null;
    }
  };
  const against = options.against ?? (options.allVersions ? 'HEAD' : null);
  const base =
    against === null
      ? null
      : await attempt(() =>
          openBase(ports, against, scopes, { releases: wantsReleases(files, options, settings), exact: false }),
        );
  const tables = await attemptCatalog(ports, options, attempt);
  const { lake: lakeUri } = options;
  const lake = lakeUri === null ? null : await attempt(() => ports.lake(lakeUri));
  const duplicates = duplicateFindings(files);
  const compared = base === null ? null : await attempt(() => matchBase(base, files, settings));
  const suites: Suite[] = [];
  for (const file of files) {
    const { contract } = file;
    const found = [...file.findings, ...(duplicates.get(file.file) ?? [])];
    if (contract === null) {
      suites.push({ file: file.file, name: file.file, heading: '', facts: {}, findings: found, outcomes: [] });
      continue;
    }
    const mode = modeOf(contract, options, settings);
    const bases = compared?.basesOf(file) ?? [];
    const moved = compared?.movedInto(contract) ?? [];
    const assessment =
      bases.length === 0 && moved.length === 0
        ? null
        : assess(contract, bases, {
            moved,
            mode,
            tableMode: (table) => tableModeOf(contract, table, options, settings),
            strict: options.strict,
            today: today(ports),
          });
    found.push(...(compared?.notesOf(file) ?? []));
    for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item)))
      if (tables !== null) found.push(...catalogFindings(contract, table, tables));
    const measured = await attempt(() =>
      lakeFindings(contract, assessment, { lake, tables, since, options, alone: assessment?.findings ?? [] }),
    );
    const counted = await attempt(() => logFindings(ports, contract, assessment, { since, options, found: measured }));
    found.push(...(counted ?? measured ?? assessment?.findings ?? []));
    suites.push(suiteOf(file, contract, bases[0] ?? null, mode, sortFindings(found)));
  }
  suites.push(...(compared?.removed(options, today(ports)) ?? []));
  const invalid = files.some(({ contract }) => contract === null) || [...duplicates.values()].some(hasErrors);
  const tableCount = files.reduce((sum, { contract }) => sum + (contract?.tables.length ?? 0), 0);
  const once = oncePerCause(problems);
  return {
    command: 'check',
    suites,
    problems: once,
    tables: tableCount,
    elapsedMs: Number((ports.nowMicros() - started) / 1000n),
    strict: options.strict,
    quiet: options.quiet,
    exit: exitOf(suites, once, { failOn: options.failOn, invalid }),
  };
}

function sinceOf(ports: Ports, { data, lake, config }: CheckOptions): bigint | null {
  if (data === null) return null;
  const span = parseSpan(data);
  if (span === null) throw usageError(`--data ${data} is no span of time`, 'write 90s, 15m, 1h, 7d or 2w');
  if (lake === null && config === null)
    throw usageError('--data needs rows', 'name a lake with --lake, or the configuration of the log with --config');
  return ports.nowMicros() - span;
}

const today = (ports: Ports): string => new Date(Number(ports.nowMicros() / 1000n)).toISOString().slice(0, 10);

function wantsReleases(files: readonly ContractFile[], options: CheckOptions, settings: Settings): boolean {
  return files.some(({ contract }) =>
    (contract?.tables ?? []).some(
      (table) => contract !== null && tableModeOf(contract, table, options, settings).endsWith('_TRANSITIVE'),
    ),
  );
}

async function attemptCatalog(
  ports: Ports,
  { source }: CheckOptions,
  attempt: <T>(work: () => Promise<T>) => Promise<T | null>,
): Promise<readonly CatalogTable[] | null> {
  if (source === null) return null;
  return attempt(async () => {
    const session = await ports.catalog(source);
    try {
      return await session.tables();
    } finally {
      await session.close();
    }
  });
}

function catalogFindings(contract: Contract, table: TableContract, tables: readonly CatalogTable[]): Finding[] {
  const live = liveTable(contract, table, tables);
  if (live !== null) return sourceDrift(contract, table, live);
  const { schema, table: name } = sourceName(contract, table);
  return [
    findingAt(contract, 'error', 'TABLE_MISSING', table.name, `the database has no table ${schema}.${name}`, [
      ...table.path,
      'physicalName',
    ]),
  ];
}

function suiteOf(
  file: ContractFile,
  contract: Contract,
  base: Base | null,
  mode: CompatibilityMode,
  findings: readonly Finding[],
): Suite {
  const before = base?.contract.version ?? null;
  const versions =
    before === null || before === contract.version ? contract.version : `${before} -> ${contract.version}`;
  return {
    file: file.file,
    name: contract.tables.map(({ name }) => name).join(', '),
    heading: `${versions}  mode ${mode}${base === null ? '' : `, base ${base.label}`}`,
    facts: { id: contract.id, version: contract.version, versionBefore: before, mode, base: base?.label ?? null },
    findings,
    outcomes: [],
  };
}

/** Two files for one id or one table: which of them is in force would be chance. */
function duplicateFindings(files: readonly ContractFile[]): Map<string, Finding[]> {
  const seen = new Map<string, string>();
  const found = new Map<string, Finding[]>();
  for (const { file, contract } of files) {
    if (contract === null) continue;
    const claims: [string, string, readonly (string | number)[]][] = [
      [`id\0${contract.id}`, `contract id ${contract.id}`, ['id']],
      ...contract.tables.map((table): [string, string, readonly (string | number)[]] => {
        const name = sourceName(contract, table);
        return [`table\0${name.schema}.${name.table}`, `table ${name.schema}.${name.table}`, table.path];
      }),
    ];
    for (const [key, what, path] of claims) {
      const first = seen.get(key);
      if (first === undefined) {
        seen.set(key, file);
        continue;
      }
      const finding = findingAt(contract, 'error', 'DUPLICATE_CONTRACT', what, `${first} has it, too`, path);
      // An id that stands twice mostly comes with a table that does: one cause, one finding.
      if (!found.has(file)) found.set(file, [finding]);
    }
  }
  return found;
}

/** An unreadable lake is one problem, not one a table. */
function oncePerCause(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  return problems.filter(({ code, exit }) => {
    const key = exit === EXIT.environment ? code : `${code}\0`;
    const first = !seen.has(key);
    seen.add(key);
    return first;
  });
}
