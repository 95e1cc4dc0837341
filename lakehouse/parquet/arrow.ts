/**
 * Delta types and ColumnVectors as Arrow types and Data. Buffers are handed over, not copied; only `byte` and `short`,
 * which ColumnVector keeps as 32-bit, are narrowed. Arrow columnar format: https://arrow.apache.org/docs/format/Columnar.html
 *
 * Every field is nullable whatever the table says (readers trip over required fields inside optional groups), except map
 * keys, which the Parquet format itself requires to be REQUIRED.
 */
import {
  Binary,
  Bool,
  DateDay,
  Decimal,
  Field,
  Float32,
  Float64,
  Int16,
  Int32,
  Int64,
  Int8,
  List,
  Map_,
  RecordBatch,
  Schema,
  Struct,
  Table,
  TimestampMicrosecond,
  Utf8,
  makeData,
  tableToIPC,
  type Data,
  type DataType,
} from 'apache-arrow';
import type { ColumnVector } from '../table/column.ts';
import type { DeltaType, MapType, StructField } from '../table/schema.ts';
import { ParquetError } from './parquet-error.ts';
import { alignColumns, decimalOf, physicalName, storedFields, type AlignedColumn } from './stored-fields.ts';

function fieldIdMetadata(field: StructField, columnMapping: boolean): Map<string, string> | undefined {
  const id = columnMapping ? field.metadata['delta.columnMapping.id'] : undefined;
  return typeof id === 'number' || typeof id === 'bigint' ? new Map([['PARQUET:field_id', String(id)]]) : undefined;
}

function arrowField(field: StructField, columnMapping: boolean): Field {
  return new Field(
    physicalName(field, columnMapping),
    arrowType(field.type, columnMapping),
    true,
    fieldIdMetadata(field, columnMapping),
  );
}

function arrowType(type: DeltaType, columnMapping: boolean): DataType {
  if (typeof type === 'object') return arrowNestedType(type, columnMapping);
  const decimal = decimalOf(type);
  if (decimal !== null) return new Decimal(decimal.scale, decimal.precision, 128);
  switch (type) {
    case 'string':
      return new Utf8();
    case 'long':
      return new Int64();
    case 'integer':
      return new Int32();
    case 'short':
      return new Int16();
    case 'byte':
      return new Int8();
    case 'float':
      return new Float32();
    case 'double':
      return new Float64();
    case 'boolean':
      return new Bool();
    case 'binary':
      return new Binary();
    case 'date':
      return new DateDay();
    case 'timestamp':
      return new TimestampMicrosecond('UTC');
    case 'timestamp_ntz':
      return new TimestampMicrosecond(null);
    default:
      throw new ParquetError('PARQUET_ENCODE_FAILED', '(new file)', `type ${type} cannot be written to Parquet`);
  }
}

function arrowNestedType(type: Exclude<DeltaType, string>, columnMapping: boolean): DataType {
  switch (type.type) {
    case 'array':
      return new List(new Field('element', arrowType(type.elementType, columnMapping), true));
    case 'map': {
      const entry = new Field('key_value', new Struct(entryFields(type, columnMapping)), false);
      const map = new Map_(entry as never);
      // The constructor renames the group to `entries`; the Parquet format calls it `key_value`.
      Object.assign(entry, { name: 'key_value' });
      return map;
    }
    case 'struct':
      return new Struct(storedFields(type).map((field) => arrowField(field, columnMapping)));
  }
}

function entryFields(type: MapType, columnMapping: boolean): Field[] {
  return [
    new Field('key', arrowType(type.keyType, columnMapping), false),
    new Field('value', arrowType(type.valueType, columnMapping), true),
  ];
}

/** Set bits among the first `length` of a bitmap. */
function countBits(bits: Uint8Array, length: number): number {
  let count = 0;
  const whole = length >> 3;
  for (let i = 0; i < whole; i++) {
    let byte = bits[i] ?? 0;
    byte -= (byte >> 1) & 0x55;
    byte = (byte & 0x33) + ((byte >> 2) & 0x33);
    count += (byte + (byte >> 4)) & 0x0f;
  }
  for (let i = whole << 3; i < length; i++) count += ((bits[i >> 3] ?? 0) >> (i & 7)) & 1;
  return count;
}

