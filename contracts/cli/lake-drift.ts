/** Where a Delta table and its contract part. The lake follows the source, so what it lacks yet is no error; other types are. */
import type { CatalogTable } from '../engine/catalog.ts';
import type { Finding } from '../engine/finding.ts';
import type { DeltaFieldLike } from '../engine/infer-delta.ts';
import { lakeColumnName } from '../engine/lake-name.ts';
import type { Column, Contract, TableContract } from '../engine/model.ts';
import { lakeMapping } from '../engine/privacy.ts';
import { deltaTypeText, TypeMappingError } from '../engine/type-table.ts';
import { findingAt } from './drift-finding.ts';

/** `live` sharpens what an enum or a domain becomes; null when the database was not asked. */
export function lakeDrift(
  contract: Contract,
  table: TableContract,
  fields: readonly DeltaFieldLike[],
  live: CatalogTable | null,
): Finding[] {
  const findings: Finding[] = [];
  const byName = new Map(fields.map((field) => [sourceNameOf(field), field]));
  for (const column of table.columns) {
    const name = column.physicalName ?? column.name;
    const field = byName.get(name) ?? fields.find((candidate) => candidate.name === lakeColumnName(name));
    const subject = `${table.name}.${column.name}`;
    const expected = expectedType(column, live);
    if (expected === null) {
      if (field !== undefined)
        findings.push(
          findingAt(
            contract,
            'error',
            'PII_IN_LAKE',
            subject,
            `piiAction is drop, but the Delta table has the column: its history keeps clear text`,
            column.path,
          ),
        );
    } else if (field === undefined)
      findings.push(
        findingAt(
          contract,
          'warning',
          'LAKE_COLUMN_MISSING',
          subject,
          'the Delta table has no such column',
          column.path,
        ),
      );
    else if (typeText(field.type) !== expected)
      findings.push(
        findingAt(
          contract,
          'error',
          'LAKE_TYPE_DRIFT',
          subject,
          `the contract leads to ${expected}, the Delta table has ${typeText(field.type)}`,
          [...column.path, 'physicalType'],
        ),
      );
  }
  const known = new Set(table.columns.flatMap((column) => namesOf(column)));
  for (const field of fields)
    if (!field.name.startsWith('_sluice_') && !known.has(field.name) && !known.has(sourceNameOf(field)))
      findings.push(
        findingAt(
          contract,
          'warning',
          'LAKE_COLUMN_EXTRA',
          `${table.name}.${field.name}`,
          'the Delta table has it, the contract does not',
          [...table.path, 'properties'],
        ),
      );
  return findings;
}

function namesOf(column: Column): string[] {
  const name = column.physicalName ?? column.name;
  return [name, lakeColumnName(name)];
}

/** A source column that Delta had to rename keeps its name in the field's metadata. */
export function sourceNameOf(field: DeltaFieldLike): string {
  const source = field.metadata['sluice.sourceName'];
  return typeof source === 'string' ? source : field.name;
}

function expectedType(column: Column, live: CatalogTable | null): string | null {
  try {
    const mapping = lakeMapping(column, live?.columns.find(({ name }) => name === column.name) ?? null);
    return mapping === null ? null : deltaTypeText(mapping.delta);
  } catch (error) {
    // Lint reports it.
    if (error instanceof TypeMappingError) return null;
    throw error;
  }
}

function typeText(type: unknown): string {
  if (typeof type === 'string') return type;
  const array =
    typeof type === 'object' && type !== null && 'type' in type && type.type === 'array' && 'elementType' in type;
  return array ? `array<${typeText(type.elementType)}>` : 'struct or map';
}
