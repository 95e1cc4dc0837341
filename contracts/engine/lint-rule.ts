/** What a rule says that the standard's schema lets pass and that could never do what was meant. */
import { parseDecimal } from './decimal-text.ts';
import type { Report } from './lint-report.ts';
import type { LibraryRule, Operator, Rule, TableContract } from './model.ts';
import { didYouMean } from './nearest.ts';
import { checkSelectOnly } from './rules/sql-guard.ts';
import { compilePattern } from './rules/linear-pattern.ts';

const SEVERITIES = ['info', 'warning', 'error'] as const;

export function lintRule(rule: Rule, table: TableContract, report: Report): void {
  const severity = rule.severity.toLowerCase();
  if (![...SEVERITIES, 'warn', 'critical'].includes(severity))
    report([...rule.path, 'severity'], 'SEVERITY_UNKNOWN', `severity '${rule.severity}' counts as error`, {
      level: 'warning',
      hint: didYouMean(severity, SEVERITIES),
    });
  if (rule.kind === 'text')
    return report(rule.path, 'RULE_NOT_RUN', `rule ${rule.id} is prose: nothing tests it`, { level: 'info' });
  if (rule.kind === 'custom') {
    if (rule.scope !== null && rule.scope !== 'row')
      report(rule.path, 'SCOPE_UNUSABLE', `a cel rule has scope row, not ${rule.scope}`);
    return;
  }
  if (rule.onViolation === 'quarantine' && rule.kind === 'sql')
    report(rule.path, 'ACTION_UNUSABLE', 'an SQL rule speaks of the whole table and cannot park a row', {
      hint: 'use warn or fail, or a cel rule',
    });
  lintOperator(rule.operator, rule, report);
  if (rule.kind === 'sql') {
    const problem = checkSelectOnly(rule.query);
    if (problem !== null) report([...rule.path, 'query'], 'SQL_REFUSED', `rule ${rule.id}: ${problem}`);
    return;
  }
  lintLibrary(rule, table, report);
}

function lintOperator(operator: Operator, rule: Rule, report: Report): void {
  const path = [...rule.path, operator.name];
  const { value } = operator;
  if (Array.isArray(value)) {
    const [low, high] = value as unknown[];
    if (typeof low === 'number' && typeof high === 'number' && low > high)
      report(path, 'BOUNDS_CROSSED', `${operator.name} [${low}, ${high}]: the smaller number comes first`, {
        hint: `[${high}, ${low}], both inclusive`,
      });
    return;
  }
  if ((operator.name === 'mustBe' || operator.name === 'mustNotBe') && parseDecimal(operator.text) === null)
    report(path, 'OPERATOR_VALUE', `${operator.name} needs a number, found '${operator.text}'`, {
      hint: operator.text === 'zero' ? 'write 0' : null,
    });
}

function lintLibrary(rule: LibraryRule, table: TableContract, report: Report): void {
  const at = [...rule.path, 'arguments'];
  const onTable = rule.column === null;
  if (rule.metric === 'rowCount' && !onTable)
    report([...rule.path, 'metric'], 'METRIC_MISPLACED', 'rowCount belongs to the table, not to a column');
  if (rule.metric === 'rowCount' && rule.unit === 'percent')
    report(rule.path, 'METRIC_MISPLACED', 'rowCount has no percent: percent of what?');
  if (rule.metric !== 'rowCount' && rule.metric !== 'duplicateValues' && onTable)
    report([...rule.path, 'metric'], 'METRIC_MISPLACED', `${rule.metric} belongs to a column`, {
      hint: "put it under the column's quality",
    });
  if (rule.metric === 'invalidValues' && rule.validValues === null && rule.pattern === null)
    report(rule.path, 'ARGUMENT_MISSING', 'invalidValues needs arguments: validValues or pattern', {
      hint: 'arguments: {validValues: [a, b]}',
    });
  if (rule.validValues?.length === 0)
    report(at, 'ARGUMENT_MISSING', 'validValues is empty: every value would be invalid');
  if (rule.metric === 'duplicateValues' && onTable) {
    if (rule.properties === null)
      report(rule.path, 'ARGUMENT_MISSING', 'duplicateValues on a table needs arguments: properties', {
        hint: 'arguments: {properties: [a, b]}',
      });
    const names = table.columns.map((column) => column.name);
    for (const name of rule.properties ?? [])
      if (!names.includes(name))
        report(at, 'REFERENCE', `the table has no column '${name}'`, { hint: didYouMean(name, names) });
  }
  if (rule.pattern === null) return;
  try {
    compilePattern(rule.pattern);
  } catch (error) {
    // The gate reports row-enforced patterns itself; this one would only be met by a table test.
    report([...at, 'pattern'], 'PATTERN_REFUSED', error instanceof Error ? error.message : 'the pattern was refused');
  }
}
