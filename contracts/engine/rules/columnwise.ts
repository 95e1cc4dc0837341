/** A gate taken apart by columns, for rows that come as columns: the very tests that the validators are compiled from. */
import type { Cell, ColumnGate, ColumnwiseGate } from '../gate.ts';
import type { RowRule } from './cel.ts';
import type { ColumnCheck, ColumnPlan } from './column-plan.ts';

export function columnwiseGate(plans: readonly ColumnPlan[], rules: readonly RowRule[]): ColumnwiseGate {
  return {
    columns: plans.map(columnGate),
    rowRules: rules.map((rule) => ({ columns: rule.columns, passes: (row) => rule.evaluate(row) === 'pass' })),
  };
}

function columnGate(plan: ColumnPlan): ColumnGate {
  const { checks, itemChecks, mapping, column } = plan;
  const others = checks.filter((check) => !check.nulls && check.meta.code !== 'TYPE');
  const typeOnly =
    itemChecks.length === 0 && checks.every((check) => (check.nulls ? isNullCheck(check) : check.fault !== undefined));
  const { maxLength } = column.options;
  // Text never has more characters than bytes, so that the longest that is allowed need not be counted.
  const onlyLonger =
    maxLength !== undefined && others.length === 1 && others[0]?.meta.ruleId === `maxLength:${column.name}`;
  const plain = checks.every(
    (check) => others.includes(check) || (check.nulls ? isNullCheck(check) : check.fault !== undefined),
  );
  return {
    name: column.name,
    wire: mapping.wire,
    delta: mapping.delta,
    nullPasses: checks.every((check) => !check.nulls || check.test(null)),
    typeOnly,
    bytesPass: mapping.wire === 'text' && onlyLonger && plain ? maxLength : -1,
    passes: (cell) => passesAll(checks, cell) && (itemChecks.length === 0 || passesItems(itemChecks, cell)),
  };
}

/** Asks only whether there is a value: of a value it has nothing to say. */
function isNullCheck({ meta }: ColumnCheck): boolean {
  return meta.code === 'KEY_NULL' || (meta.code === 'REQUIRED' && meta.ruleId.startsWith('required:'));
}

function passesAll(checks: readonly ColumnCheck[], cell: Cell): boolean {
  for (const check of checks) {
    if (cell === null && !check.nulls) continue;
    if (!check.test(cell)) return false;
  }
  return true;
}

function passesItems(checks: readonly ColumnCheck[], cell: Cell): boolean {
  if (!Array.isArray(cell)) return true;
  for (const item of cell as readonly Cell[]) if (!passesAll(checks, item)) return false;
  return true;
}
