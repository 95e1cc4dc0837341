/**
 * What the gate refuses a value of a column for, as a schema language can say it: options, the closed list, and the count rules
 * that must be zero. What only warns is no condition, for a schema knows no warnings; it is listed.
 */
import { optionsWithRange } from '../integer-format.ts';
import type { Column, ColumnOptions, LibraryRule, TableContract } from '../model.ts';
import { ACTION_DEFAULTS, builtInAction, placeOf, ruleAction } from '../rules/rule-meta.ts';
import type { ScalarValue } from '../yaml-tree.ts';

export interface Enforced {
  readonly nullable: boolean;
  /** A whole row without the column is refused. */
  readonly mustBeThere: boolean;
  readonly options: ColumnOptions;
  /** Null: any value. */
  readonly values: readonly ScalarValue[] | null;
  /** The option's, and those of invalidValues rules. */
  readonly patterns: readonly string[];
  /** Values that count as missing, NULL aside. */
  readonly missing: readonly ScalarValue[];
  /** What only warns. */
  readonly warnings: readonly string[];
}

export function enforcedOn(column: Column, table: TableContract): Enforced {
  const warnings: string[] = [];
  const key = column.keyPosition > 0;
  const builtIn = builtInAction(column, table, ACTION_DEFAULTS) !== 'warn';
  if (!builtIn && column.required && !key) warnings.push('required');
  const checked = Object.keys(column.options).filter((name) => !STORAGE_WORDS.has(name));
  if (!builtIn && checked.length > 0) warnings.push(...checked);
  const rules = table.rules.filter(
    (rule): rule is LibraryRule => rule.kind === 'library' && rule.column === column.name && placeOf(rule) === 'row',
  );
  const firm = rules.filter((rule) => ruleAction(rule, column, table, ACTION_DEFAULTS) !== 'warn');
  for (const rule of rules) if (!firm.includes(rule)) warnings.push(`rule ${rule.id}`);
  const options = builtIn ? optionsWithRange(column) : storageOptions(column.options);
  return {
    nullable:
      !key &&
      !(column.required && builtIn) &&
      !firm.some(
        (rule) =>
          rule.metric === 'nullValues' ||
          (rule.metric === 'missingValues' && (rule.missingValues ?? [null]).includes(null)),
      ),
    mustBeThere: key || (column.required && builtIn),
    options,
    values: closedList(column, rules, firm, builtIn),
    patterns: [
      ...(options.pattern === undefined ? [] : [options.pattern]),
      ...firm.flatMap((rule) => (rule.metric === 'invalidValues' && rule.pattern !== null ? [rule.pattern] : [])),
    ],
    missing: firm.flatMap((rule) =>
      rule.metric === 'missingValues' ? (rule.missingValues ?? []).filter((value) => value !== null) : [],
    ),
    warnings,
  };
}

/** They say how a value is kept, not what it must be. */
const STORAGE_WORDS: ReadonlySet<string> = new Set(['format', 'timezone', 'defaultTimezone']);

function storageOptions({ format, timezone }: ColumnOptions): ColumnOptions {
  return { ...(format === undefined ? {} : { format }), ...(timezone === undefined ? {} : { timezone }) };
}

function closedList(
  column: Column,
  rules: readonly LibraryRule[],
  firm: readonly LibraryRule[],
  builtIn: boolean,
): readonly ScalarValue[] | null {
  if (column.enumOpen || column.allowedValues === null) return null;
  const lists = rules.flatMap((rule) => (rule.validValues === null ? [] : [rule.validValues]));
  const fromRule = lists.some((list) => sameList(list, column.allowedValues ?? []));
  let values = fromRule || !builtIn ? null : column.allowedValues;
  for (const { validValues } of firm) {
    if (validValues === null) continue;
    values = values === null ? validValues : values.filter((value) => validValues.includes(value));
  }
  return values;
}

function sameList(a: readonly ScalarValue[], b: readonly ScalarValue[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}
