/** Append mode: every event as a row of its own. */
import { nullColumn } from '../parquet/spread.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { NULL_SOURCE, gather } from './gather.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import { MergeOp } from './merge.ts';
import { ABSENT_COLUMN, DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN } from './position-columns.ts';
import { widenColumn, type MergedSchema } from './table-schema.ts';

/** The batch in the table's columns; a TRUNCATE comes first, as a deleted row whose key is NULL. */
export function appendedRows(keyed: KeyedBatch, merged: MergedSchema): ColumnBatch {
  const { source } = keyed;
  const lead = source.truncate === null ? 0 : 1;
  const rowCount = source.rowCount + lead;
  const columns = merged.schema.fields.map((field, i) => {
    if (field.name === DELETED_COLUMN) return deletedColumn(source.ops, source.rowCount, lead);
    if (field.name === ABSENT_COLUMN) return absentColumn(keyed, lead);
    const from = merged.batchIndex[i] ?? -1;
    if (from < 0) return nullColumn(field.type, rowCount);
    const own = widenColumn(keyed.columns[from] as ColumnVector, field.type);
    if (lead === 0) return own;
    return behindLead(own, truncateValue(field.name, keyed));
  });
  return { rowCount, names: merged.schema.fields.map((field) => field.name), columns };
}

function behindLead(column: ColumnVector, lead: ColumnVector | null): ColumnVector {
  const count = column.length + 1;
  const source = new Uint8Array(count);
  const row = Uint32Array.from({ length: count }, (_, i) => Math.max(0, i - 1));
  source[0] = lead === null ? NULL_SOURCE : 1;
  return gather(lead === null ? [column] : [column, lead], { count, source, row });
}

function truncateValue(name: string, { source }: KeyedBatch): ColumnVector | null {
  const { truncate } = source;
  if (truncate === null) return null;
  const base = { length: 1, validity: null };
  if (name === LSN_COLUMN) return { kind: 'int64', ...base, values: BigInt64Array.of(BigInt.asIntN(64, truncate.lsn)) };
  if (name === ORD_COLUMN) return { kind: 'int32', ...base, values: Int32Array.of(truncate.ord) };
  if (name === EPOCH_COLUMN) return { kind: 'int32', ...base, values: Int32Array.of(truncate.epoch) };
  return null;
}

function deletedColumn(ops: Uint8Array, rowCount: number, lead: number): ColumnVector {
  const length = rowCount + lead;
  const values = new Uint8Array((length + 7) >> 3);
  if (lead === 1) values[0] = 1;
  for (let row = 0; row < rowCount; row++) {
    const at = row + lead;
    if (ops[row] === MergeOp.delete) values[at >> 3] = (values[at >> 3] ?? 0) | (1 << (at & 7));
  }
  return { kind: 'boolean', length, validity: null, values };
}

function absentColumn({ source, absent }: KeyedBatch, lead: number): ColumnVector {
  const length = source.rowCount + lead;
  const texts: (Buffer | null)[] = Array.from({ length }, () => null);
  for (let row = 0; row < source.rowCount; row++) {
    const names: string[] = [];
    source.schema.fields.forEach((field, i) => {
      const bits = absent[i] ?? null;
      if (bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) !== 0) names.push(field.name);
    });
    if (names.length > 0) texts[row + lead] = Buffer.from(names.join(','));
  }
  const offsets = new Int32Array(length + 1);
  const validity = new Uint8Array((length + 7) >> 3);
  texts.forEach((text, i) => {
    offsets[i + 1] = (offsets[i] ?? 0) + (text?.length ?? 0);
    if (text !== null) validity[i >> 3] = (validity[i >> 3] ?? 0) | (1 << (i & 7));
  });
  return { kind: 'utf8', length, validity, offsets, data: Buffer.concat(texts.filter((text) => text !== null)) };
}
