/** Rows of one version of a table, as a stream of batches. */
import type { ColumnBatch } from '../table/column.ts';
import type { StructField, StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { liveRows, vectorRows } from './file-rows.ts';
import { canSkip, type Condition } from './skip-files.ts';

export interface ScanOptions {
  /** Top-level column names, any order; default all, in schema order. */
  readonly columns?: readonly string[];
  /** Files that hold no row meeting all of these are not read. Rows are not filtered: others come along. */
  readonly where?: readonly Condition[];
}

/** The schema of the batches that `scan` gives. @throws TableError SCHEMA_INVALID for an unknown column */
export function scanSchema(snapshot: Snapshot, columns?: readonly string[]): StructType {
  if (columns === undefined) return snapshot.schema;
  const fields = columns.map((name): StructField => {
    const field = snapshot.schema.fields.find((candidate) => candidate.name === name);
    if (field !== undefined) return field;
    const place = { table: snapshot.store.uri, version: snapshot.version };
    throw new TableError('SCHEMA_INVALID', place, `the table has no column ${name}`);
  });
  return { type: 'struct', fields };
}

/**
 * Files in log order, each a row group at a time: memory holds one row group.
 * @throws TableError DATA_FILE_MISSING | DATA_FILE_CORRUPT naming table, version and file; StoreError
 */
export async function* scan(snapshot: Snapshot, options: ScanOptions = {}): AsyncGenerator<ColumnBatch> {
  const { fields } = scanSchema(snapshot, options.columns);
  for (const file of snapshot.files) {
    if (canSkip(snapshot, file, options.where ?? [])) continue;
    const deleted = await vectorRows(snapshot, file.deletionVector);
    yield* liveRows(snapshot, file, fields, deleted);
  }
}
