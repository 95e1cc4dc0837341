/**
 * Partition values as the log has them, text in the log (PROTOCOL.md, "Partition Value Serialization"). NULL is null; the empty string
 * means NULL there too, so it cannot be a partition value: storing it would turn it into NULL in silence.
 */
import { dateText, timestampText } from '../table/calendar.ts';
import { isNull, type ColumnVector } from '../table/column.ts';
import type { DeltaType } from '../table/schema.ts';
import { unscaledText } from '../table/unscaled-text.ts';
import { MergeError } from './merge-error.ts';

const decoder = new TextDecoder();

/** @throws MergeError MERGE_BAD_BATCH for an empty string, MERGE_TYPE_MISMATCH for a type that cannot partition */
export function partitionText(
  type: DeltaType,
  column: ColumnVector,
  row: number,
  name: string,
  table: string,
): string | null {
  if (isNull(column, row)) return null;
  switch (column.kind) {
    case 'boolean':
      return ((column.values[row >> 3] ?? 0) & (1 << (row & 7))) === 0 ? 'false' : 'true';
    case 'int32':
      return type === 'date' ? dateText(column.values[row] ?? 0) : String(column.values[row] ?? 0);
    case 'int64': {
      const value = column.values[row] ?? 0n;
      if (type === 'timestamp') return timestampText(value, 'Z');
      // Spark reads this form for timestamps without a zone.
      if (type === 'timestamp_ntz') return timestampText(value, '').replace('T', ' ');
      return value.toString();
    }
    case 'float32':
    case 'float64': {
      const value = column.values[row] ?? 0;
      return Object.is(value, -0) ? '-0.0' : String(value);
    }
    case 'decimal':
      return unscaledText(column.values[row * 2] ?? 0n, column.values[row * 2 + 1] ?? 0n, column.scale);
    case 'utf8': {
      const text = decoder.decode(column.data.subarray(column.offsets[row], column.offsets[row + 1]));
      if (text === '')
        throw new MergeError(
          'MERGE_BAD_BATCH',
          table,
          `partition column ${name} is an empty string, which Delta cannot tell from NULL; map it in the contract`,
        );
      return text;
    }
    case 'binary':
    case 'list':
    case 'struct':
    case 'map':
      throw new MergeError(
        'MERGE_TYPE_MISMATCH',
        table,
        `a ${column.kind} column such as ${name} cannot partition a table`,
      );
  }
}
