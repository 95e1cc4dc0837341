import type { DeltaType } from '../../../lakehouse/table/schema.ts';
import { BinaryBuilder, Utf8Builder } from './bytes-builders.ts';
import type { ColumnBuilder } from './column-builder.ts';
import { DecimalBuilder } from './decimal-builder.ts';
import { ListBuilder } from './list-builder.ts';
import { BooleanBuilder, FloatBuilder, Int32Builder, Int64Builder } from './number-builders.ts';
import { DateBuilder, TimestampBuilder } from './temporal-builders.ts';

/** The builder of a lake column. @throws RangeError for types that no PostgreSQL column maps to (struct, map, variant, void). */
export function createColumnBuilder(type: DeltaType): ColumnBuilder {
  if (typeof type !== 'string') {
    if (type.type === 'array') return new ListBuilder(createColumnBuilder(type.elementType));
    throw new RangeError(`no column of the source maps to the lake type ${type.type}`);
  }
  switch (type) {
    case 'boolean':
      return new BooleanBuilder();
    case 'byte':
      return new Int32Builder(-128, 127);
    case 'short':
      return new Int32Builder(-32768, 32767);
    case 'integer':
      return new Int32Builder(-2147483648, 2147483647);
    case 'long':
      return new Int64Builder();
    case 'float':
      return new FloatBuilder(false);
    case 'double':
      return new FloatBuilder(true);
    case 'string':
      return new Utf8Builder();
    case 'binary':
      return new BinaryBuilder();
    case 'date':
      return new DateBuilder();
    case 'timestamp':
      return new TimestampBuilder(true);
    case 'timestamp_ntz':
      return new TimestampBuilder(false);
    default:
      return decimalBuilder(type);
  }
}

function decimalBuilder(type: string): ColumnBuilder {
  const match = /^decimal\((\d+),\s*(\d+)\)$/.exec(type);
  if (match === null) throw new RangeError(`no column of the source maps to the lake type ${type}`);
  return new DecimalBuilder(Number(match[1]), Number(match[2]));
}
