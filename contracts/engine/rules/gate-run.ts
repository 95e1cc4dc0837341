/** The compiled gate at work: validators first, and only for a row that failed them the slow question why. */
import type { ErrorObject } from 'ajv';

import type { Action, Cell, Gate, GateOp, GateRow, Violation } from '../gate.ts';
import type { Contract, UnknownColumns } from '../model.ts';
import { holdsClassified } from '../model.ts';
import { maskValue, showValue } from '../privacy.ts';
import type { RowRule } from './cel.ts';
import type { ColumnCheck, ColumnPlan } from './column-plan.ts';
import { columnwiseGate } from './columnwise.ts';
import type { RowValidators } from './gate-schema.ts';
import { STAGE_TYPE, STAGE_UNKNOWN } from './rule-meta.ts';
import type { RuleMeta, Stage } from './rule-meta.ts';

export interface GateParts {
  readonly contract: Contract;
  readonly plans: readonly ColumnPlan[];
  readonly rowRules: readonly CompiledRowRule[];
  readonly validators: RowValidators;
  readonly unknownColumns: UnknownColumns;
}

export interface CompiledRowRule {
  readonly meta: RuleMeta;
  /** For an evaluation that failed. */
  readonly error: RuleMeta;
  readonly rule: RowRule;
}

interface Staged {
  readonly stage: Stage;
  readonly violation: Violation;
}

export function createGate(parts: GateParts): Gate {
  const { contract, plans, rowRules, validators } = parts;
  const known: ReadonlySet<string> = new Set(plans.map((plan) => plan.column.name));
  const planOf: ReadonlyMap<string, ColumnPlan> = new Map(plans.map((plan) => [plan.column.name, plan]));
  const unknown = new Map<string, number>();
  const nulled = new Map<string, number>();
  const ruleSkips = new Float64Array(rowRules.length);
  const reportsUnknown = parts.unknownColumns === 'quarantine' || parts.unknownColumns === 'fail';
  const unknownAction: Action = parts.unknownColumns === 'fail' ? 'fail' : 'quarantine';

  const unknownViolations = (row: GateRow): Staged[] | null => {
    let found: Staged[] | null = null;
    for (const name in row) {
      if (known.has(name) || row[name] === undefined) continue;
      unknown.set(name, (unknown.get(name) ?? 0) + 1);
      if (reportsUnknown) (found ??= []).push(unknownColumn(name, unknownAction));
    }
    return found;
  };

  const explainErrors = (errors: readonly ErrorObject[], row: GateRow, op: GateOp): Staged[] => {
    const found: Staged[] = [];
    const seen = new Set<string>();
    for (const error of errors) {
      const staged = explainError(error, row, op, validators.checks, planOf, nulled);
      if (staged === null) continue;
      const key = `${staged.violation.ruleId} ${staged.violation.code}`;
      if (seen.has(key)) continue;
      seen.add(key);
      found.push(staged);
    }
    // A value of the wrong type, or one that was replaced by NULL, has no length and no bounds: one cause, one violation.
    return found.filter(({ stage, violation }) => stage <= STAGE_TYPE || !hasFault(found, violation.column));
  };

  return {
    contractId: contract.id,
    contractVersion: contract.version,
    contractHash: contract.source.sha256,
    check(op, row) {
      const validate = op === 'update' ? validators.partial : op === 'delete' ? validators.key : validators.full;
      let found = op === 'delete' ? null : unknownViolations(row);
      if (!validate(row)) found = [...(found ?? []), ...explainErrors(validate.errors ?? [], row, op)];
      if (op !== 'delete') found = runRowRules(rowRules, row, found, ruleSkips);
      return found === null || found.length === 0 ? null : ordered(found);
    },
    columnwise: columnwiseGate(
      plans,
      rowRules.map(({ rule }) => rule),
    ),
    get skipped() {
      return skippedByRule(plans, validators.absences, rowRules, ruleSkips);
    },
    unknownColumns: unknown,
    nulled,
  };
}

function ordered(found: readonly Staged[]): Violation[] {
  return found.toSorted((a, b) => a.stage - b.stage).map((staged) => staged.violation);
}

function unknownColumn(name: string, action: Action): Staged {
  const violation: Violation = {
    ruleId: `unknown:${name}`,
    code: 'UNKNOWN_COLUMN',
    column: name,
    action,
    message: 'the contract has no such column',
    value: null,
  };
  return { stage: STAGE_UNKNOWN, violation };
}

