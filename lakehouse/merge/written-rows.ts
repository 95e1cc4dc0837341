/**
 * The rows that a batch writes, in the table's columns: the event's values, the stored row's where the event did not carry
 * a column (absent is not NULL), and in soft-delete mode the stored row marked as deleted.
 */
import { nullColumn } from '../parquet/spread.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { StructField } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import type { BaseRows } from './base-rows.ts';
import { NULL_SOURCE, gather, picksOf } from './gather.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import { RowOutcome } from './merge.ts';
import { DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN } from './position-columns.ts';
import { NO_BASE, type Resolution } from './resolve.ts';
import { donorOf } from './row-slices.ts';
import { widenColumn, type MergedSchema } from './table-schema.ts';

export interface WritePlan {
  /** Batch rows to write, ascending. */
  readonly rows: Uint32Array;
  /** Bitmap over `rows`: those that are written as deleted (soft-delete mode); null when none. */
  readonly softDeleted: Uint8Array | null;
}

export interface WrittenRows {
  /** Columns of the merged schema, a row for each of `plan.rows`. */
  readonly batch: ColumnBatch;
  /** Stored rows that were read, in all columns of the merged schema, when asked for; by `baseAt` of a batch row. */
  readonly base: ColumnBatch | null;
  readonly baseAt: Int32Array;
  /** Whether values of stored rows went into `batch`. */
  readonly usedBase: boolean;
}

const isSet = (bits: Uint8Array | null, at: number): boolean =>
  bits !== null && ((bits[at >> 3] ?? 0) & (1 << (at & 7))) !== 0;

export interface BuildInput {
  readonly snapshot: Snapshot;
  readonly keyed: KeyedBatch;
  readonly merged: MergedSchema;
  readonly resolution: Resolution;
  readonly plan: WritePlan;
  readonly baseRows: BaseRows;
  /** Batch rows whose stored row is wanted whole (change files). */
  readonly imagesOf: Uint32Array;
}

export async function buildWrittenRows(input: BuildInput): Promise<WrittenRows> {
  const { snapshot, keyed, merged, resolution, plan, imagesOf } = input;
  const needs = merged.schema.fields.map((field, i) => rowsFromBase(input, field, i));
  const usedBase = needs.some((need) => need !== null);
  const baseAt = new Int32Array(keyed.source.rowCount).fill(-1);
  const wanted: number[] = [];
  const want = (row: number): void => {
    if (baseAt[row] !== -1 || resolution.baseFile[row] === NO_BASE) return;
    baseAt[row] = wanted.length;
    wanted.push(row);
  };
  for (const row of imagesOf) want(row);
  for (const need of needs)
    if (need !== null) plan.rows.forEach((row, i) => isSet(need, i) && want(donorOf(resolution, row)));
  const images = imagesOf.length > 0;
  const fields = snapshot.schema.fields.filter(
    (field) => images || needs[merged.schema.fields.findIndex((other) => other.name === field.name)] !== null,
  );
  const places = {
    file: Uint32Array.from(wanted, (row) => resolution.baseFile[row] ?? 0),
    row: Uint32Array.from(wanted, (row) => resolution.baseRow[row] ?? 0),
  };
  const fetched = wanted.length === 0 ? null : await input.baseRows.fetch(snapshot, places, fields);
  const columns = merged.schema.fields.map((field, i) =>
    buildColumn(input, field, i, needs[i] ?? null, fetched, baseAt),
  );
  const names = merged.schema.fields.map((field) => field.name);
  return {
    batch: { rowCount: plan.rows.length, names, columns },
    base: images && fetched !== null ? widenToSchema(fetched, merged) : null,
    baseAt,
    usedBase,
  };
}

/** Bitmap over the written rows: those that take this column from the stored row. Null: none. */
function rowsFromBase(input: BuildInput, field: StructField, i: number): Uint8Array | null {
  const { keyed, merged, plan, resolution } = input;
  const from = merged.batchIndex[i] ?? -1;
  const ownPlace = [DELETED_COLUMN, EPOCH_COLUMN, LSN_COLUMN, ORD_COLUMN].includes(field.name);
  if (field.name === DELETED_COLUMN) return null;
  const absent = from < 0 ? null : (keyed.absent[from] ?? null);
  const isKey = keyed.source.keyColumns.includes(field.name);
  if (from >= 0 && absent === null && (plan.softDeleted === null || isKey || ownPlace)) return null;
  // A column that the table does not have yet has no stored value.
  if (merged.added.includes(field) || merged.added.some((added) => added.name === field.name)) return null;
  const bits = new Uint8Array((plan.rows.length + 7) >> 3);
  let any = false;
  plan.rows.forEach((row, at) => {
    if (resolution.baseFile[donorOf(resolution, row)] === NO_BASE) return;
    const softDelete = isSet(plan.softDeleted, at);
    const fromBase = softDelete ? !isKey && !ownPlace : keepsStored(input, row) && (from < 0 || isSet(absent, row));
    if (!fromBase) return;
    bits[at >> 3] = (bits[at >> 3] ?? 0) | (1 << (at & 7));
    any = true;
  });
  return any ? bits : null;
}

/** A row that was deleted in soft-delete mode and comes back is a new row: it owes nothing to the old one. */
function keepsStored({ resolution }: BuildInput, row: number): boolean {
  return resolution.outcomes[row] === RowOutcome.update || donorOf(resolution, row) !== row;
}

function buildColumn(
  input: BuildInput,
  field: StructField,
  i: number,
  need: Uint8Array | null,
  fetched: ColumnBatch | null,
  baseAt: Int32Array,
): ColumnVector {
  const { keyed, merged, plan } = input;
  const count = plan.rows.length;
  if (field.name === DELETED_COLUMN && (merged.batchIndex[i] ?? -1) < 0) {
    const bytes = (count + 7) >> 3;
    return { kind: 'boolean', length: count, validity: null, values: plan.softDeleted ?? new Uint8Array(bytes) };
  }
  const from = merged.batchIndex[i] ?? -1;
  const own =
    from < 0
      ? nullColumn(field.type, keyed.source.rowCount)
      : widenColumn(keyed.columns[from] as ColumnVector, field.type);
  if (need === null || fetched === null) {
    // Every row as it stands: nothing to move.
    if (from >= 0 && count === keyed.source.rowCount) return own;
    return gather([own], picksOf(plan.rows));
  }
  const base = fetched.columns[fetched.names.indexOf(field.name)] as ColumnVector;
  const source = new Uint8Array(count);
  const row = new Uint32Array(count);
  plan.rows.forEach((batchRow, at) => {
    if (isSet(need, at)) {
      source[at] = 1;
      row[at] = baseAt[donorOf(input.resolution, batchRow)] ?? 0;
    } else {
      source[at] = from < 0 ? NULL_SOURCE : 0;
      row[at] = batchRow;
    }
  });
  return gather([own, base], { count, source, row });
}

/** Stored rows in the columns of the merged schema: those that are added with this commit are NULL in them. */
function widenToSchema(stored: ColumnBatch, merged: MergedSchema): ColumnBatch {
  const columns = merged.schema.fields.map(
    (field) => stored.columns[stored.names.indexOf(field.name)] ?? nullColumn(field.type, stored.rowCount),
  );
  return { rowCount: stored.rowCount, names: merged.schema.fields.map((field) => field.name), columns };
}
