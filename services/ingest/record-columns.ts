/** A few records → columns: for the small tables that the product keeps for itself. Not a hot path. */
import type { Cell } from '../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import { BinaryBuilder } from './columns/bytes-builders.ts';
import type { ColumnBuilder } from './columns/column-builder.ts';
import { createColumnBuilder } from './columns/create-builder.ts';
import { Int64Builder } from './columns/number-builders.ts';

/** Timestamps as microseconds (bigint), binary as bytes; a field that is not there is absent. */
export type RecordCell = Cell | Uint8Array;
export type PlainRecord = Readonly<Record<string, RecordCell>>;

export interface RecordColumns {
  readonly columns: readonly ColumnVector[];
  readonly absent: readonly (Uint8Array | null)[];
}

export function columnsOfRecords(schema: StructType, records: readonly PlainRecord[]): RecordColumns {
  const builders = schema.fields.map(({ type }): ColumnBuilder =>
    type === 'timestamp' || type === 'timestamp_ntz' ? new Int64Builder() : createColumnBuilder(type),
  );
  for (const record of records) {
    schema.fields.forEach(({ name }, index) => {
      const builder = builders[index];
      const cell = record[name];
      if (builder === undefined) return;
      if (cell === undefined) builder.appendAbsent();
      else if (cell instanceof Uint8Array && builder instanceof BinaryBuilder) builder.appendBytes(cell);
      else if (cell instanceof Uint8Array || !builder.append(cell))
        throw new RangeError(`field ${name} cannot hold its value`);
    });
  }
  return { columns: builders.map((builder) => builder.finish()), absent: builders.map((builder) => builder.absent()) };
}
