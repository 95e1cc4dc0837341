/** Changes of quality rules. A rule is the same rule when its id is. */
import type { LibraryRule, Rule, TableContract } from '../model.ts';
import { meansZero } from '../rules/rule-meta.ts';
import type { Change } from './change.ts';
import { actionChange } from './compare-columns.ts';
import { compareValueLists } from './value-lists.ts';
import { compareOperators } from './compare-operators.ts';

export function compareRules(before: TableContract, after: TableContract): Change[] {
  const changes: Change[] = [];
  const left = new Set(before.rules);
  const onSame = sameColumns(before, after);
  const pairs = pairRules(before, after, onSame);
  for (const rule of after.rules) {
    const subject = `${after.name}.${rule.id}`;
    const previous = pairs.get(rule);
    if (previous !== undefined) {
      left.delete(previous);
      changes.push(...compareRule(subject, previous, rule, onSame(previous, rule)));
    } else if (rule.kind !== 'text' && !isAllowedValues(rule)) {
      changes.push({
        code: 'RULE_ADDED',
        subject,
        message: 'new rule: rows already written may break it',
        path: rule.path,
        ruleId: rule.id,
      });
    }
  }
  for (const rule of left) {
    if (rule.kind === 'text' || isAllowedValues(rule)) continue;
    const subject = `${after.name}.${rule.id}`;
    changes.push({ code: 'RULE_LOOSENED', subject, message: 'rule removed', path: after.path });
  }
  return changes;
}

/** New rule → old one: by the id that it was given; one that has none, on either side, by what it says, then by its place. */
function pairRules(before: TableContract, after: TableContract, onSame: SameColumn): Map<Rule, Rule> {
  const pairs = new Map<Rule, Rule>();
  const free = new Set(before.rules);
  const pair = (same: (old: Rule, now: Rule) => boolean): void => {
    for (const now of after.rules) {
      if (pairs.has(now)) continue;
      const old = [...free].find((candidate) => same(candidate, now));
      if (old === undefined) continue;
      pairs.set(now, old);
      free.delete(old);
    }
  };
  pair((old, now) => old.givenId !== null && old.givenId === now.givenId);
  const alike = (old: Rule, now: Rule): boolean =>
    (old.givenId === null || now.givenId === null) && old.kind === now.kind && onSame(old, now);
  pair((old, now) => alike(old, now) && said(old) === said(now));
  pair((old, now) => alike(old, now) && body(old) === body(now));
  pair((old, now) => alike(old, now) && old.id === now.id);
  return pairs;
}

type SameColumn = (old: Rule, now: Rule) => boolean;

/** Both of the table, or both of one column, whatever it is called now. */
function sameColumns(before: TableContract, after: TableContract): SameColumn {
  const idOf = (table: TableContract, name: string | null): string | null =>
    table.columns.find((column) => column.name === name)?.id ?? null;
  return ({ column: old }, { column: now }) => {
    const id = idOf(before, old);
    return old === now || (id !== null && id === idOf(after, now));
  };
}

const said = (rule: Rule): string =>
  `${body(rule)}|${'operator' in rule ? `${rule.operator.name} ${rule.operator.text}` : (rule.description ?? '')}`;

/** The values themselves are compared as the column's list, unless some rows may hold others. */
function isAllowedValues(rule: Rule): boolean {
  return rule.kind === 'library' && rule.metric === 'invalidValues' && rule.validValues !== null && meansZero(rule);
}

function compareRule(subject: string, old: Rule, now: Rule, onSame: boolean): Change[] {
  const changes: Change[] = [];
  const push = (code: Change['code'], message: string): void =>
    void changes.push({
      code,
      subject,
      message,
      path: now.path,
      ...(code === 'RULE_TIGHTENED' ? { ruleId: now.id } : {}),
    });
  if (!onSame) push('RULE_CHANGED', `now of ${now.column ?? 'the table'}, before of ${old.column ?? 'the table'}`);
  else if (old.kind !== now.kind || body(old) !== body(now)) {
    const list = compareLists(old, now);
    push(list?.code ?? 'RULE_CHANGED', list?.message ?? 'its text changed: which rows pass cannot be compared');
  } else if ('operator' in old && 'operator' in now) {
    const direction = compareOperators(old, now);
    if (direction !== 'same') {
      const shown = `${old.operator.name} ${old.operator.text} -> ${now.operator.name} ${now.operator.text}`;
      push(
        direction === 'tightened' ? 'RULE_TIGHTENED' : direction === 'loosened' ? 'RULE_LOOSENED' : 'RULE_CHANGED',
        shown,
      );
    }
  }
  const [before, after] = [severityRank(old.severity), severityRank(now.severity)];
  if (after < before) push('RULE_LOOSENED', `severity ${old.severity} -> ${now.severity}`);
  if (after > before) push('RULE_TIGHTENED', `severity ${old.severity} -> ${now.severity}`);
  if (old.onViolation !== now.onViolation)
    changes.push(actionChange(subject, old.onViolation, now.onViolation, now.path));
  return changes;
}

function body(rule: Rule): string {
  switch (rule.kind) {
    case 'text':
      return '';
    case 'sql':
      return `${rule.query.trim()}|${rule.unit}`;
    case 'custom':
      return `${rule.engine}|${rule.implementation.trim()}`;
    case 'library':
      return JSON.stringify([
        rule.metric,
        rule.unit,
        rule.pattern,
        rule.missingValues?.map(String).toSorted(),
        rule.properties?.toSorted(),
        isAllowedValues(rule) ? null : rule.validValues?.map(String).toSorted(),
      ]);
  }
}

/** One list of values grew or shrank, and all else is as it was: then it is known which rows are counted more. */
function compareLists(old: Rule, now: Rule): Pick<Change, 'code' | 'message'> | null {
  if (
    old.kind !== 'library' ||
    now.kind !== 'library' ||
    !isUpperBound(old) ||
    said(withoutLists(old)) !== said(withoutLists(now))
  )
    return null;
  const missing = compareValueLists(old.missingValues, now.missingValues);
  const valid = compareValueLists(old.validValues, now.validValues);
  const shown = [missing, valid]
    .flatMap(({ added, removed }) => [...added.map((value) => `+${value}`), ...removed.map((value) => `-${value}`)])
    .join(', ');
  const tightened = missing.added.length > 0 || valid.removed.length > 0;
  const loosened = missing.removed.length > 0 || valid.added.length > 0;
  if (shown === '' || tightened === loosened) return null;
  return { code: tightened ? 'RULE_TIGHTENED' : 'RULE_LOOSENED', message: shown };
}

/** More rows counted can only break it. */
const isUpperBound = ({ operator: { name, text } }: LibraryRule): boolean =>
  (name === 'mustBe' && text === '0') || name === 'mustBeLessThan' || name === 'mustBeLessOrEqualTo';
const withoutLists = (rule: LibraryRule): LibraryRule => ({
  ...rule,
  missingValues: rule.missingValues === null ? null : [],
  validValues: rule.validValues === null ? null : [],
});

function severityRank(severity: string): number {
  const rank = ['info', 'warning', 'error'].indexOf(severity.toLowerCase());
  return rank < 0 ? 2 : rank;
}
