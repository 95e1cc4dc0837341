/**
 * Rules on a whole table: library metrics, SQL, service levels. Every rule of the contract gets one result: passed, failed,
 * or NOT RUN with the reason, and NOT RUN fails a run. Statistics are asked first; data is read only where they are not exact.
 */
import { compareDecimals, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import type {
  Column,
  Contract,
  CustomRule,
  LibraryRule,
  Operator,
  Rule,
  SlaProperty,
  SqlRule,
  TableContract,
} from '../model.ts';
import { mapContractColumn } from '../type-table.ts';
import { impliedUniqueRules } from '../unique-columns.ts';
import type { TreePath } from '../yaml-tree.ts';
import { compileRowRule } from './cel.ts';
import { requestOf } from './count-request.ts';
import { sampleRows } from './sample-rows.ts';
import { placeOf } from './rule-meta.ts';
import { parseDuration } from './sla-duration.ts';
import { checkSelectOnly, fillPlaceholders } from './sql-guard.ts';
import type { CountRequest, TableProbe, TableStatistics, TimeRange } from './table-probe.ts';

/** `noted`: prose, and service levels that no data can show. Listed, so that nothing vanishes; neither passed nor failed. */
export type RuleStatus = 'passed' | 'failed' | 'not-run' | 'noted';

export interface RuleResult {
  readonly ruleId: string;
  readonly table: string;
  readonly column: string | null;
  readonly status: RuleStatus;
  readonly severity: 'info' | 'warning' | 'error';
  /** One line: `rowCount 388112 > 0`, `1.70% >= 1%, 6598 of 388112 rows`; for NOT RUN the reason. No row data. */
  readonly detail: string;
  /** Where the figure comes from. */
  readonly from: 'statistics' | 'scan' | 'sql' | null;
  readonly path: TreePath;
  /** Rows that failed, by their keys, where the run asked for some; classified values masked. */
  readonly sample?: readonly string[];
}

export interface TableRun {
  /** Only rules with this id. */
  readonly rule?: string;
  /** Row rules are counted on the table, too: the gate may have been passed by other ways. Default true. */
  readonly includeRowRules?: boolean;
  /** Failing rows to name, a rule; default none. */
  readonly sample?: number;
}

/** One unreadable table is one error of the probe's, thrown through: not one NOT RUN a rule. */
export async function runTableRules(
  contract: Contract,
  table: TableContract,
  probe: TableProbe,
  run: TableRun = {},
): Promise<RuleResult[]> {
  const source = memoise(probe);
  const results: RuleResult[] = [];
  const wanted = (id: string): boolean => run.rule === undefined || run.rule === id;
  for (const rule of [...table.rules, ...impliedUniqueRules(table)]) {
    if (!wanted(rule.id) || (run.includeRowRules === false && placeOf(rule) === 'row')) continue;
    const result = await runRule(rule, table, probe, source);
    const wantsSample = result.status === 'failed' && (run.sample ?? 0) > 0;
    results.push(wantsSample ? { ...result, sample: await sampleRows(rule, table, probe, run.sample ?? 0) } : result);
  }
  for (const [index, sla] of contract.sla.entries()) {
    const id = sla.id ?? `${sla.property}.${index}`;
    if (!wanted(id) || !concerns(sla, table)) continue;
    results.push(await runSla(sla, id, table, probe, source));
  }
  return results;
}

/** The statistics are read once a run. */
interface Source {
  statistics(): Promise<TableStatistics | null>;
  rows(): Promise<{ readonly value: bigint; readonly from: 'statistics' | 'scan' }>;
}

function memoise(probe: TableProbe): Source {
  let statistics: Promise<TableStatistics | null> | null = null;
  let counted: Promise<bigint> | null = null;
  const read = (): Promise<TableStatistics | null> => (statistics ??= probe.statistics());
  return {
    statistics: read,
    async rows() {
      const known = (await read())?.rowCount ?? null;
      if (known !== null) return { value: known, from: 'statistics' };
      return { value: await (counted ??= probe.count({ kind: 'rows' })), from: 'scan' };
    },
  };
}

async function runRule(rule: Rule, table: TableContract, probe: TableProbe, source: Source): Promise<RuleResult> {
  const base = { ruleId: rule.id, table: table.name, column: rule.column, severity: severityOf(rule), path: rule.path };
  const notRun = (detail: string): RuleResult => ({ ...base, status: 'not-run', detail, from: null });
  if (rule.kind === 'text') return { ...base, status: 'noted', detail: 'prose: for people to read', from: null };
  if (rule.kind === 'custom') return runRowRule(rule, base, table, probe);
  if (rule.kind === 'sql') return runSql(rule, base, table, probe);
  const request = requestOf(rule);
  if (typeof request === 'string') return notRun(request);
  const figure = await measure(request, probe, source);
  if (rule.unit === 'rows' || rule.metric === 'rowCount') {
    const held = holds(rule.operator, { unscaled: figure.value, scale: 0 });
    if (held === null) return notRun(`${rule.operator.name} ${rule.operator.text} is no number`);
    return {
      ...base,
      status: held ? 'passed' : 'failed',
      detail: `${rule.metric} ${figure.value} ${wordsOf(rule.operator, held)}`,
      from: figure.from,
    };
  }
  return percentResult(rule, base, figure, (await source.rows()).value, notRun);
}

type Base = Pick<RuleResult, 'ruleId' | 'table' | 'column' | 'severity' | 'path'>;
interface Figure {
  readonly value: bigint;
  readonly from: 'statistics' | 'scan';
}

/** count·100 against bound·rows: no quotient, no rounding. An empty table has 0%. */
function percentResult(
  rule: LibraryRule,
  base: Base,
  figure: Figure,
  rows: bigint,
  notRun: (detail: string) => RuleResult,
): RuleResult {
  const scaled: Decimal = { unscaled: figure.value * 100n, scale: 0 };
  const held = holds(rule.operator, scaled, rows === 0n ? 1n : rows);
  if (held === null) return notRun(`${rule.operator.name} ${rule.operator.text} is no number`);
  const hundredths = rows === 0n ? 0n : (figure.value * 10_000n) / rows;
  const percent = `${hundredths / 100n}.${String(hundredths % 100n).padStart(2, '0')}%`;
  const detail = `${rule.metric} ${percent} ${wordsOf(rule.operator, held)}%, ${figure.value} of ${rows} rows`;
  return { ...base, status: held ? 'passed' : 'failed', detail, from: figure.from };
}

async function measure(request: CountRequest, probe: TableProbe, source: Source): Promise<Figure> {
  if (request.kind === 'rows') return source.rows();
  const nullsOnly =
    request.kind === 'null' || (request.kind === 'missing' && request.values.every((value) => value === null));
  if (nullsOnly) {
    const known = (await source.statistics())?.nullCounts.get(request.column);
    if (known !== undefined) return { value: known, from: 'statistics' };
  }
  return { value: await probe.count(request), from: 'scan' };
}

/** A row rule on a whole table: rows that fail it, and rows on which it cannot be evaluated. */
async function runRowRule(rule: CustomRule, base: Base, table: TableContract, probe: TableProbe): Promise<RuleResult> {
  const notRun = (detail: string): RuleResult => ({ ...base, status: 'not-run', detail, from: null });
  if (rule.engine !== 'cel') return notRun(`engine ${rule.engine} is not built in`);
  const columns = table.columns.map((column) => ({
    name: column.name,
    mapping: mapContractColumn(column),
    nullable: !column.required && column.keyPosition === 0,
  }));
  const compiled = compileRowRule(rule.implementation, columns);
  if (compiled.rule === null) return notRun(compiled.problems.map((problem) => problem.message).join('; '));
  if (probe.rows === null) return notRun('this stage gives no rows: the gate tests the rule on each event');
  let rows = 0;
  let failed = 0;
  let errors = 0;
  for await (const row of probe.rows(compiled.rule.columns)) {
    rows++;
    const outcome = compiled.rule.evaluate(row);
    if (outcome === 'fail') failed++;
    else if (outcome === 'error') errors++;
  }
  const detail = `cel ${failed} of ${rows} rows fail${errors === 0 ? '' : `, ${errors} cannot be evaluated`}`;
  return { ...base, status: failed + errors === 0 ? 'passed' : 'failed', detail, from: 'scan' };
}

async function runSql(rule: SqlRule, base: Base, table: TableContract, probe: TableProbe): Promise<RuleResult> {
  const notRun = (detail: string): RuleResult => ({ ...base, status: 'not-run', detail, from: null });
  const refused = checkSelectOnly(rule.query);
  if (refused !== null) return notRun(refused);
  if (probe.sql === null) return notRun(`no SQL runs on this stage of ${table.name}`);
  let value: unknown;
  try {
    value = await probe.sql(fillPlaceholders(rule.query, probe.relation, rule.column));
  } catch (error) {
    return notRun(
      `the query failed: ${error instanceof Error ? (error.message.split('\n', 1)[0] ?? '') : 'unknown reason'}`,
    );
  }
  const number =
    typeof value === 'number' || typeof value === 'bigint' || typeof value === 'string'
      ? parseDecimal(`${value}`)
      : null;
  const held = number === null ? null : holds(rule.operator, number);
  if (number === null || held === null) return notRun('the query gave no number');
  return {
    ...base,
    status: held ? 'passed' : 'failed',
    detail: `sql ${String(value)} ${wordsOf(rule.operator, held)}`,
    from: 'sql',
  };
}

/** Whether value OP bound·factor. Between is inclusive. Null: the bound is no number. */
function holds(operator: Operator, value: Decimal, factor = 1n): boolean | null {
  const bounds = (Array.isArray(operator.value) ? (operator.value as unknown[]).map(String) : [operator.text]).map(
    parseDecimal,
  );
  const signs: number[] = [];
  for (const bound of bounds) {
    if (bound === null) return null;
    signs.push(compareDecimals(value, { unscaled: bound.unscaled * factor, scale: bound.scale }));
  }
  const [first, second] = signs;
  if (first === undefined) return null;
  switch (operator.name) {
    case 'mustBe':
      return first === 0;
    case 'mustNotBe':
      return first !== 0;
    case 'mustBeGreaterThan':
      return first > 0;
    case 'mustBeGreaterOrEqualTo':
      return first >= 0;
    case 'mustBeLessThan':
      return first < 0;
    case 'mustBeLessOrEqualTo':
      return first <= 0;
    case 'mustBeBetween':
      return second === undefined ? null : first >= 0 && second <= 0;
    case 'mustNotBeBetween':
      return second === undefined ? null : first < 0 || second > 0;
  }
}

const SIGNS: Readonly<Record<Operator['name'], readonly [string, string]>> = {
  mustBe: ['=', '≠'],
  mustNotBe: ['≠', '='],
  mustBeGreaterThan: ['>', '<='],
  mustBeGreaterOrEqualTo: ['>=', '<'],
  mustBeLessThan: ['<', '>='],
  mustBeLessOrEqualTo: ['<=', '>'],
  mustBeBetween: ['within', 'not within'],
  mustNotBeBetween: ['not within', 'within'],
};

function wordsOf(operator: Operator, held: boolean): string {
  return `${SIGNS[operator.name][held ? 0 : 1]} ${operator.text}`;
}

// ---- service levels ----

/** What names no table is said of each. */
export function concerns(sla: SlaProperty, table: TableContract): boolean {
  if (sla.element === null) return true;
  const tableName = sla.element.split(',')[0]?.split('.').slice(0, -1).join('.') ?? '';
  return [table.name, table.physicalName].includes(tableName) || sla.element === table.name;
}

/** latency and freshness are one check: now − newest. retention: now − oldest. */
async function runSla(
  sla: SlaProperty,
  id: string,
  table: TableContract,
  probe: TableProbe,
  source: Source,
): Promise<RuleResult> {
  const { property } = sla;
  if (property !== 'latency' && property !== 'freshness' && property !== 'retention') {
    const detail = `${property} ${String(sla.value)}${sla.unit === null ? '' : ` ${sla.unit}`}: a promise that the table's data cannot show`;
    return {
      ruleId: id,
      table: table.name,
      column: null,
      severity: 'info',
      path: sla.path,
      status: 'noted',
      detail,
      from: null,
    };
  }
  const named =
    sla.element?.includes('.') === true
      ? (sla.element.split(',')[0]?.split('.').at(-1)?.trim() ?? '')
      : '_sluice_committed_at';
  const base = { ruleId: id, table: table.name, column: named, severity: 'error' as const, path: sla.path };
  const notRun = (detail: string): RuleResult => ({ ...base, status: 'not-run', detail, from: null });
  const limit = parseDuration(sla.value, sla.unit);
  if (limit === null) return notRun(`${String(sla.value)} ${sla.unit ?? ''} is no duration`);
  const known = (await source.statistics())?.ranges.get(named);
  const range: TimeRange | null = known ?? (await probe.extremes(named));
  if (range === null) return notRun(`${named} has no value in the table`);
  const age = probe.nowMicros - (sla.property === 'retention' ? range.minMicros : range.maxMicros);
  const held = age <= limit;
  return {
    ...base,
    status: held ? 'passed' : 'failed',
    detail: `${sla.property} ${clock(age)} ${held ? '<=' : '>'} ${String(sla.value)} ${sla.unit ?? 'days'}`,
    from: known === undefined ? 'scan' : 'statistics',
  };
}

/** `00:00:41`, with days before it when there are any. */
function clock(micros: bigint): string {
  const seconds = micros < 0n ? 0n : micros / 1_000_000n;
  const two = (value: bigint): string => String(value).padStart(2, '0');
  const days = seconds / 86_400n;
  return `${days > 0n ? `${days} d ` : ''}${two((seconds / 3600n) % 24n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}`;
}

export function severityOf(rule: Rule): RuleResult['severity'] {
  const word = rule.severity.toLowerCase();
  return word === 'info' ? 'info' : word === 'warning' || word === 'warn' ? 'warning' : 'error';
}

/** The columns that a stage must be able to read for this contract's table rules. */
export function measuredColumns(table: TableContract): readonly Column[] {
  const names = new Set(
    table.rules.flatMap((rule) =>
      rule.kind === 'library' && rule.properties !== null ? rule.properties : rule.column === null ? [] : [rule.column],
    ),
  );
  return table.columns.filter((column) => names.has(column.name));
}
