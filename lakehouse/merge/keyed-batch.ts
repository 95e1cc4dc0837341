/** A batch made ready: shapes checked, position columns there, keys hashed, NULL and repeated keys refused. */
import { compareHash, hashKeys, hashText, sortByHash } from '../index/key-hash.ts';
import type { ColumnVector } from '../table/column.ts';
import type { StructField, StructType } from '../table/schema.ts';
import { wordsOf } from './gather.ts';
import type { MergeBatch } from './merge.ts';
import { MergeError } from './merge-error.ts';
import { EPOCH_COLUMN, LSN_COLUMN, POSITION_FIELDS, type Positions } from './position-columns.ts';

export interface KeyedBatch {
  readonly source: MergeBatch;
  /** The batch's fields, and the position columns where it lacks them. */
  readonly schema: StructType;
  readonly columns: readonly ColumnVector[];
  readonly absent: readonly (Uint8Array | null)[];
  readonly keyFields: readonly StructField[];
  readonly keys: readonly ColumnVector[];
  readonly positions: Positions;
  /** Of each row's key; `order` has the rows in their order. */
  readonly hashes: Uint32Array;
  readonly order: Uint32Array;
}

/**
 * @param unique false in append mode, where a key may come any number of times
 * @throws MergeError MERGE_BAD_BATCH | MERGE_NULL_KEY | MERGE_DUPLICATE_KEY
 */
export function keyBatch(batch: MergeBatch, table: string, unique: boolean): KeyedBatch {
  checkShape(batch, table);
  const keyed = batch.keyColumns.map((name) => {
    const at = batch.schema.fields.findIndex((field) => field.name === name);
    const field = batch.schema.fields[at];
    const column = batch.columns[at];
    if (field === undefined || column === undefined)
      throw new MergeError('MERGE_BAD_BATCH', table, `key column ${name} is not among the batch's columns`);
    refuseNullKeys(column, name, batch.rowCount, table);
    return { field, column };
  });
  const keys = keyed.map(({ column }) => column);
  const hashes = batch.keyHashes ?? hashKeys(keys, batch.rowCount);
  const order = sortByHash(hashes, batch.rowCount);
  if (unique) refuseRepeatedKeys(batch, hashes, order, table);
  const added = POSITION_FIELDS.filter((field) => !batch.schema.fields.some((other) => other.name === field.name));
  return {
    source: batch,
    schema: added.length === 0 ? batch.schema : { type: 'struct', fields: [...batch.schema.fields, ...added] },
    columns: [...batch.columns, ...added.map((field) => positionColumn(field.name, batch))],
    absent: [...batch.absent, ...added.map(() => null)],
    keyFields: keyed.map(({ field }) => field),
    keys,
    positions: { epoch: batch.epoch, lsnWords: wordsOf(batch.lsn), ord: batch.ord },
    hashes,
    order,
  };
}

function positionColumn(name: string, batch: MergeBatch): ColumnVector {
  const base = { length: batch.rowCount, validity: null };
  if (name === LSN_COLUMN) {
    const { buffer, byteOffset, length } = batch.lsn;
    return { kind: 'int64', ...base, values: new BigInt64Array(buffer, byteOffset, length) };
  }
  return { kind: 'int32', ...base, values: name === EPOCH_COLUMN ? batch.epoch : batch.ord };
}

function checkShape(batch: MergeBatch, table: string): void {
  const { rowCount, schema, columns, absent } = batch;
  const bad = (what: string): MergeError => new MergeError('MERGE_BAD_BATCH', table, `the batch is malformed: ${what}`);
  if (batch.keyColumns.length === 0) throw bad('it names no key column');
  if (columns.length !== schema.fields.length || absent.length !== schema.fields.length)
    throw bad(`${schema.fields.length} fields, ${columns.length} columns, ${absent.length} absence bitmaps`);
  schema.fields.forEach((field, i) => {
    if (columns[i]?.length !== rowCount)
      throw bad(`column ${field.name} has ${columns[i]?.length} rows, the batch has ${rowCount}`);
  });
  const { ops, epoch, lsn, ord } = batch;
  if (ops.length < rowCount || epoch.length < rowCount || lsn.length < rowCount || ord.length < rowCount)
    throw bad('an operation or a position is missing');
}

function refuseNullKeys(column: ColumnVector, name: string, rowCount: number, table: string): void {
  const { validity } = column;
  if (validity === null) return;
  let nulls = 0;
  for (let row = 0; row < rowCount; row++) if (((validity[row >> 3] ?? 0) & (1 << (row & 7))) === 0) nulls++;
  if (nulls > 0)
    throw new MergeError(
      'MERGE_NULL_KEY',
      table,
      `key column ${name} is NULL in ${nulls} of ${rowCount} rows; require it in the contract, so that such rows are quarantined`,
    );
}

function refuseRepeatedKeys(batch: MergeBatch, hashes: Uint32Array, order: Uint32Array, table: string): void {
  const repeated = new Set<string>();
  for (let i = 1; i < order.length; i++) {
    const row = order[i] ?? 0;
    if (compareHash(hashes, order[i - 1] ?? 0, hashes, row) === 0) repeated.add(hashText(hashes, row));
    if (repeated.size === 10) break;
  }
  if (repeated.size > 0)
    throw new MergeError(
      'MERGE_DUPLICATE_KEY',
      table,
      `the batch has more than one row for a key (${batch.keyColumns.join(', ')}); fold it first. ` +
        `Keys, as hashes: ${[...repeated].join(', ')}`,
    );
}
