/** Delta's types and DuckDB's. */
import { decimalOf } from '../parquet/stored-fields.ts';
import type { DeltaType } from '../table/schema.ts';
import { quoteName } from './duckdb.ts';

/** The type's name in DuckDB, as DESCRIBE prints it. */
export function duckType(type: DeltaType): string {
  if (typeof type === 'object') {
    switch (type.type) {
      case 'array':
        return `${duckType(type.elementType)}[]`;
      case 'map':
        return `MAP(${duckType(type.keyType)}, ${duckType(type.valueType)})`;
      case 'struct':
        return `STRUCT(${type.fields.map((field) => `${quoteName(field.name)} ${duckType(field.type)}`).join(', ')})`;
    }
  }
  const decimal = decimalOf(type);
  if (decimal !== null) return `DECIMAL(${decimal.precision},${decimal.scale})`;
  switch (type) {
    case 'long':
      return 'BIGINT';
    case 'integer':
      return 'INTEGER';
    case 'short':
      return 'SMALLINT';
    case 'byte':
      return 'TINYINT';
    case 'float':
      return 'FLOAT';
    case 'double':
      return 'DOUBLE';
    case 'boolean':
      return 'BOOLEAN';
    case 'date':
      return 'DATE';
    case 'timestamp':
      return 'TIMESTAMP WITH TIME ZONE';
    case 'timestamp_ntz':
      return 'TIMESTAMP';
    case 'binary':
      return 'BLOB';
    case 'variant':
      return 'STRUCT("metadata" BLOB, "value" BLOB)';
    default:
      return 'VARCHAR';
  }
}

/** Types within a kind are cast to each other: widened numbers, days with a time, text without its mark. */
export function kindOfDuckType(duck: string): string {
  if (/^(?:U?(?:TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\))$/.test(duck)) return 'number';
  if (duck === 'DATE' || duck.startsWith('TIMESTAMP')) return 'day';
  if (duck === 'VARCHAR' || duck === 'BLOB' || duck === 'UUID') return 'bytes';
  const nested = duck.endsWith('[]') ? 'LIST' : /^(?:STRUCT|MAP)\(/.exec(duck)?.[0];
  return nested ?? duck;
}

/** Whether a cast within a kind rounds: digits behind the point, floats to what is none or smaller, times to days. */
export function narrows(from: string, to: string): boolean {
  if (from === 'DOUBLE') return to !== 'DOUBLE';
  if (from === 'FLOAT') return to !== 'FLOAT' && to !== 'DOUBLE';
  return scaleOf(from) > scaleOf(to) || (to === 'DATE' && from !== 'DATE');
}

const scaleOf = (duck: string): number => Number(/^DECIMAL\(\d+,(\d+)\)$/.exec(duck)?.[1] ?? 0);
