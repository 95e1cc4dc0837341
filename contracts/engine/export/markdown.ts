/** A page a person can read: what the table is, its columns, its rules, its promises. */
import type { Column, Contract, Rule, TableContract } from '../model.ts';
import { isClassified } from '../model.ts';
import { lakeMapping } from '../privacy.ts';
import { placeOf } from '../rules/rule-meta.ts';
import { deltaTypeText } from '../type-table.ts';
import type { ExportResult } from './export-result.ts';

export function exportMarkdown(contract: Contract, table: TableContract): ExportResult {
  const facts = [
    ['Contract', `${contract.id} ${contract.version} (${contract.status})`],
    ['Table', table.physicalName],
    ['Owner', contract.owner],
    ['Domain', contract.domain],
    ['Compatibility', table.compatibility ?? 'FORWARD_TRANSITIVE'],
    ['Unknown columns', table.unknownColumns ?? 'evolve'],
  ].flatMap(([name, value]) => (value === null || value === undefined ? [] : [`- **${name}:** ${escape(value)}`]));
  const sections = [
    `# ${escape(table.name)}`,
    table.description === null ? null : escape(table.description),
    facts.join('\n'),
    contract.purpose === null ? null : `**Purpose.** ${escape(contract.purpose)}`,
    contract.limitations === null ? null : `**Limitations.** ${escape(contract.limitations)}`,
    `## Columns\n\n${grid(['Column', 'Type', 'Lake', 'Required', 'Notes'], table.columns.map(columnRow))}`,
    table.rules.length === 0
      ? null
      : `## Rules\n\n${grid(['Rule', 'On', 'Where', 'Severity', 'What'], table.rules.map(ruleRow))}`,
    contract.sla.length === 0
      ? null
      : `## Service levels\n\n${grid(
          ['Promise', 'Value', 'On'],
          contract.sla.map((sla) => [sla.property, `${String(sla.value)} ${sla.unit ?? ''}`.trim(), sla.element ?? '']),
        )}`,
  ];
  return { text: `${sections.filter((section) => section !== null && section !== '').join('\n\n')}\n`, lossy: [] };
}

function columnRow(column: Column): string[] {
  const mapping = lakeMapping(column, null);
  const notes = [
    column.keyPosition > 0 ? `key ${column.keyPosition}` : null,
    column.unique ? 'unique' : null,
    column.allowedValues === null
      ? null
      : `one of ${column.allowedValues.map(String).join(', ')}${column.enumOpen ? ', or new' : ''}`,
    ...Object.entries(column.options)
      .filter(([name]) => name !== 'format' && name !== 'timezone')
      .map(([name, value]) => `${name} ${String(value)}`),
    isClassified(column)
      ? `classified${column.piiAction === null ? '' : ` (${column.piiAction} ${column.piiStage})`}`
      : null,
    column.deprecated ? 'deprecated' : null,
    column.description,
  ].filter((note) => note !== null);
  return [
    column.name,
    column.physicalType ?? column.logicalType ?? '',
    mapping === null ? 'not kept' : deltaTypeText(mapping.delta),
    column.required || column.keyPosition > 0 ? 'yes' : '',
    notes.join('; '),
  ];
}

function ruleRow(rule: Rule): string[] {
  const place = placeOf(rule);
  return [
    rule.id,
    rule.column ?? 'table',
    place === 'row' ? 'each event' : place === 'table' ? 'the table' : 'not run',
    rule.severity,
    whatOf(rule),
  ];
}

function whatOf(rule: Rule): string {
  switch (rule.kind) {
    case 'library':
      return `${rule.metric} ${rule.operator.name} ${rule.operator.text}${rule.unit === 'percent' ? '%' : ''}`;
    case 'sql':
      return `${rule.query} ${rule.operator.name} ${rule.operator.text}`;
    case 'custom':
      return `${rule.engine}: ${rule.implementation}`;
    case 'text':
      return rule.description ?? '';
  }
}

function grid(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escape).join(' | ')} |`;
  return [line(head), `|${head.map(() => ' --- |').join('')}`, ...rows.map(line)].join('\n');
}

function escape(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|')
    .replaceAll('<', '&lt;')
    .replaceAll(/\s*\n\s*/g, ' ');
}
