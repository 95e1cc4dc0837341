/** Spark SQL for a Delta table: CREATE TABLE, and CHECK constraints that let NULL pass as the contract does. */
import { lakeColumnName, lakeTableName } from '../lake-name.ts';
import type { Column, Contract, TableContract } from '../model.ts';
import { lakeMapping } from '../privacy.ts';
import type { DeltaTypeName } from '../type-table.ts';
import { columnConditions } from './conditions.ts';
import { lostRules } from './export-result.ts';
import type { ExportResult, LossyItem } from './export-result.ts';

const NAMES: Readonly<Record<string, string>> = { long: 'BIGINT', integer: 'INT', short: 'SMALLINT' };

export function deltaSqlType(type: DeltaTypeName): string {
  if (typeof type !== 'string') return `ARRAY<${deltaSqlType(type.elementType)}>`;
  return NAMES[type] ?? type.toUpperCase();
}

export function exportDeltaDdl(_contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostRules(table, 'a Delta schema');
  const lines: string[] = [];
  for (const column of table.columns) {
    const mapping = lakeMapping(column, null);
    if (mapping === null) continue;
    const required = column.required || column.keyPosition > 0 ? ' NOT NULL' : '';
    const comment = column.description === null ? '' : ` COMMENT ${literal(column.description)}`;
    lines.push(`  ${quoted(lakeColumnName(column.name))} ${deltaSqlType(mapping.delta)}${required}${comment}`);
    lossy.push(...lostOptions(column, table));
  }
  const partitions = table.columns
    .filter((column) => column.partitionPosition > 0)
    .toSorted((a, b) => a.partitionPosition - b.partitionPosition);
  const text = [
    `CREATE TABLE ${tableName(table)} (`,
    lines.join(',\n'),
    ') USING DELTA',
    ...(partitions.length === 0
      ? []
      : [`PARTITIONED BY (${partitions.map((column) => quoted(lakeColumnName(column.name))).join(', ')})`]),
    ...(table.description === null ? [] : [`COMMENT ${literal(table.description)}`]),
  ].join('\n');
  return { text: `${text};\n`, lossy };
}

function lostOptions(column: Column, table: TableContract): LossyItem[] {
  const lost: string[] = [];
  if (
    Object.keys(column.options).some((name) => name !== 'format' && name !== 'timezone') ||
    column.allowedValues !== null
  )
    lost.push('bounds and value lists (use delta-constraints)');
  if (column.unique) lost.push('uniqueness');
  if (column.keyPosition > 0) lost.push('the primary key');
  return lost.map((message) => ({
    subject: `${table.name}.${column.name}`,
    message: `a Delta schema has no place for ${message}`,
  }));
}

export function exportDeltaConstraints(_contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostRules(table, 'a Delta constraint');
  const statements: string[] = [];
  for (const column of table.columns) {
    const mapping = lakeMapping(column, null);
    const name = lakeColumnName(column.name);
    if (mapping === null) continue;
    if (column.piiAction === 'hash' || column.piiAction === 'mask' || column.piiAction === 'null') {
      if (Object.keys(column.options).length > 0)
        lossy.push({
          subject: `${table.name}.${column.name}`,
          message: 'its clear values are not in the lake: conditions on them are left out',
        });
      continue;
    }
    const conditions = columnConditions(column, mapping, quoted(name), 'spark');
    for (const item of conditions.lost) lossy.push({ subject: `${table.name}.${column.name}`, message: item });
    for (const { kind, expression } of conditions.list) {
      // Delta counts NULL as a violation of a CHECK; the contract, like PostgreSQL, lets it pass.
      const constraint = `${name}_${kind}`.replaceAll(/[^A-Za-z0-9_]/g, '_');
      statements.push(
        `ALTER TABLE ${tableName(table)} ADD CONSTRAINT ${constraint} CHECK (${quoted(name)} IS NULL OR ${expression});`,
      );
    }
  }
  return { text: statements.length === 0 ? '' : `${statements.join('\n')}\n`, lossy };
}

function tableName(table: TableContract): string {
  return table.physicalName
    .split('.')
    .map((part) => quoted(lakeTableName(part)))
    .join('.');
}

function quoted(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
