/** A lake column's values in the gate's cell forms: what the gate saw when the row came by. */
import type { Cell } from '../../../contracts/engine/gate.ts';
import { dateText, timestampText } from '../../../lakehouse/table/calendar.ts';
import { isNull } from '../../../lakehouse/table/column.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import type { DeltaType } from '../../../lakehouse/table/schema.ts';
import { unscaledText } from '../../../lakehouse/table/unscaled-text.ts';

export type CellReader = (row: number) => Cell;

export function cellReader(column: ColumnVector, type: DeltaType): CellReader {
  const read = valueReader(column, type);
  return column.validity === null ? read : (row) => (isNull(column, row) ? null : read(row));
}

const utf8 = new TextDecoder();

function valueReader(column: ColumnVector, type: DeltaType): CellReader {
  switch (column.kind) {
    case 'boolean':
      return (row) => ((column.values[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
    case 'int32':
      return type === 'date' ? (row) => dateText(column.values[row] ?? 0) : (row) => column.values[row] ?? 0;
    case 'int64':
      if (type === 'timestamp') return (row) => timestampText(column.values[row] ?? 0n, 'Z');
      if (type === 'timestamp_ntz') return (row) => timestampText(column.values[row] ?? 0n, '');
      return (row) => wholeNumber(column.values[row] ?? 0n);
    case 'float32':
    case 'float64':
      return (row) => {
        const value = column.values[row] ?? 0;
        return Number.isFinite(value) ? value : String(value);
      };
    case 'decimal':
      return (row) => unscaledText(column.values[row * 2] ?? 0n, column.values[row * 2 + 1] ?? 0n, column.scale);
    case 'utf8':
      return (row) => utf8.decode(column.data.subarray(column.offsets[row], column.offsets[row + 1]));
    case 'binary':
      return (row) =>
        Buffer.from(column.data.subarray(column.offsets[row], column.offsets[row + 1])).toString('base64');
    case 'list': {
      const element = typeof type === 'object' && type.type === 'array' ? type.elementType : 'string';
      const read = cellReader(column.child, element);
      return (row) => {
        const start = column.offsets[row] ?? 0;
        return Array.from({ length: (column.offsets[row + 1] ?? start) - start }, (_, index) => read(start + index));
      };
    }
    case 'struct':
      return structReader(column.names, column.children, type);
    case 'map':
      throw new TypeError('a map column has no cell form; tables kept by the pipeline hold none');
  }
}

/** The wire has numbers while a double is exact. */
function wholeNumber(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function structReader(names: readonly string[], children: readonly ColumnVector[], type: DeltaType): CellReader {
  const fields = typeof type === 'object' && type.type === 'struct' ? type.fields : [];
  const readers = children.map((child, index) =>
    cellReader(child, fields.find((field) => field.name === names[index])?.type ?? 'string'),
  );
  return (row) => Object.fromEntries(names.map((name, index) => [name, readers[index]?.(row) ?? null]));
}