function explainError(
  error: ErrorObject,
  row: GateRow,
  op: GateOp,
  checks: readonly ColumnCheck[],
  plans: ReadonlyMap<string, ColumnPlan>,
  nulled: Map<string, number>,
): Staged | null {
  if (error.keyword === 'required') return missing(String(error.params['missingProperty']), op, plans);
  const check = checks[Number(error.params['check'])];
  if (check === undefined) return null;
  const { meta } = check;
  const name = meta.column ?? '';
  const plan = plans.get(name);
  const value = valueAt(row[name], error.instancePath);
  const fault = check.fault?.(value ?? null) ?? null;
  const base = { column: meta.column, value: plan === undefined ? null : shown(plan, value) };
  if (fault !== 'UNREPRESENTABLE')
    return {
      stage: meta.stage,
      violation: {
        ...base,
        ruleId: meta.ruleId,
        code: fault ?? meta.code,
        action: meta.action,
        message: check.explain?.(value ?? null) ?? meta.message,
      },
    };
  return { stage: STAGE_TYPE, violation: { ...base, ...unrepresentable(name, plan, meta.message, row, nulled) } };
}

/** Legal in PostgreSQL, without a place in the lake's type: the contract says what then. */
function unrepresentable(
  name: string,
  plan: ColumnPlan | undefined,
  expected: string,
  row: GateRow,
  nulled: Map<string, number>,
): Omit<Violation, 'column' | 'value'> {
  const base = { ruleId: `representable:${name}`, code: 'UNREPRESENTABLE' as const };
  if (plan?.unrepresentable !== 'null')
    return {
      ...base,
      action: plan?.unrepresentable ?? 'quarantine',
      message: `${expected}; this value has no place in the lake's type`,
    };
  row[name] = null;
  nulled.set(name, (nulled.get(name) ?? 0) + 1);
  return { ...base, action: 'warn', message: `${expected}; written as NULL, as the contract says` };
}

function missing(name: string, op: GateOp, plans: ReadonlyMap<string, ColumnPlan>): Staged | null {
  const meta = plans.get(name)?.checks[0]?.meta;
  if (meta === undefined) return null;
  const message =
    op === 'delete' || op === 'update'
      ? 'the event does not carry this key column'
      : 'the event does not carry this column';
  return {
    stage: meta.stage,
    violation: { ruleId: meta.ruleId, code: meta.code, column: name, action: meta.action, message, value: null },
  };
}

/** The cell, or the item of an array that an error's path points to: `/tags/3`. */
function valueAt(cell: Cell | undefined, instancePath: string): Cell | undefined {
  if (!Array.isArray(cell)) return cell;
  const items: readonly Cell[] = cell;
  const index = /\/(\d+)$/.exec(instancePath)?.[1];
  return index === undefined || !instancePath.slice(1).includes('/') ? cell : items[Number(index)];
}

function shown(plan: ColumnPlan, value: Cell | undefined): string | null {
  if (value === null || value === undefined) return null;
  return holdsClassified(plan.column) ? maskValue(value) : showValue(value);
}

/** A rule whose column is absent, or already failed its type, is not evaluated: the first is counted. */
function runRowRules(
  rules: readonly CompiledRowRule[],
  row: GateRow,
  earlier: Staged[] | null,
  skips: Float64Array,
): Staged[] | null {
  let found = earlier;
  for (let index = 0; index < rules.length; index++) {
    const compiled = rules[index];
    if (compiled === undefined) continue;
    const { rule } = compiled;
    if (isAbsent(rule.columns, row)) {
      skips[index] = (skips[index] ?? 0) + 1;
      continue;
    }
    if (earlier !== null && hasTypeFault(rule.columns, earlier)) continue;
    const outcome = rule.evaluate(row);
    if (outcome === 'pass') continue;
    const meta = outcome === 'fail' ? compiled.meta : compiled.error;
    const violation: Violation = {
      ruleId: meta.ruleId,
      code: meta.code,
      column: null,
      action: meta.action,
      message: meta.message,
      value: null,
    };
    found = [...(found ?? []), { stage: meta.stage, violation }];
  }
  return found;
}

function isAbsent(columns: readonly string[], row: GateRow): boolean {
  for (const name of columns) if (row[name] === undefined) return true;
  return false;
}

function hasFault(found: readonly Staged[], column: string | null): boolean {
  return found.some(
    ({ stage, violation }) => stage === STAGE_TYPE && violation.column === column && violation.code !== 'REQUIRED',
  );
}

function hasTypeFault(columns: readonly string[], found: readonly Staged[]): boolean {
  return found.some(
    ({ stage, violation }) =>
      stage === STAGE_TYPE &&
      violation.action !== 'warn' &&
      violation.column !== null &&
      columns.includes(violation.column),
  );
}

function skippedByRule(
  plans: readonly ColumnPlan[],
  absences: Float64Array,
  rules: readonly CompiledRowRule[],
  skips: Float64Array,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [index, plan] of plans.entries())
    for (const id of plan.ruleIds) if ((absences[index] ?? 0) > 0) counts.set(id, absences[index] ?? 0);
  for (const [index, { meta }] of rules.entries())
    if ((skips[index] ?? 0) > 0) counts.set(meta.ruleId, skips[index] ?? 0);
  return counts;
}
