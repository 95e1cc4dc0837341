/** What a library rule asks to be counted; a text says why it cannot be. */
import type { LibraryRule } from '../model.ts';
import type { CountRequest } from './table-probe.ts';

export function requestOf(rule: LibraryRule): CountRequest | string {
  if (rule.metric === 'rowCount') return { kind: 'rows' };
  if (rule.metric === 'duplicateValues') {
    const columns = rule.properties ?? (rule.column === null ? [] : [rule.column]);
    return columns.length === 0 ? 'no columns to compare are given' : { kind: 'duplicate', columns };
  }
  const { column } = rule;
  if (column === null) return `${rule.metric} needs a column`;
  if (rule.metric === 'nullValues') return { kind: 'null', column };
  if (rule.metric === 'missingValues') return { kind: 'missing', column, values: rule.missingValues ?? [null] };
  if (rule.validValues === null && rule.pattern === null) return 'invalidValues has neither validValues nor pattern';
  return { kind: 'invalid', column, validValues: rule.validValues, pattern: rule.pattern };
}