/** Arrow Data over the vector's own buffers. @throws ParquetError PARQUET_ENCODE_FAILED when vector and type disagree */
function arrowData(type: DeltaType, column: ColumnVector, columnMapping: boolean): Data {
  const length = column.length;
  const nullBitmap = column.validity;
  const nullCount = nullBitmap === null ? 0 : length - countBits(nullBitmap, length);
  const base = { length, nullCount, nullBitmap: nullCount === 0 ? null : nullBitmap };
  const target = arrowType(type, columnMapping);
  const mismatch = (): never => {
    const wanted = typeof type === 'string' ? type : type.type;
    throw new ParquetError('PARQUET_ENCODE_FAILED', '(new file)', `a ${column.kind} vector is no ${wanted} column`);
  };
  switch (column.kind) {
    case 'boolean':
      if (type !== 'boolean') return mismatch();
      return makeData({ ...base, type: target as Bool, data: column.values });
    case 'int32':
      if (type === 'byte') return makeData({ ...base, type: target as Int8, data: Int8Array.from(column.values) });
      if (type === 'short') return makeData({ ...base, type: target as Int16, data: Int16Array.from(column.values) });
      if (type !== 'integer' && type !== 'date') return mismatch();
      return makeData({ ...base, type: target as Int32, data: column.values });
    case 'int64':
      if (type !== 'long' && type !== 'timestamp' && type !== 'timestamp_ntz') return mismatch();
      return makeData({ ...base, type: target as Int64, data: column.values });
    case 'float32':
      if (type !== 'float') return mismatch();
      return makeData({ ...base, type: target as Float32, data: column.values });
    case 'float64':
      if (type !== 'double') return mismatch();
      return makeData({ ...base, type: target as Float64, data: column.values });
    case 'decimal': {
      const wanted = decimalOf(type);
      if (wanted === null || wanted.precision !== column.precision || wanted.scale !== column.scale) return mismatch();
      const words = new Uint32Array(column.values.buffer, column.values.byteOffset, length * 4);
      return makeData({ ...base, type: target as Decimal, data: words });
    }
    case 'utf8':
    case 'binary':
      if (type !== (column.kind === 'utf8' ? 'string' : 'binary')) return mismatch();
      return makeData({ ...base, type: target as Utf8, valueOffsets: column.offsets, data: column.data });
    case 'list':
      if (typeof type === 'string' || type.type !== 'array') return mismatch();
      return makeData({
        ...base,
        type: target as List,
        valueOffsets: column.offsets,
        child: arrowData(type.elementType, column.child, columnMapping),
      });
    case 'struct': {
      if (typeof type === 'string' || type.type !== 'struct') return mismatch();
      const children = alignColumns(type, column.names, column.children);
      return makeData({
        ...base,
        type: target as Struct,
        children: children.map((child) => arrowData(child.field.type, child.column, columnMapping)),
      });
    }
    case 'map': {
      if (typeof type === 'string' || type.type !== 'map') return mismatch();
      const entries = makeData({
        type: new Struct(entryFields(type, columnMapping)),
        length: column.keys.length,
        nullCount: 0,
        children: [
          arrowData(type.keyType, column.keys, columnMapping),
          arrowData(type.valueType, column.items, columnMapping),
        ],
      });
      return makeData({ ...base, type: target as Map_, valueOffsets: column.offsets, child: entries as never });
    }
  }
}

/** The batch as an Arrow IPC stream: the one copy on the way into WebAssembly. */
export function arrowStream(columns: readonly AlignedColumn[], rowCount: number, columnMapping: boolean): Uint8Array {
  const fields: Field[] = columns.map(({ field }) => arrowField(field, columnMapping));
  const data = makeData({
    type: new Struct(fields),
    length: rowCount,
    nullCount: 0,
    children: columns.map(({ field, column }) => arrowData(field.type, column, columnMapping)),
  });
  const arrowSchema = new Schema(fields);
  return tableToIPC(new Table(arrowSchema, [new RecordBatch(arrowSchema, data)]), 'stream');
}
