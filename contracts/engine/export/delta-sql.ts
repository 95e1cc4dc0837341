/** Spark SQL for a Delta table: CREATE TABLE, and CHECK constraints that let NULL pass as the contract does. */
import { lakeColumnName, lakeTableName } from '../lake-name.ts';
import type { Column, Contract, TableContract } from '../model.ts';
import { lakeMapping } from '../privacy.ts';
import type { DeltaTypeName } from '../type-table.ts';
import { columnConditions } from './conditions.ts';
import { enforcedOn } from './enforced.ts';
import type { ExportResult, LossyItem } from './export-result.ts';
import { lostPromises } from './lost-promises.ts';
import type { Carries } from './lost-promises.ts';

const NAMES: Readonly<Record<string, string>> = { long: 'BIGINT', integer: 'INT', short: 'SMALLINT' };

export function deltaSqlType(type: DeltaTypeName): string {
  if (typeof type !== 'string') return `ARRAY<${deltaSqlType(type.elementType)}>`;
  return NAMES[type] ?? type.toUpperCase();
}

const SCHEMA: Carries = {
  target: 'a Delta schema',
  lake: true,
  keys: false,
  uniqueness: false,
  defaults: false,
  partitions: true,
  unknownColumns: false,
  rules: new Set(),
};

export function exportDeltaDdl(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostPromises(contract, table, SCHEMA);
  const lines: string[] = [];
  for (const column of table.columns) {
    const mapping = lakeMapping(column, null);
    if (mapping === null) continue;
    // piiAction null leaves NULL in the lake, whatever the source requires.
    const required = enforcedOn(column, table).nullable || column.piiAction === 'null' ? '' : ' NOT NULL';
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
  const { options, values, patterns, missing, warnings } = enforcedOn(column, table);
  const conditions =
    values !== null ||
    patterns.length > 0 ||
    missing.length > 0 ||
    Object.keys(options).some((name) => name !== 'format' && name !== 'timezone');
  const lost = [
    ...(conditions ? ['bounds and value lists (use delta-constraints)'] : []),
    ...warnings.map((warning) => `${warning}, which only warns`),
  ];
  return lost.map((message) => ({
    subject: `${table.name}.${column.name}`,
    message: `a Delta schema has no place for ${message}`,
  }));
}

export function exportDeltaConstraints(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostPromises(contract, table, { ...SCHEMA, target: 'a Delta constraint' });
  const statements: string[] = [];
  for (const column of table.columns) {
    const mapping = lakeMapping(column, null);
    const name = lakeColumnName(column.name);
    if (mapping === null) continue;
    if (column.piiAction === 'hash' || column.piiAction === 'mask' || column.piiAction === 'null') {
      if (Object.keys(column.options).length > 0 || column.allowedValues !== null)
        lossy.push({
          subject: `${table.name}.${column.name}`,
          message: 'its clear values are not in the lake: conditions on them are left out',
        });
      continue;
    }
    const conditions = columnConditions(column, enforcedOn(column, table), mapping, quoted(name), 'spark');
    for (const item of conditions.lost) lossy.push({ subject: `${table.name}.${column.name}`, message: item });
    for (const { kind, expression } of conditions.list) {
      // Delta counts NULL as a violation of a CHECK; the contract, like PostgreSQL, lets it pass.
      const word = `${name}_${kind}`.replaceAll(/[^A-Za-z0-9_]/g, '_');
      const constraint = /^[0-9]/.test(word) ? quoted(word) : word;
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
