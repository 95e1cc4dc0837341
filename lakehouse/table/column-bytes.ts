/** What columns take in memory. */
import type { ColumnVector } from './column.ts';

/** Bytes of a column's buffers. */
export function columnBytes(column: ColumnVector): number {
  switch (column.kind) {
    case 'utf8':
    case 'binary':
      return column.data.byteLength + column.offsets.byteLength;
    case 'list':
      return column.offsets.byteLength + columnBytes(column.child);
    case 'map':
      return column.offsets.byteLength + columnBytes(column.keys) + columnBytes(column.items);
    case 'struct':
      return column.children.reduce((sum, child) => sum + columnBytes(child), 0);
    case 'boolean':
    case 'int32':
    case 'int64':
    case 'float32':
    case 'float64':
    case 'decimal':
      return column.values.byteLength;
  }
}
