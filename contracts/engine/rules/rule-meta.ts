/** What the gate knows of each thing it checks: the rule's name, its code and what a violation of it leads to. */
import type { Action, ViolationCode } from '../gate.ts';
import type { Column, OnUnrepresentable, Rule, TableContract } from '../model.ts';

/** Order of evaluation: types, then options, then row rules. Unknown columns come before all. */
export type Stage = 0 | 1 | 2 | 3;
export const STAGE_UNKNOWN: Stage = 0;
export const STAGE_TYPE: Stage = 1;
export const STAGE_OPTION: Stage = 2;
export const STAGE_ROW: Stage = 3;

export interface RuleMeta {
  readonly ruleId: string;
  readonly code: ViolationCode;
  readonly action: Action;
  readonly column: string | null;
  readonly message: string;
  readonly stage: Stage;
}

/** What applies where the contract is silent. */
export interface ActionDefaults {
  readonly onViolation: Action;
  readonly onKeyError: Action;
  readonly onUnrepresentable: OnUnrepresentable;
}
export const ACTION_DEFAULTS: ActionDefaults = {
  onViolation: 'quarantine',
  onKeyError: 'fail',
  onUnrepresentable: 'quarantine',
};

/** A rule that only warns never parks a row, whatever its table says. */
export function ruleAction(rule: Rule, column: Column | null, table: TableContract, defaults: ActionDefaults): Action {
  if (rule.onViolation !== null) return rule.onViolation;
  const severity = rule.severity.toLowerCase();
  if (severity === 'info' || severity === 'warning' || severity === 'warn') return 'warn';
  return column?.onViolation ?? table.onViolation ?? defaults.onViolation;
}

/** For what the contract says without a rule: type, required, options. */
export function builtInAction(column: Column | null, table: TableContract, defaults: ActionDefaults): Action {
  return column?.onViolation ?? table.onViolation ?? defaults.onViolation;
}

export function unrepresentablePolicy(
  column: Column,
  table: TableContract,
  defaults: ActionDefaults,
): OnUnrepresentable {
  return column.onUnrepresentable ?? table.onUnrepresentable ?? defaults.onUnrepresentable;
}

/** The count can only be zero: then a single row decides, and the gate enforces it. Any tolerance makes it a batch rule. */
export function meansZero(rule: Rule): boolean {
  if (rule.kind !== 'library') return false;
  const { name, text } = rule.operator;
  if (name === 'mustBe' || name === 'mustBeLessOrEqualTo') return text === '0';
  return name === 'mustBeLessThan' && rule.unit === 'rows' && text === '1';
}
const ROW_METRICS: ReadonlySet<string> = new Set(['invalidValues', 'missingValues', 'nullValues']);

/** Where a rule is evaluated: on each event, on the table, or (prose) nowhere. */
export type RulePlace = 'row' | 'table' | 'prose' | 'unknown-engine';

export function placeOf(rule: Rule): RulePlace {
  if (rule.kind === 'text') return 'prose';
  if (rule.kind === 'sql') return 'table';
  if (rule.kind === 'custom') return rule.engine === 'cel' ? 'row' : 'unknown-engine';
  const row =
    rule.column !== null && ROW_METRICS.has(rule.metric) && meansZero(rule) && (rule.scope ?? 'row') === 'row';
  return row ? 'row' : 'table';
}
