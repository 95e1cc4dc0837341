/**
 * `contracts check`: lint, what changed since a base and what that asks of the version, what became less private, where the
 * live database and the lake differ from the contracts, and how many rows of the last days a contract would hold back.
 */
import { assess, DEFAULT_MODE, tableRemoved } from '../engine/compat/assess.ts';
import type { Assessment, Base } from '../engine/compat/assess.ts';
import type { CatalogTable } from '../engine/catalog.ts';
import type { Finding } from '../engine/finding.ts';
import { hasErrors, sortFindings } from '../engine/finding.ts';
import type { CompatibilityMode, Contract, TableContract } from '../engine/model.ts';
import { parseContract } from '../engine/parse.ts';
import { openBase, parseBase } from './base.ts';
import type { BaseContract, BaseSet } from './base.ts';
import { measureBlast, withBlast } from './blast-radius.ts';
import { loadContracts, openScopes, touches } from './contract-set.ts';
import type { ContractFile } from './contract-set.ts';
import { findingAt } from './drift-finding.ts';
import { parseSpan } from './duration.ts';
import { CommandError, EXIT, usageError } from './exit-code.ts';
import type { ExitCode } from './exit-code.ts';
import { lakeDrift } from './lake-drift.ts';
import type { LakeSession, Ports } from './ports.ts';
import { exitOf, problemOf } from './report/report.ts';
import type { FailOn, Problem, Report, Suite } from './report/report.ts';
import { writeReport } from './report/write-report.ts';
import type { Format } from './report/write-report.ts';
import { settingFor } from './settings.ts';
import type { Settings } from './settings.ts';
import { sourceDrift } from './source-drift.ts';
import { matchesTable, sourceName } from './table-name.ts';

export interface CheckOptions {
  readonly paths: readonly string[];
  readonly against: string | null;
  readonly mode: CompatibilityMode | null;
  readonly strict: boolean;
  readonly failOn: FailOn;
  readonly format: Format;
  readonly output: string | null;
  readonly table: string | null;
  readonly allVersions: boolean;
  readonly source: string | null;
  readonly lake: string | null;
  /** `7d` */
  readonly data: string | null;
  readonly quiet: boolean;
}

export async function runCheck(ports: Ports, options: CheckOptions, settings: Settings): Promise<ExitCode> {
  const report = await check(ports, options, settings);
  writeReport(ports, report, options.format, options.output);
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
      problems.push(problemOf(error));
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
  const compared = base === null ? null : matchBase(base, files, settings);
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
    const assessment =
      bases.length === 0 ? null : assess(contract, bases, { mode, strict: options.strict, today: today(ports) });
    found.push(...(compared?.notesOf(file) ?? []));
    for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item)))
      if (tables !== null) found.push(...catalogFindings(contract, table, tables));
    const measured = await attempt(() =>
      lakeFindings(contract, assessment, { lake, tables, since, options, alone: assessment?.findings ?? [] }),
    );
    found.push(...(measured ?? assessment?.findings ?? []));
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

function sinceOf(ports: Ports, { data, lake }: CheckOptions): bigint | null {
  if (data === null) return null;
  const span = parseSpan(data);
  if (span === null) throw usageError(`--data ${data} is no span of time`, 'write 90s, 15m, 1h, 7d or 2w');
  if (lake === null) throw usageError('--data needs the rows of a lake', 'name it with --lake');
  return ports.nowMicros() - span;
}

const today = (ports: Ports): string => new Date(Number(ports.nowMicros() / 1000n)).toISOString().slice(0, 10);

function modeOf(contract: Contract, options: CheckOptions, settings: Settings): CompatibilityMode {
  const own = contract.tables.find((table) => table.compatibility !== null)?.compatibility ?? null;
  const mode = options.mode ?? own ?? settingFor(settings.modes, contract) ?? DEFAULT_MODE;
  if (!options.allVersions || mode === 'NONE' || mode.endsWith('_TRANSITIVE')) return mode;
  return `${mode as 'BACKWARD' | 'FORWARD' | 'FULL'}_TRANSITIVE`;
}

