/** A column's values are promised to differ in two ways that mean the same: `unique: true`, and a rule that counts no duplicates. */
import type { LibraryRule, Rule, TableContract } from './model.ts';
import { meansZero } from './rules/rule-meta.ts';

/** The one column whose values the rule lets stand once only; null: it counts something else, several columns, or only warns. */
export function uniqueRuleColumn(rule: Rule): string | null {
  if (rule.kind !== 'library' || rule.metric !== 'duplicateValues' || !meansZero(rule)) return null;
  if (/^(?:info|warn(?:ing)?)$/i.test(rule.severity) || rule.onViolation === 'warn') return null;
  if (rule.column !== null) return rule.column;
  return rule.properties?.length === 1 ? (rule.properties[0] ?? null) : null;
}

/** What `unique: true` asks of the table, as rules; a column that a rule of its own tests already has none here. */
export function impliedUniqueRules(table: TableContract): LibraryRule[] {
  const tested = new Set(table.rules.map(uniqueRuleColumn));
  return table.columns
    .filter(({ unique, name }) => unique && !tested.has(name))
    .map(({ name, path }) => ({
      kind: 'library',
      metric: 'duplicateValues',
      path: [...path, 'unique'],
      id: `unique:${name}`,
      givenId: null,
      name: null,
      description: null,
      column: name,
      severity: 'error',
      dimension: 'uniqueness',
      onViolation: null,
      scope: null,
      schedule: null,
      validValues: null,
      pattern: null,
      missingValues: null,
      properties: null,
      operator: { name: 'mustBe', value: 0, text: '0' },
      unit: 'rows',
    }));
}

/** Both tables with each column's uniqueness said in one way, where both promise it and say it in two. */
export function alikeUniqueness(before: TableContract, after: TableContract): [TableContract, TableContract] {
  const [ruledBefore, ruledAfter] = [before, after].map((table) => new Set(table.rules.map(uniqueRuleColumn)));
  const alike = [new Set<string>(), new Set<string>()] as const;
  for (const old of before.columns) {
    const now =
      after.columns.find(({ id }) => id !== null && id === old.id) ??
      after.columns.find(({ name }) => name === old.name);
    if (now === undefined || old.unique === now.unique) continue;
    const kept = old.unique ? ruledAfter?.has(now.name) : ruledBefore?.has(old.name);
    if (kept !== true) continue;
    alike[0].add(old.name);
    alike[1].add(now.name);
  }
  return [withAttribute(before, alike[0]), withAttribute(after, alike[1])];
}

function withAttribute(table: TableContract, names: ReadonlySet<string>): TableContract {
  if (names.size === 0) return table;
  return {
    ...table,
    columns: table.columns.map((column) => (names.has(column.name) ? { ...column, unique: true } : column)),
    rules: table.rules.filter((rule) => !names.has(uniqueRuleColumn(rule) ?? '')),
  };
}
