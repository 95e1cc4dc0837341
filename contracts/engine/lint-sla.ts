/** Service levels: known names, units that can be read, a column that exists. */
import { parseDuration } from './rules/sla-duration.ts';
import type { Report } from './lint-report.ts';
import type { Contract, SlaProperty } from './model.ts';
import { didYouMean } from './nearest.ts';

/** Those that are measured. Others of the standard are kept as documentation and reported as such. */
export const MEASURED_SLAS = ['latency', 'freshness', 'retention'] as const;
const DOCUMENTED = [
  'frequency',
  'availability',
  'throughput',
  'errorRate',
  'timeToDetect',
  'timeToNotify',
  'timeToRepair',
  'timeOfAvailability',
  'generalAvailability',
  'endOfSupport',
  'endOfLife',
];

export function lintSla(sla: SlaProperty, contract: Contract, report: Report): void {
  const measured = MEASURED_SLAS.some((name) => name === sla.property);
  if (!measured) {
    const known = DOCUMENTED.includes(sla.property);
    report(
      [...sla.path, 'property'],
      known ? 'SLA_NOT_MEASURED' : 'SLA_UNKNOWN',
      `SLA '${sla.property}' is not measured`,
      {
        level: known ? 'info' : 'warning',
        hint: known ? null : didYouMean(sla.property, [...MEASURED_SLAS, ...DOCUMENTED]),
      },
    );
  } else if (parseDuration(sla.value, sla.unit) === null)
    report(
      [...sla.path, sla.unit === null ? 'value' : 'unit'],
      'SLA_UNIT',
      `${String(sla.value)} ${sla.unit ?? ''}`.trim() + ' is no duration',
      { hint: 'units: seconds, minutes, hours, days, weeks, months, years' },
    );
  for (const element of sla.element?.split(',') ?? []) lintElement(element.trim(), sla, contract, report);
}

function lintElement(element: string, sla: SlaProperty, contract: Contract, report: Report): void {
  const path = [...sla.path, 'element'];
  const dot = element.lastIndexOf('.');
  const [tableName, columnName] = dot < 0 ? [element, null] : [element.slice(0, dot), element.slice(dot + 1)];
  const table = contract.tables.find(
    (candidate) => candidate.name === tableName || candidate.physicalName === tableName,
  );
  if (table === undefined)
    return report(path, 'SLA_ELEMENT', `the contract has no table '${tableName}'`, {
      hint: didYouMean(
        tableName,
        contract.tables.map((candidate) => candidate.name),
      ),
    });
  if (columnName === null) return;
  const column = table.columns.find((candidate) => candidate.name === columnName);
  // The commit time of each row at the source: always there, and the best base for latency.
  if (columnName === '_sluice_committed_at') return;
  if (column === undefined)
    return report(path, 'SLA_ELEMENT', `table ${tableName} has no column '${columnName}'`, {
      hint: didYouMean(
        columnName,
        table.columns.map((candidate) => candidate.name),
      ),
    });
  const type = column.logicalType;
  if (MEASURED_SLAS.some((name) => name === sla.property) && type !== null && type !== 'timestamp' && type !== 'date')
    report(path, 'SLA_ELEMENT', `${sla.property} is measured on a date or timestamp; ${element} is ${type}`);
}
