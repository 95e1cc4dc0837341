/** Which fields of a schema stand in data files, under which names. */
import type { ColumnVector } from '../table/column.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { ParquetError } from './parquet-error.ts';

const DECIMAL = /^decimal\((\d+),(\d+)\)$/;

/** Precision and scale of `decimal(p,s)`, or null for another type. */
export function decimalOf(type: DeltaType): { precision: number; scale: number } | null {
  const match = typeof type === 'string' ? DECIMAL.exec(type) : null;
  return match === null ? null : { precision: Number(match[1]), scale: Number(match[2]) };
}

/** Name of a field in data files: the physical name under column mapping, else the logical one. */
export function physicalName(field: StructField, columnMapping: boolean): string {
  const name = columnMapping ? field.metadata['delta.columnMapping.physicalName'] : undefined;
  return typeof name === 'string' ? name : field.name;
}

/** Fields that stand in data files: `void` columns never do. */
export function storedFields(schema: StructType): StructField[] {
  return schema.fields.filter((field) => field.type !== 'void');
}

export interface AlignedColumn {
  readonly field: StructField;
  readonly column: ColumnVector;
}

/** Columns of `names`/`children` in the order of the schema's stored fields; a missing or surplus one is an error. */
export function alignColumns(
  schema: StructType,
  names: readonly string[],
  children: readonly ColumnVector[],
): AlignedColumn[] {
  return storedFields(schema).map((field) => {
    const column = children[names.indexOf(field.name)];
    if (column === undefined)
      throw new ParquetError('PARQUET_ENCODE_FAILED', '(new file)', `the batch has no column ${field.name}`);
    return { field, column };
  });
}
