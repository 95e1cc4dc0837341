/** Some of the rows that fail a rule, by their keys: read only when a run asks for them, and never with a classified value. */
import type { GateRow } from '../gate.ts';
import { holdsClassified, keyColumns } from '../model.ts';
import type { Rule, TableContract } from '../model.ts';
import { MASK, showValue } from '../privacy.ts';
import { mapContractColumn } from '../type-table.ts';
import { compileRowRule } from './cel.ts';
import { rowMatcher } from './count-rows.ts';
import { requestOf } from './count-request.ts';
import type { TableProbe } from './table-probe.ts';

export async function sampleRows(
  rule: Rule,
  table: TableContract,
  probe: TableProbe,
  limit: number,
): Promise<readonly string[]> {
  const failing = failingRows(rule, table);
  if (failing === null || probe.rows === null) return [];
  const keys = keyColumns(table);
  const shown = rule.column === null ? null : (table.columns.find(({ name }) => name === rule.column) ?? null);
  const wanted = [...new Set([...keys.map(({ name }) => name), ...failing.columns])];
  const found: string[] = [];
  for await (const row of probe.rows(wanted)) {
    if (!failing.matches(row)) continue;
    const key = keys.map((column) => (holdsClassified(column) ? MASK : cell(row, column.name))).join('/');
    const isKey = shown === null || shown.keyPosition > 0;
    const value = isKey ? '' : ` ${shown.name}=${holdsClassified(shown) ? MASK : cell(row, shown.name)}`;
    found.push(`${key === '' ? 'row' : key}${value}`);
    if (found.length >= limit) break;
  }
  return found;
}

function cell(row: GateRow, name: string): string {
  const value = row[name];
  return value === undefined ? 'absent' : value === null ? 'NULL' : showValue(value);
}

/** Null where a rule does not say which rows fail it: a count of all rows, SQL. */
function failingRows(
  rule: Rule,
  table: TableContract,
): { readonly columns: readonly string[]; readonly matches: (row: GateRow) => boolean } | null {
  if (rule.kind === 'custom') {
    const columns = table.columns.map((column) => ({
      name: column.name,
      mapping: mapContractColumn(column),
      nullable: !column.required && column.keyPosition === 0,
    }));
    const compiled = rule.engine === 'cel' ? compileRowRule(rule.implementation, columns).rule : null;
    if (compiled === null) return null;
    return {
      columns: compiled.columns,
      matches: (row) => ['fail', 'error'].includes(compiled.evaluate(row)),
    };
  }
  if (rule.kind !== 'library') return null;
  const request = requestOf(rule);
  if (typeof request === 'string' || request.kind === 'rows') return null;
  return { columns: request.kind === 'duplicate' ? request.columns : [request.column], matches: rowMatcher(request) };
}
