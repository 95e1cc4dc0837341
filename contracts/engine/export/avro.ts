/** An Avro record (Apache Avro 1.11 specification) with logical types; a nullable column is a union with null, whatever else it is. */
import type { Column, Contract, TableContract } from '../model.ts';
import { lakeMapping } from '../privacy.ts';
import { decimalParts } from '../type-table.ts';
import type { DeltaTypeName, TypeMapping } from '../type-table.ts';
import { lostRules } from './export-result.ts';
import type { ExportResult, LossyItem } from './export-result.ts';

export function exportAvro(contract: Contract, table: TableContract): ExportResult {
  const lossy: LossyItem[] = lostRules(table, 'Avro');
  const taken = new Map<string, string>();
  const fields = table.columns.flatMap((column) => {
    const mapping = lakeMapping(column, null);
    if (mapping === null) return [];
    const subject = `${table.name}.${column.name}`;
    const name = avroName(column.name);
    if (name !== column.name)
      lossy.push({ subject, message: `Avro names have letters, digits and _ only: written as ${name}` });
    if (taken.has(name)) lossy.push({ subject, message: `two columns are ${name} in Avro` });
    taken.set(name, column.name);
    if (hasConditions(column)) lossy.push({ subject, message: 'bounds, lengths, patterns and value lists are lost' });
    if (mapping.delta === 'string' && mapping.wire === 'decimal')
      lossy.push({ subject, message: 'a decimal without precision is kept as string' });
    const type = avroType(mapping.delta, mapping);
    const nullable = !column.required && column.keyPosition === 0;
    return [
      {
        name,
        ...(column.description === null ? {} : { doc: column.description }),
        type: nullable ? ['null', type] : type,
        ...(nullable ? { default: null } : {}),
      },
    ];
  });
  const [schema = '', ...rest] = table.physicalName.includes('.')
    ? table.physicalName.split('.')
    : [contract.id, table.physicalName];
  const record = {
    type: 'record',
    name: avroName(rest.join('_') || table.name),
    namespace: schema
      .split(/[^A-Za-z0-9_]+/)
      .filter(Boolean)
      .map(avroName)
      .join('.'),
    ...(table.description === null ? {} : { doc: table.description }),
    fields,
  };
  return { text: `${JSON.stringify(record, null, 2)}\n`, lossy };
}

function avroType(delta: DeltaTypeName, mapping: TypeMapping): unknown {
  if (typeof delta !== 'string')
    return { type: 'array', items: ['null', avroType(delta.elementType, mapping.element ?? mapping)] };
  const decimal = decimalParts(delta);
  if (decimal !== null) return { type: 'bytes', logicalType: 'decimal', ...decimal };
  switch (delta) {
    case 'short':
    case 'integer':
      return 'int';
    case 'binary':
      return 'bytes';
    case 'date':
      return { type: 'int', logicalType: 'date' };
    case 'timestamp':
      return { type: 'long', logicalType: 'timestamp-micros' };
    case 'timestamp_ntz':
      return { type: 'long', logicalType: 'local-timestamp-micros' };
    case 'string':
      return mapping.options.format === 'uuid' ? { type: 'string', logicalType: 'uuid' } : 'string';
    default:
      return delta;
  }
}

function hasConditions(column: Column): boolean {
  return (
    column.allowedValues !== null ||
    Object.keys(column.options).some((name) => name !== 'format' && name !== 'timezone')
  );
}

function avroName(name: string): string {
  const word = name.replaceAll(/[^A-Za-z0-9_]/g, '_');
  return /^[A-Za-z_]/.test(word) ? word : `_${word}`;
}
