/** `contracts test --dry-run`. */
import type { Contract, Rule, TableContract } from '../model.ts';
import { impliedUniqueRules } from '../unique-columns.ts';
import { requestOf } from './count-request.ts';
import { checkSelectOnly } from './sql-guard.ts';
import { concerns, severityOf } from './table-rules.ts';
import type { RuleResult } from './table-rules.ts';

/** What a run would do, without looking at any data: NOT RUN stays NOT RUN. */
export function plannedRules(contract: Contract, table: TableContract, rule: string | null): RuleResult[] {
  const results: RuleResult[] = [];
  for (const each of [...table.rules, ...impliedUniqueRules(table)]) {
    if (rule !== null && each.id !== rule) continue;
    const base = {
      ruleId: each.id,
      table: table.name,
      column: each.column,
      severity: severityOf(each),
      path: each.path,
    };
    const fault = faultOf(each);
    results.push({
      ...base,
      status: fault === null ? 'noted' : 'not-run',
      detail: fault ?? plannedText(each),
      from: null,
    });
  }
  for (const [index, sla] of contract.sla.entries()) {
    const id = sla.id ?? `${sla.property}.${index}`;
    if ((rule !== null && id !== rule) || !concerns(sla, table)) continue;
    const base = { ruleId: id, table: table.name, column: null, severity: 'info' as const, path: sla.path };
    const detail = `${sla.property} ${String(sla.value)}${sla.unit === null ? '' : ` ${sla.unit}`}`;
    results.push({ ...base, status: 'noted', detail, from: null });
  }
  return results;
}

function plannedText(rule: Rule): string {
  if (rule.kind === 'text') return 'prose: for people to read';
  if (rule.kind === 'custom') return `${rule.engine}: ${rule.implementation}`;
  const { name, text } = rule.operator;
  return rule.kind === 'sql'
    ? `sql ${name} ${text}`
    : `${rule.metric} ${name} ${text}${rule.unit === 'percent' ? '%' : ''}`;
}

/** Why a rule could not run on any stage. */
function faultOf(rule: Rule): string | null {
  if (rule.kind === 'custom') return rule.engine === 'cel' ? null : `engine ${rule.engine} is not built in`;
  if (rule.kind === 'sql') return checkSelectOnly(rule.query);
  if (rule.kind === 'text') return null;
  const request = requestOf(rule);
  return typeof request === 'string' ? request : null;
}
