/** Rows of a batch grouped by the table's partition columns: a file holds rows of one partition only. */
import type { MetadataAction, PartitionValues } from '../table/actions.ts';
import { mappingMode, physicalName } from '../table/column-mapping.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { StructType } from '../table/schema.ts';
import { partitionText } from './partition-value.ts';

export interface PartitionRows {
  /** Rows of the batch, ascending; null: all of them. */
  readonly rows: Uint32Array | null;
  /** By physical column name. */
  readonly partitionValues: PartitionValues;
}

/** @throws MergeError MERGE_BAD_BATCH, MERGE_TYPE_MISMATCH (partition-value.ts) */
export function partitionRows(
  metadata: MetadataAction,
  schema: StructType,
  batch: ColumnBatch,
  table: string,
): readonly PartitionRows[] {
  if (metadata.partitionColumns.length === 0) return [{ rows: null, partitionValues: {} }];
  const mode = mappingMode(metadata);
  const parts = metadata.partitionColumns.flatMap((name) => {
    const field = schema.fields.find((candidate) => candidate.name === name);
    const column: ColumnVector | undefined = batch.columns[batch.names.indexOf(name)];
    return field === undefined || column === undefined ? [] : [{ field, column }];
  });
  const groups = new Map<string, { readonly rows: number[]; readonly values: readonly (string | null)[] }>();
  for (let row = 0; row < batch.rowCount; row++) {
    const values = parts.map(({ field, column }) => partitionText(field.type, column, row, field.name, table));
    const id = JSON.stringify(values);
    const group = groups.get(id);
    if (group === undefined) groups.set(id, { rows: [row], values });
    else group.rows.push(row);
  }
  return [...groups.values()].map(({ rows, values }) => ({
    rows: Uint32Array.from(rows),
    partitionValues: Object.fromEntries(parts.map(({ field }, i) => [physicalName(field, mode), values[i] ?? null])),
  }));
}
