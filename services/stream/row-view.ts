/** Columns seen as rows: one object at a time, values exact (int64 as bigint; decimals, dates and timestamps as text). */
import type { ColumnVector, DecimalColumn, ListColumn } from '../../lakehouse/table/column.ts';
import { isNull } from '../../lakehouse/table/column.ts';
import type { DeltaType } from '../../lakehouse/table/schema.ts';
import { daysToDateText, microsToText } from './temporal-text.ts';
import { ROW_OPS } from './sink.ts';
import type { RowValue, StreamBatch, StreamRow } from './sink.ts';

/** Where each row stood in the log. */
export interface RowPlaces {
  readonly topic: string;
  readonly partitions: Int32Array;
  readonly offsets: BigInt64Array;
}

export function* rowsOf(batch: Omit<StreamBatch, 'rows'>, places: RowPlaces): Generator<StreamRow> {
  const { schema, columns, absent, ops, epochs, lsns, ords } = batch;
  for (let row = 0; row < batch.rowCount; row++) {
    const op = ROW_OPS[ops[row] ?? 0] ?? 'insert';
    const values: Record<string, RowValue> = {};
    schema.fields.forEach(({ name, type }, index) => {
      const column = columns[index];
      const bits = absent[index] ?? null;
      if (column === undefined || (bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) !== 0)) return;
      if (op === 'delete' && !batch.keyColumns.includes(name)) return;
      values[name] = valueAt(column, type, row);
    });
    yield {
      op,
      epoch: epochs[row] ?? 0,
      lsn: lsns[row] ?? 0n,
      ord: ords[row] ?? 0,
      values,
      topic: places.topic,
      partition: places.partitions[row] ?? 0,
      offset: places.offsets[row] ?? 0n,
    };
  }
}

/** One cell. `type` tells dates from integers and timestamps from longs. */
export function valueAt(column: ColumnVector, type: DeltaType, row: number): RowValue {
  if (isNull(column, row)) return null;
  switch (column.kind) {
    case 'boolean':
      return (((column.values[row >> 3] ?? 0) >> (row & 7)) & 1) === 1;
    case 'int32': {
      const value = column.values[row] ?? 0;
      return type === 'date' ? daysToDateText(value) : value;
    }
    case 'int64': {
      const value = column.values[row] ?? 0n;
      if (type === 'timestamp') return `${microsToText(value)}Z`;
      return type === 'timestamp_ntz' ? microsToText(value) : value;
    }
    case 'float32':
    case 'float64':
      return column.values[row] ?? 0;
    case 'decimal':
      return decimalText(column, row);
    case 'utf8':
    case 'binary': {
      const bytes = column.data.subarray(column.offsets[row] ?? 0, column.offsets[row + 1] ?? 0);
      return column.kind === 'utf8'
        ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
        : bytes;
    }
    case 'list':
      return listAt(column, type, row);
    case 'struct':
    case 'map':
      throw new RangeError(`a ${column.kind} column has no row form`);
  }
}

function listAt(column: ListColumn, type: DeltaType, row: number): readonly RowValue[] {
  const elementType = typeof type !== 'string' && type.type === 'array' ? type.elementType : 'string';
  const items: RowValue[] = [];
  for (let child = column.offsets[row] ?? 0; child < (column.offsets[row + 1] ?? 0); child++)
    items.push(valueAt(column.child, elementType, child));
  return items;
}

/** Unscaled 128 bits → plain decimal text with exactly `scale` fraction digits. */
function decimalText(column: DecimalColumn, row: number): string {
  const low = BigInt.asUintN(64, column.values[row * 2] ?? 0n);
  const unscaled = ((column.values[row * 2 + 1] ?? 0n) << 64n) | low;
  const negative = unscaled < 0n;
  const digits = String(negative ? -unscaled : unscaled).padStart(column.scale + 1, '0');
  const whole = digits.slice(0, digits.length - column.scale);
  const text = column.scale === 0 ? whole : `${whole}.${digits.slice(-column.scale)}`;
  return negative ? `-${text}` : text;
}
