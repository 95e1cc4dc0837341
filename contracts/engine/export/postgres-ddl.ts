/** CREATE TABLE for PostgreSQL, with the contract's conditions as CHECKs, and its comments. */
import { keyColumns } from '../model.ts';
import type { Contract, TableContract } from '../model.ts';
import { parsePgType } from '../pg-type.ts';
import { mapContractColumn } from '../type-table.ts';
import { columnConditions } from './conditions.ts';
import { lostRules } from './export-result.ts';
import type { ExportResult, LossyItem } from './export-result.ts';

export function exportPostgresDdl(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostRules(table, 'PostgreSQL DDL').filter(
    (item) => !item.message.includes('duplicateValues'),
  );
  const name = qualified(contract, table);
  const lines: string[] = [];
  for (const column of table.columns) {
    const mapping = mapContractColumn(column);
    const written = column.physicalTypes.postgres ?? mapping.physicalType;
    const known = parsePgType(written).known;
    if (!known)
      lossy.push({ subject: `${table.name}.${column.name}`, message: `type ${written} must exist before the table` });
    const parts = [quoted(column.name), written];
    if (column.required || column.keyPosition > 0) parts.push('NOT NULL');
    if (column.unique) parts.push('UNIQUE');
    if (column.default !== undefined && column.default !== null)
      parts.push(`DEFAULT ${typeof column.default === 'string' ? literal(column.default) : String(column.default)}`);
    // An enum's labels are its own check, and char_length repeats what varchar(n) says.
    const conditions = columnConditions(column, mapping, quoted(column.name), 'postgres');
    for (const { kind, expression } of conditions.list)
      if (!(kind === 'values' && !known) && !(kind === 'max_length' && parsePgType(written).args.length > 0))
        parts.push(`CHECK (${expression})`);
    for (const item of conditions.lost)
      lossy.push({ subject: `${table.name}.${column.name}`, message: `PostgreSQL DDL has no place for ${item}` });
    lines.push(`  ${parts.join(' ')}`);
  }
  const keys = keyColumns(table);
  if (keys.length > 0) lines.push(`  PRIMARY KEY (${keys.map((column) => quoted(column.name)).join(', ')})`);
  const keyNames = keys
    .map((column) => column.name)
    .toSorted()
    .join();
  for (const rule of table.rules) {
    if (
      rule.kind !== 'library' ||
      rule.metric !== 'duplicateValues' ||
      rule.properties === null ||
      rule.operator.text !== '0'
    )
      continue;
    if ([...rule.properties].toSorted().join() !== keyNames)
      lines.push(`  UNIQUE (${rule.properties.map(quoted).join(', ')})`);
  }
  const comments = [
    ...(table.description === null ? [] : [`COMMENT ON TABLE ${name} IS ${literal(table.description)};`]),
    ...table.columns.flatMap((column) =>
      column.description === null
        ? []
        : [`COMMENT ON COLUMN ${name}.${quoted(column.name)} IS ${literal(column.description)};`],
    ),
  ];
  return { text: [`CREATE TABLE ${name} (`, lines.join(',\n'), ');', ...comments].join('\n') + '\n', lossy };
}

function qualified(contract: Contract, table: TableContract): string {
  if (table.physicalName.includes('.')) return table.physicalName.split('.').map(quoted).join('.');
  const schema = contract.servers.find((server) => server.type.startsWith('postgres'))?.settings.get('schema');
  return `${quoted(typeof schema === 'string' ? schema : 'public')}.${quoted(table.physicalName)}`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
