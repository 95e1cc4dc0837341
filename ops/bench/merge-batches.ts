/** The batches of the merge benchmark: seven columns, 8,000 updates of keys spread over the table and 2,000 inserts. */
import type { MergeBatch } from '../../lakehouse/merge/merge.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { StructField, StructType } from '../../lakehouse/table/schema.ts';
import { seededRandom } from '../faults/seeded-random.ts';

const field = (name: string, type: StructField['type']): StructField => ({
  name,
  type,
  nullable: name !== 'id',
  metadata: {},
});
export const BENCH_SCHEMA: StructType = {
  type: 'struct',
  fields: [
    field('id', 'long'),
    field('customer', 'long'),
    field('status', 'string'),
    field('amount', 'decimal(12,2)'),
    field('quantity', 'integer'),
    field('note', 'string'),
    field('updated_at', 'timestamp'),
  ],
};
const STATUS = ['new', 'paid', 'shipped', 'returned'];
const START_MICROS = 1_700_000_000_000_000n;

export interface BatchSource {
  /** The next `rows` new keys, in order. */
  load(rows: number): MergeBatch;
  /** Updates of distinct keys drawn from the first `tableRows`, and inserts behind the newest key. */
  mixed(tableRows: number, updates: number, inserts: number): MergeBatch;
}

export function batchSource(seed: number): BatchSource {
  const random = seededRandom(seed).next;
  let nextKey = 0;
  let lsn = 0x1_0000_0000n;
  const batch = (ids: readonly number[]): MergeBatch => {
    lsn += 4096n;
    return toBatch(ids, lsn, random);
  };
  return {
    load(rows) {
      const from = nextKey;
      nextKey += rows;
      return batch(Array.from({ length: rows }, (_, i) => from + i));
    },
    mixed(tableRows, updates, inserts) {
      const ids = new Set<number>();
      while (ids.size < updates) ids.add(Math.floor(random() * tableRows));
      for (let i = 0; i < inserts; i++) ids.add(nextKey++);
      return batch([...ids]);
    },
  };
}

function toBatch(ids: readonly number[], lsn: bigint, random: () => number): MergeBatch {
  const rowCount = ids.length;
  const base = { length: rowCount, validity: null };
  const int64 = (value: (id: number, row: number) => bigint): ColumnVector => ({
    kind: 'int64',
    ...base,
    values: BigInt64Array.from(ids, value),
  });
  const cents = new BigInt64Array(rowCount * 2);
  for (let row = 0; row < rowCount; row++) cents[row * 2] = BigInt(Math.floor(random() * 1e7));
  const columns: ColumnVector[] = [
    int64((id) => BigInt(id)),
    int64(() => BigInt(Math.floor(random() * 100_000))),
    text(ids.map((_, row) => STATUS[row % STATUS.length] ?? '')),
    { kind: 'decimal', precision: 12, scale: 2, ...base, values: cents },
    { kind: 'int32', ...base, values: Int32Array.from(ids, (id) => id % 50) },
    text(ids.map((id) => `note ${(id * 7919) % 100_003}`)),
    int64((_, row) => START_MICROS + lsn * 10n + BigInt(row)),
  ];
  return {
    rowCount,
    schema: BENCH_SCHEMA,
    columns,
    keyColumns: ['id'],
    ops: new Uint8Array(rowCount),
    absent: columns.map(() => null),
    epoch: new Int32Array(rowCount).fill(1),
    lsn: new BigUint64Array(rowCount).fill(lsn),
    ord: Int32Array.from(ids, (_, row) => row * 2),
    truncate: null,
  };
}

function text(values: readonly string[]): ColumnVector {
  const data = Buffer.from(values.join(''));
  const offsets = new Int32Array(values.length + 1);
  // All of them are ASCII: a character is a byte.
  values.forEach((value, i) => (offsets[i + 1] = (offsets[i] ?? 0) + value.length));
  return { kind: 'utf8', length: values.length, validity: null, offsets, data };
}