function wantsReleases(files: readonly ContractFile[], options: CheckOptions, settings: Settings): boolean {
  return files.some(({ contract }) => contract !== null && modeOf(contract, options, settings).endsWith('_TRANSITIVE'));
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

function liveTable(contract: Contract, table: TableContract, tables: readonly CatalogTable[]): CatalogTable | null {
  const name = sourceName(contract, table);
  return tables.find((live) => live.schema === name.schema && live.table === name.table) ?? null;
}

interface LakeCheck {
  readonly lake: LakeSession | null;
  readonly tables: readonly CatalogTable[] | null;
  readonly since: bigint | null;
  readonly options: CheckOptions;
  /** What the comparison found, without the lake. */
  readonly alone: readonly Finding[];
}

/** The comparison's findings, with row counts where they are asked for, and the lake's drift. */
async function lakeFindings(
  contract: Contract,
  assessment: Assessment | null,
  { lake, tables, since, options, alone }: LakeCheck,
): Promise<Finding[]> {
  if (lake === null) return [...alone];
  let findings = [...alone];
  const drift: Finding[] = [];
  for (const table of contract.tables.filter((item) => matchesTable(options.table, contract, item))) {
    const name = sourceName(contract, table);
    const found = await lake.table(name.schema, name.table);
    if (found === null) {
      drift.push(
        findingAt(contract, 'info', 'LAKE_TABLE_MISSING', table.name, 'the lake has no such table yet', table.path),
      );
      continue;
    }
    const live = tables === null ? null : liveTable(contract, table, tables);
    drift.push(...lakeDrift(contract, table, found.fields, live));
    if (since === null || options.data === null) continue;
    const blast = await measureBlast(contract, table, found, since);
    findings = withBlast(findings, assessment?.changes ?? [], blast, contract, table, options.data);
  }
  return [...findings, ...drift];
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

interface Comparison {
  /** The base first, then released versions. Empty: the contract is new. */
  basesOf(file: ContractFile): readonly Base[];
  notesOf(file: ContractFile): readonly Finding[];
  removed(options: CheckOptions, today: string): Suite[];
}

/** Contracts are matched by id (files move), then by file. */
function matchBase(set: BaseSet, files: readonly ContractFile[], settings: Settings): Comparison {
  const bases = parseBase(set);
  const idOf = (contract: Contract): string => settings.aliases.get(contract.id) ?? contract.id;
  const taken = new Map<BaseContract, ContractFile>();
  const matchOf = new Map<ContractFile, BaseContract>();
  const pair = (file: ContractFile, base: BaseContract | undefined): void => {
    if (base === undefined || taken.has(base) || matchOf.has(file)) return;
    taken.set(base, file);
    matchOf.set(file, base);
  };
  for (const file of files)
    pair(
      file,
      bases.find(({ contract }) => contract !== null && file.contract !== null && idOf(contract) === file.contract.id),
    );
  for (const file of files)
    pair(
      file,
      bases.find((base) => base.file === file.file),
    );
  const [only] = files;
  if (set.named && only !== undefined && files.length === 1) pair(only, bases[0]);
  const released = set.released.map(({ label, file, text }) => ({
    label,
    file,
    contract: parseContract(text, file).contract,
  }));
  return {
    basesOf(file) {
      const base = matchOf.get(file)?.contract ?? null;
      if (base === null) return [];
      const older = released.filter(
        ({ contract }) =>
          contract !== null && idOf(contract) === idOf(base) && contract.source.sha256 !== base.source.sha256,
      );
      return [
        { label: set.label, contract: base },
        ...older.flatMap(({ label, contract }) => (contract === null ? [] : [{ label, contract }])),
      ];
    },
    notesOf(file) {
      const { contract } = file;
      if (contract === null || matchOf.get(file)?.contract !== null) return [];
      const text = `what stood in ${set.label} is no valid contract: nothing is compared with it`;
      return [findingAt(contract, 'warning', 'BASE_INVALID', '', text, [])];
    },
    removed(options, day) {
      return bases.flatMap((base) => {
        const { contract, file } = base;
        if (contract === null || taken.has(base) || !touches(contract, options.table)) return [];
        const mode = contract === null ? DEFAULT_MODE : modeOf(contract, options, settings);
        const finding = tableRemoved({ label: set.label, contract }, file, {
          mode,
          strict: options.strict,
          today: day,
        });
        const name = contract.tables.map((table) => table.name).join(', ');
        const facts = { id: contract.id, version: null, versionBefore: contract.version, mode, base: set.label };
        return [
          {
            file,
            name,
            heading: `${contract.version} -> removed  mode ${mode}, base ${set.label}`,
            facts,
            findings: [finding],
            outcomes: [],
          },
        ];
      });
    },
  };
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
