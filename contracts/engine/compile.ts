/**
 * Contract → gate: once per contract version. Order of evaluation for a row: unknown columns, types, options and count rules,
 * row rules. All failed rule ids are recorded; the first action that is not `warn` decides.
 */
import type { CatalogTable } from './catalog.ts';
import type { Finding } from './finding.ts';
import type { Action, Gate } from './gate.ts';
import type { Contract, OnUnrepresentable, TableContract, UnknownColumns } from './model.ts';
import { ContractError } from './parse.ts';
import { compileRowRule } from './rules/cel.ts';
import { planColumn } from './rules/column-plan.ts';
import type { ColumnPlan, PlanContext } from './rules/column-plan.ts';
import { createGate } from './rules/gate-run.ts';
import type { CompiledRowRule } from './rules/gate-run.ts';
import { compileValidators } from './rules/gate-schema.ts';
import { ACTION_DEFAULTS, placeOf, ruleAction, STAGE_ROW } from './rules/rule-meta.ts';
import type { ActionDefaults, RuleMeta } from './rules/rule-meta.ts';
import { mapContractColumn, TypeMappingError } from './type-table.ts';

export interface GateOptions {
  /** Which `schema[]` entry, by name or physicalName; needed when the contract has several and no live table decides. */
  readonly table?: string;
  /** Where the contract is silent. Defaults: evolve, quarantine, fail, quarantine. */
  readonly unknownColumns?: UnknownColumns;
  readonly onViolation?: Action;
  readonly onKeyError?: Action;
  readonly onUnrepresentable?: OnUnrepresentable;
}

/** Throws ContractError when a rule cannot be enforced: nothing is left out silently. */
export function compileGate(contract: Contract, live: CatalogTable | null, options: GateOptions = {}): Gate {
  const compiled = compileTable(contract, selectTable(contract, live, options.table), live, options);
  const errors = compiled.findings.filter((finding) => finding.level === 'error');
  if (errors.length > 0) throw new ContractError(errors);
  return compiled.gate();
}

export interface CompiledTable {
  readonly findings: readonly Finding[];
  readonly plans: readonly ColumnPlan[];
  /** Builds the gate; only when no finding is an error. */
  gate(): Gate;
}

/** Everything that compiling finds, for lint as well as for the gate. */
export function compileTable(
  contract: Contract,
  table: TableContract,
  live: CatalogTable | null,
  options: GateOptions,
): CompiledTable {
  const defaults: ActionDefaults = {
    onViolation: options.onViolation ?? ACTION_DEFAULTS.onViolation,
    onKeyError: options.onKeyError ?? ACTION_DEFAULTS.onKeyError,
    onUnrepresentable: options.onUnrepresentable ?? ACTION_DEFAULTS.onUnrepresentable,
  };
  const findings: Finding[] = [];
  const report = createReporter(contract, table, findings);
  const context: PlanContext = { table, defaults, problems: [] };
  const plans: ColumnPlan[] = [];
  for (const column of table.columns) {
    const liveColumn = live?.columns.find((candidate) => candidate.name === column.name) ?? null;
    try {
      plans.push(planColumn(column, mapContractColumn(column, liveColumn), context));
    } catch (error) {
      if (!(error instanceof TypeMappingError)) throw error;
      report([...column.path, 'customProperties'], 'DELTA_TYPE_UNSUPPORTED', error.message, null);
    }
  }
  const dropping = [table, ...table.columns, ...table.rules].find((element) => element.onViolation === 'drop');
  if (dropping !== undefined && !table.allowDrop)
    report(
      dropping.path,
      'DROP_NOT_ALLOWED',
      'the action drop loses events',
      "set the table's customProperty allowDrop: true to say that this is meant",
    );
  for (const problem of context.problems) report(problem.path, problem.code, problem.message, null);
  const rowRules = compileRowRules(table, plans, defaults, report);
  return {
    findings,
    plans,
    gate: () =>
      createGate({
        contract,
        plans,
        rowRules,
        validators: compileValidators(plans),
        unknownColumns: table.unknownColumns ?? options.unknownColumns ?? 'evolve',
      }),
  };
}

type Reporter = (
  path: readonly (string | number)[],
  code: string,
  message: string,
  hint: string | null,
  offset?: number,
) => void;

function createReporter(contract: Contract, table: TableContract, findings: Finding[]): Reporter {
  return (path, code, message, hint, offset) => {
    const { source } = contract;
    const at = offset === undefined ? source.locate(path) : source.locateInValue(path, offset);
    findings.push({
      level: 'error',
      code,
      message,
      file: contract.source.file,
      line: at.line,
      column: at.column,
      subject: table.name,
      hint,
    });
  };
}

function compileRowRules(
  table: TableContract,
  plans: readonly ColumnPlan[],
  defaults: ActionDefaults,
  report: Reporter,
): CompiledRowRule[] {
  const columns = plans.map((plan) => ({
    name: plan.column.name,
    mapping: plan.mapping,
    nullable: !plan.column.required && plan.column.keyPosition === 0,
  }));
  const compiled: CompiledRowRule[] = [];
  for (const rule of table.rules) {
    if (rule.kind !== 'custom') continue;
    if (placeOf(rule) === 'unknown-engine') {
      report(
        [...rule.path, 'engine'],
        'UNKNOWN_ENGINE',
        `rule ${rule.id}: engine '${rule.engine}' is not built in`,
        'use cel',
      );
      continue;
    }
    const result = compileRowRule(rule.implementation, columns);
    for (const problem of result.problems ?? [])
      report(
        [...rule.path, 'implementation'],
        'RULE_INVALID',
        `rule ${rule.id}: ${problem.message}`,
        problem.hint,
        problem.offset,
      );
    if (result.rule === null) continue;
    const column =
      rule.column === null ? null : (table.columns.find((candidate) => candidate.name === rule.column) ?? null);
    const meta: RuleMeta = {
      ruleId: rule.id,
      code: 'RULE',
      action: ruleAction(rule, column, table, defaults),
      column: null,
      message: rule.description ?? 'the row rule is not met',
      stage: STAGE_ROW,
    };
    compiled.push({
      meta,
      error: { ...meta, code: 'RULE_ERROR', message: 'the row rule could not be evaluated' },
      rule: result.rule,
    });
  }
  return compiled;
}

/** The contract's entry for a live table: by full name, by table name, or the only one. Throws ContractError when none fits. */
export function selectTable(
  contract: Contract,
  live: { readonly schema: string; readonly table: string } | null,
  name?: string,
): TableContract {
  const wanted = name === undefined ? (live === null ? [] : [`${live.schema}.${live.table}`, live.table]) : [name];
  for (const word of wanted) {
    const found = contract.tables.find((table) => table.physicalName === word || table.name === word);
    if (found !== undefined) return found;
  }
  const [only] = contract.tables;
  if (only !== undefined && contract.tables.length === 1 && name === undefined) return only;
  throw new ContractError([
    {
      level: 'error',
      code: 'TABLE_UNKNOWN',
      message: `the contract has no table ${wanted[0] ?? '(name one: it has several)'}`,
      ...contract.source.locate(['schema']),
      file: contract.source.file,
      subject: '',
      hint: `it has ${contract.tables.map((table) => table.name).join(', ')}`,
    },
  ]);
}
