/** Changes of quality rules and of service levels. A rule is the same rule when its id is. */
import { compareDecimals, parseDecimal } from '../decimal-text.ts';
import type { Contract, Rule, SlaProperty, TableContract } from '../model.ts';
import { meansZero } from '../rules/rule-meta.ts';
import type { Change } from './change.ts';
import { actionChange } from './compare-columns.ts';
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
  else if (old.kind !== now.kind || body(old) !== body(now))
    push('RULE_CHANGED', 'its text changed: which rows pass cannot be compared');
  else if ('operator' in old && 'operator' in now) {
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

function severityRank(severity: string): number {
  const rank = ['info', 'warning', 'error'].indexOf(severity.toLowerCase());
  return rank < 0 ? 2 : rank;
}

/** Seconds of one unit; months and years as the calendar's mean. */
const UNITS: Readonly<Record<string, number>> = {
  s: 1,
  second: 1,
  seconds: 1,
  m: 60,
  min: 60,
  minute: 60,
  minutes: 60,
  h: 3600,
  hour: 3600,
  hours: 3600,
  d: 86_400,
  day: 86_400,
  days: 86_400,
  w: 604_800,
  week: 604_800,
  weeks: 604_800,
  month: 2_629_746,
  months: 2_629_746,
  y: 31_556_952,
  year: 31_556_952,
  years: 31_556_952,
};

/** For these a smaller value is the better service; for every other named property a greater one is. */
const SMALLER_IS_BETTER: ReadonlySet<string> = new Set([
  'latency',
  'freshness',
  'frequency',
  'errorrate',
  'timetodetect',
  'timetonotify',
  'timetorepair',
]);

export function compareServiceLevels(before: Contract, after: Contract): Change[] {
  const key = (sla: SlaProperty): string =>
    `${sla.property === 'freshness' ? 'latency' : sla.property}|${sla.element ?? ''}`;
  const now = new Map(after.sla.map((sla) => [key(sla), sla]));
  const changes: Change[] = [];
  for (const old of before.sla) {
    const current = now.get(key(old));
    now.delete(key(old));
    const subject = `sla.${old.property}`;
    if (current === undefined) changes.push({ code: 'SLA_WORSE', subject, message: 'promise removed', path: [] });
    else changes.push(...compareServiceLevel(subject, old, current));
  }
  for (const added of now.values())
    changes.push({ code: 'SLA_ADDED', subject: `sla.${added.property}`, message: 'promise added', path: added.path });
  return changes;
}

function compareServiceLevel(subject: string, old: SlaProperty, now: SlaProperty): Change[] {
  const [a, b] = [amount(old), amount(now)];
  const shown = `${String(old.value)} ${old.unit ?? ''} -> ${String(now.value)} ${now.unit ?? ''}`
    .replaceAll(/ +/g, ' ')
    .trim();
  if (a === null || b === null) {
    const same = String(old.value) === String(now.value) && old.unit === now.unit;
    return same ? [] : [{ code: 'POLICY_CHANGED', subject, message: shown, path: now.path }];
  }
  const order = compareDecimals(b, a);
  if (order === 0) return [];
  const worse = SMALLER_IS_BETTER.has(old.property.toLowerCase()) ? order > 0 : order < 0;
  return [{ code: worse ? 'SLA_WORSE' : 'POLICY_CHANGED', subject, message: shown, path: now.path }];
}

function amount(sla: SlaProperty): ReturnType<typeof parseDecimal> {
  const value = parseDecimal(String(sla.value));
  if (value === null) return null;
  const unit = UNITS[sla.unit?.toLowerCase() ?? ''];
  return sla.unit !== null && unit === undefined
    ? value
    : { unscaled: value.unscaled * BigInt(unit ?? 1), scale: value.scale };
}
