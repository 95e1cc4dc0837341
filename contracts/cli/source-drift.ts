/** Where a live table and its contract part: columns, types, nullability, key, enum labels, replica identity. */
import type { CatalogColumn, CatalogTable } from '../engine/catalog.ts';
import type { Finding } from '../engine/finding.ts';
import type { Column, Contract, TableContract } from '../engine/model.ts';
import { keyColumns } from '../engine/model.ts';
import { canonicalPgType, parsePgType } from '../engine/pg-type.ts';
import { mapColumn, mapContractColumn, TypeMappingError } from '../engine/type-table.ts';
import { findingAt } from './drift-finding.ts';

export function sourceDrift(contract: Contract, table: TableContract, live: CatalogTable): Finding[] {
  const findings: Finding[] = [];
  const byName = new Map(live.columns.map((column) => [column.name, column]));
  const columns = new Map(table.columns.map((column) => [column.physicalName ?? column.name, column]));
  for (const [name, column] of columns) {
    const found = byName.get(name);
    if (found !== undefined) findings.push(...columnDrift(contract, table, column, found));
    else
      findings.push(
        findingAt(
          contract,
          'error',
          'COLUMN_MISSING',
          `${table.name}.${name}`,
          'the database has no such column',
          column.path,
        ),
      );
  }
  const policy = table.unknownColumns ?? 'evolve';
  const refused = policy === 'quarantine' || policy === 'fail';
  for (const column of live.columns)
    if (!columns.has(column.name))
      findings.push(
        findingAt(
          contract,
          refused ? 'error' : 'warning',
          'COLUMN_EXTRA',
          `${table.name}.${column.name}`,
          `the database has it (${column.pgType}), the contract does not: unknownColumns is ${policy}`,
          [...table.path, 'properties'],
          '`contracts infer --update` adds it',
        ),
      );
  findings.push(...keyDrift(contract, table, live), ...identityDrift(contract, table, live));
  return findings;
}

function columnDrift(contract: Contract, table: TableContract, column: Column, live: CatalogColumn): Finding[] {
  const findings: Finding[] = [];
  const subject = `${table.name}.${column.name}`;
  const type = typeDrift(column, live);
  if (type !== null)
    findings.push(findingAt(contract, 'error', 'TYPE_DRIFT', subject, type, [...column.path, 'physicalType']));
  const required = column.required || column.keyPosition > 0;
  if (required && !live.notNull)
    findings.push(
      findingAt(
        contract,
        'error',
        'NULLABLE_DRIFT',
        subject,
        'required by the contract, nullable in the database: NULLs would be quarantined',
        [...column.path, 'required'],
      ),
    );
  else if (!required && live.notNull)
    findings.push(
      findingAt(contract, 'info', 'REQUIRED_DRIFT', subject, 'NOT NULL in the database, nullable in the contract', [
        ...column.path,
        'required',
      ]),
    );
  const labels = live.enumLabels;
  if (labels !== null && column.allowedValues !== null) {
    const allowed = new Set(column.allowedValues.map(String));
    const fresh = labels.filter((label) => !allowed.has(label));
    if (fresh.length > 0)
      findings.push(
        findingAt(
          contract,
          column.enumOpen ? 'info' : 'error',
          'ENUM_DRIFT',
          subject,
          `the database has labels that the contract lacks: ${fresh.join(', ')}`,
          column.path,
        ),
      );
    const gone = [...allowed].filter((label) => !labels.includes(label));
    if (gone.length > 0)
      findings.push(
        findingAt(
          contract,
          'warning',
          'ENUM_DRIFT',
          subject,
          `the contract has values that are no labels in the database: ${gone.join(', ')}`,
          column.path,
        ),
      );
  }
  return findings;
}

/** Null when the contract's type can stand for the live one. */
function typeDrift(column: Column, live: CatalogColumn): string | null {
  const written = column.physicalTypes.postgres ?? column.physicalType;
  if (written === null) return logicalDrift(column, live);
  const spellings = [live.pgType, ...(live.kind === 'domain' && live.baseType !== null ? [live.baseType] : [])];
  if (spellings.some((type) => canonicalPgType(type) === canonicalPgType(written))) return null;
  // A schema in front of a type's own name is a matter of search_path.
  const bare = (text: string): string => parsePgType(text).name.replace(/^.*\./, '');
  if (!parsePgType(written).known && spellings.some((type) => bare(type) === bare(written))) return null;
  return `the contract says ${written}, the database ${live.pgType}`;
}

function logicalDrift(column: Column, live: CatalogColumn): string | null {
  if (column.logicalType === null) return null;
  try {
    const [ours, theirs] = [mapContractColumn(column), mapColumn(live)];
    return ours.logicalType === theirs.logicalType
      ? null
      : `the contract says ${column.logicalType}, the database ${live.pgType}`;
  } catch (error) {
    if (error instanceof TypeMappingError) return error.message;
    throw error;
  }
}

function keyDrift(contract: Contract, table: TableContract, live: CatalogTable): Finding[] {
  const ours = keyColumns(table).map((column) => column.physicalName ?? column.name);
  const theirs = live.columns
    .filter((column) => column.keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map((column) => column.name);
  if (ours.join('\0') === theirs.join('\0')) return [];
  const first = keyColumns(table)[0];
  return [
    findingAt(
      contract,
      'error',
      'KEY_DRIFT',
      table.name,
      `key (${ours.join(', ')}) in the contract, (${theirs.join(', ')}) in the database`,
      first === undefined ? table.path : [...first.path, 'primaryKeyPosition'],
    ),
  ];
}

function identityDrift(contract: Contract, table: TableContract, live: CatalogTable): Finding[] {
  const [ours, theirs] = [table.replicaIdentity, live.replicaIdentity];
  if (ours === null || theirs === undefined || ours === theirs) return [];
  const lost = ours === 'full' || theirs === 'nothing';
  return [
    findingAt(
      contract,
      lost ? 'error' : 'warning',
      'REPLICA_IDENTITY_DRIFT',
      table.name,
      `replica identity ${ours} in the contract, ${theirs} in the database`,
      [...table.path, 'customProperties'],
      lost ? `ALTER TABLE … REPLICA IDENTITY ${ours.toUpperCase()}` : null,
    ),
  ];
}
