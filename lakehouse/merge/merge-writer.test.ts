import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import { canonicalRows } from '../../test/support/canonical-rows.ts';
import { nullColumn } from '../parquet/spread.ts';
import { scan } from '../read/scan.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import { readCommit } from '../table/log-reader.ts';
import { commitKey } from '../table/log-files.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { appendBatch } from '../write/append-batch.ts';
import { changeTable } from '../upkeep/change-table.ts';
import { compactTable } from '../upkeep/compact.ts';
import type { MergeFailpoint } from './failpoint.ts';
import { MergeOp, RowOutcome, type MergeBatch, type MergeResult } from './merge.ts';
import { openMergeTable, type MergeTableOptions, type OwnedMergeTable } from './merge-writer.ts';

const root = mkdtempSync(join(tmpdir(), 'sluice-merge-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;
const newIndexDir = (): string => join(root, String(++folders));

type Row = readonly [id: bigint, lsn: bigint, cells?: Readonly<Record<string, Cell>> | 'delete'];

function batchOf(
  rows: readonly Row[],
  columns: Readonly<Record<string, DeltaType>> = { n: 'integer', body: 'string' },
): MergeBatch {
  const names = Object.keys(columns);
  const schema: StructType = {
    type: 'struct',
    fields: [
      { name: 'id', type: 'long', nullable: false, metadata: {} },
      ...names.map((name) => ({ name, type: columns[name]!, nullable: true, metadata: {} })),
    ],
  };
  const cell = ([, , cells]: Row, name: string): Cell | undefined =>
    cells === undefined || cells === 'delete' ? null : cells[name];
  return {
    rowCount: rows.length,
    schema,
    columns: [
      columnFrom(
        'long',
        rows.map(([id]) => id),
      ),
      ...names.map((name) =>
        columnFrom(
          columns[name]!,
          rows.map((row) => cell(row, name) ?? null),
        ),
      ),
    ],
    keyColumns: ['id'],
    ops: Uint8Array.from(rows, ([, , cells]) => (cells === 'delete' ? MergeOp.delete : MergeOp.upsert)),
    absent: [
      null,
      ...names.map((name) => {
        const bits = new Uint8Array((rows.length + 7) >> 3);
        rows.forEach((row, i) => cell(row, name) === undefined && (bits[i >> 3]! |= 1 << (i & 7)));
        return bits.some((byte) => byte !== 0) ? bits : null;
      }),
    ],
    epoch: new Int32Array(rows.length).fill(1),
    lsn: BigUint64Array.from(rows, ([, lsn]) => lsn),
    ord: new Int32Array(rows.length),
    truncate: null,
  };
}

let nextTxn = 0n;
async function write(table: OwnedMergeTable, batch: MergeBatch, appId = 'stream'): Promise<MergeResult> {
  const prepared = await table.prepare(batch);
  return table.commit(prepared, { txns: [{ appId, version: nextTxn++ }], info: {}, timestampMs: 0 });
}
async function rowsOf(store: ObjectStore): Promise<Record<string, unknown>[]> {
  const snapshot = await openSnapshot(store);
  const texts = await canonicalRows(snapshot.schema, scan(snapshot));
  return texts
    .map((text) => JSON.parse(text) as Record<string, unknown>)
    .sort((a, b) => Number(a['id']) - Number(b['id']));
}
const valuesOf = async (store: ObjectStore, ...names: string[]): Promise<unknown[][]> =>
  (await rowsOf(store)).map((row) => names.map((name) => row[name]));

async function open(store: ObjectStore, more: Partial<MergeTableOptions> = {}): Promise<OwnedMergeTable> {
  return openMergeTable({ store, indexDir: newIndexDir(), ...more });
}
const full = (n: number, body = 'text'): Record<string, Cell> => ({ n, body });

describe('columns that an event does not carry', () => {
  test('keep the stored value, alone in a batch or beside rows that send it', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    const long = 'x'.repeat(10_000);
    await write(
      table,
      batchOf([
        [1n, 1n, full(1, long)],
        [2n, 1n, full(1, long)],
      ]),
    );
    await write(table, batchOf([[1n, 2n, { n: 2 }]]));
    await write(
      table,
      batchOf([
        [1n, 3n, { n: 3 }],
        [2n, 3n, { n: 3, body: null }],
        [3n, 3n, full(3)],
      ]),
    );
    expect(await valuesOf(store, 'id', 'n', 'body')).toEqual([
      [1, 3, long],
      [2, 3, null],
      [3, 3, 'text'],
    ]);
  });
  test('without a stored row are named, not written, and do not hold up the rest', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    const done = await write(
      table,
      batchOf([
        [1n, 1n, { n: 1 }],
        [2n, 1n, full(2)],
      ]),
    );
    expect([...done.outcomes]).toEqual([RowOutcome.missingBase, RowOutcome.insert]);
    expect(await valuesOf(store, 'id')).toEqual([[2]]);
  });
  test('of a table column that the batch does not know keep the stored value too', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, batchOf([[1n, 1n, full(1, 'kept')]]));
    await write(
      table,
      batchOf(
        [
          [1n, 2n, { n: 2 }],
          [2n, 2n, { n: 2 }],
        ],
        { n: 'integer' },
      ),
    );
    expect(await valuesOf(store, 'id', 'n', 'body')).toEqual([
      [1, 2, 'kept'],
      [2, 2, null],
    ]);
  });
});

describe('deletion vectors', () => {
  test('a second delete unions, and its remove names the first vector', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, batchOf(Array.from({ length: 10 }, (_, i) => [BigInt(i), 1n, full(i)])));
    await write(table, batchOf([[3n, 2n, 'delete']]));
    const done = await write(table, batchOf([[7n, 3n, 'delete']]));
    const commit = await readCommit(store, done.version!);
    const first = (await readCommit(store, done.version! - 1n))!.adds[0]!.deletionVector;
    expect(commit!.removes[0]!.deletionVector).toEqual(first);
    expect(commit!.adds[0]!.deletionVector!.cardinality).toBe(2n);
    expect(JSON.parse(commit!.adds[0]!.stats!)).toMatchObject({ numRecords: 10, tightBounds: false });
    expect((await rowsOf(store)).length).toBe(8);
  });
  test('a file whose last row goes is removed', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(
      table,
      batchOf([
        [1n, 1n, full(1)],
        [2n, 1n, full(1)],
      ]),
    );
    await write(table, batchOf([[1n, 2n, full(2)]]));
    const done = await write(table, batchOf([[2n, 3n, 'delete']]));
    expect(done).toMatchObject({ filesRemoved: 1, vectorsWritten: 0 });
    expect((await openSnapshot(store)).files.count).toBe(1);
  });
  test('none are written to a table created without them', async () => {
    const store = createMemoryStore();
    const table = await open(store, { create: { deletionVectors: false } });
    await write(
      table,
      batchOf([
        [1n, 1n, full(1)],
        [2n, 1n, full(1)],
      ]),
    );
    const done = await write(table, batchOf([[1n, 2n, full(9)]]));
    expect(done).toMatchObject({ vectorsWritten: 0, filesRemoved: 1 });
    const snapshot = await openSnapshot(store);
    expect(snapshot.protocol.minReaderVersion).toBe(1);
    expect([...snapshot.files].every((file) => file.deletionVector === null)).toBe(true);
    expect(await valuesOf(store, 'id', 'n')).toEqual([
      [1, 9],
      [2, 1],
    ]);
  });
});

describe('fences', () => {
  test.each([
    ['from the files that commits name', 1000, false],
    ['from joined files', 2, false],
    ['from joined files when the commits are gone', 2, true],
  ])('a deleted row stays deleted when all local state is lost: %s', async (_, checkpointEvery, forget) => {
    const store = createMemoryStore();
    const table = await open(store, { checkpointEvery });
    await write(
      table,
      batchOf([
        [1n, 10n, full(1)],
        [2n, 10n, full(2)],
        [3n, 10n, full(3)],
      ]),
    );
    await write(
      table,
      batchOf([
        [1n, 30n, 'delete'],
        [9n, 30n, 'delete'],
      ]),
    );
    await write(table, batchOf([[3n, 40n, full(4)]]));
    await write(table, batchOf([[2n, 50n, 'delete']]));
    await write(table, batchOf([[3n, 60n, full(5)]]));
    await table.settled();
    await table.close();
    if (forget) {
      const { checkpointVersion } = await openSnapshot(store);
      for (let version = 0n; version < checkpointVersion!; version++) await store.delete([commitKey(version)]);
    }
    const again = await open(store);
    const done = await write(
      again,
      batchOf([
        [1n, 20n, full(9)],
        [2n, 50n, full(9)],
        [9n, 29n, full(9)],
        [3n, 61n, full(6)],
      ]),
    );
    expect([...done.outcomes]).toEqual([RowOutcome.stale, RowOutcome.stale, RowOutcome.stale, RowOutcome.update]);
    expect(await valuesOf(store, 'id', 'n')).toEqual([[3, 6]]);
    const newer = await write(again, batchOf([[1n, 31n, full(7)]]));
    expect([...newer.outcomes]).toEqual([RowOutcome.insert]);
  });
  test('a TRUNCATE takes what is older, and holds back what is older for ever', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(
      table,
      batchOf([
        [1n, 10n, full(1)],
        [2n, 30n, full(2)],
      ]),
    );
    const done = await write(table, { ...batchOf([[4n, 25n, full(4)]]), truncate: { epoch: 1, lsn: 20n, ord: 0 } });
    expect(done.rows).toMatchObject({ truncated: 1, insert: 1 });
    const again = await open(store);
    const late = await write(
      again,
      batchOf([
        [1n, 15n, full(9)],
        [5n, 19n, full(9)],
        [6n, 21n, full(6)],
      ]),
    );
    expect([...late.outcomes]).toEqual([RowOutcome.stale, RowOutcome.stale, RowOutcome.insert]);
    expect(await valuesOf(store, 'id')).toEqual([[2], [4], [6]]);
  });
  test('older than the retention are dropped when files are joined', async () => {
    const store = createMemoryStore();
    let now = 1_700_000_000_000;
    const table = await open(store, { checkpointEvery: 2, fenceRetentionMs: 1000, now: () => now });
    await write(table, batchOf([[1n, 10n, 'delete']]));
    now += 5000;
    for (let i = 0n; i < 5n; i++) {
      await write(table, batchOf([[2n + i, 20n, 'delete']]));
      await table.settled();
    }
    await table.close();
    const again = await open(store, { now: () => now, fenceRetentionMs: 1000 });
    const done = await write(
      again,
      batchOf([
        [1n, 5n, full(1)],
        [2n, 5n, full(2)],
      ]),
    );
    expect([...done.outcomes]).toEqual([RowOutcome.insert, RowOutcome.stale]);
  });
});

describe('batches that are refused', () => {
  const nullKey = (): MergeBatch => {
    const batch = batchOf([
      [1n, 1n, full(1)],
      [2n, 1n, full(1)],
    ]);
    return { ...batch, columns: [columnFrom('long', [1n, null]), ...batch.columns.slice(1)] };
  };
  test('a NULL key is named with its count, never with data', async () => {
    const table = await open(createMemoryStore());
    await expect(table.prepare(nullKey())).rejects.toMatchObject({
      code: 'MERGE_NULL_KEY',
      message: expect.stringMatching(/key column id is NULL in 1 of 2/),
    });
  });
  test('a repeated key is named by its hash', async () => {
    const table = await open(createMemoryStore());
    const batch = batchOf([
      [777_777n, 1n, full(1)],
      [777_777n, 2n, full(2)],
    ]);
    const error = await table.prepare(batch).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: 'MERGE_DUPLICATE_KEY' });
    expect((error as Error).message).not.toContain('777');
  });
  test('a column that the table cannot hold is named with both types', async () => {
    const table = await open(createMemoryStore());
    await write(table, batchOf([[1n, 1n, { n: 1 }]], { n: 'integer' }));
    const wider = batchOf([[1n, 2n, { n: 'x' }]], { n: 'string' });
    await expect(write(table, wider)).rejects.toMatchObject({
      code: 'MERGE_TYPE_MISMATCH',
      message: expect.stringMatching(/n is string in the batch and integer/),
    });
  });
  test('columns that do not fit the schema are refused', async () => {
    const table = await open(createMemoryStore());
    const batch = batchOf([[1n, 1n, full(1)]]);
    await expect(table.prepare({ ...batch, columns: batch.columns.slice(1) })).rejects.toMatchObject({
      code: 'MERGE_BAD_BATCH',
    });
  });
});

describe('schema', () => {
  test('a new column comes with the batch that has it, also a first timestamp_ntz', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, batchOf([[1n, 1n, { n: 1 }]], { n: 'integer' }));
    await write(table, batchOf([[2n, 2n, { n: 2, at: 5n }]], { n: 'integer', at: 'timestamp_ntz' }));
    expect((await openSnapshot(store)).protocol.readerFeatures).toContain('timestampNtz');
    expect(await valuesOf(store, 'id', 'at')).toEqual([
      [1, null],
      [2, '1970-01-01T00:00:00.000005'],
    ]);
  });
  test('a narrower column is widened to the table', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, batchOf([[1n, 1n, { n: 2n ** 40n, d: 12_345n }]], { n: 'long', d: 'decimal(12,4)' }));
    await write(table, batchOf([[2n, 2n, { n: 7, d: -5n }]], { n: 'integer', d: 'decimal(5,2)' }));
    expect(await valuesOf(store, 'n', 'd')).toEqual([
      [2 ** 40, 1.2345],
      [7, -0.05],
    ]);
  });
});

test('append mode keeps every event, deletes and truncates included', async () => {
  const store = createMemoryStore();
  const table = await open(store, { mode: 'append' });
  await write(
    table,
    batchOf([
      [1n, 1n, full(1)],
      [1n, 2n, { n: 2 }],
      [1n, 3n, 'delete'],
    ]),
  );
  await write(table, { ...batchOf([[2n, 9n, full(2)]]), truncate: { epoch: 1, lsn: 8n, ord: 0 } });
  const rows = (await rowsOf(store)).map((row) => [
    row['id'],
    row['_sluice_lsn'],
    row['_sluice_deleted'],
    row['_sluice_absent'],
  ]);
  expect(rows.sort((a, b) => Number(a[1]) - Number(b[1]))).toEqual([
    [1, 1, false, null],
    [1, 2, false, 'body'],
    [1, 3, true, null],
    [null, 8, true, null],
    [2, 9, false, null],
  ]);
  expect((await openSnapshot(store)).metadata.configuration['delta.appendOnly']).toBe('true');
});

describe('several writers of one table', () => {
  test('different rows of one file: both deletes hold', async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(one, batchOf(Array.from({ length: 10 }, (_, i) => [BigInt(i), 1n, full(i)])), 'one');
    const two = await open(store);
    const late = await two.prepare(
      batchOf([
        [3n, 2n, 'delete'],
        [4n, 2n, full(44)],
      ]),
    );
    await write(
      one,
      batchOf([
        [7n, 2n, 'delete'],
        [8n, 2n, full(88)],
      ]),
      'one',
    );
    const done = await two.commit(late, { txns: [{ appId: 'two', version: 1n }], info: {}, timestampMs: 0 });
    expect(done.conflicts).toBe(1);
    // What was written before the race was lost is what is committed: three batches, three files.
    const files: string[] = [];
    for await (const { key } of store.list('')) if (key.startsWith('part-')) files.push(key);
    expect(files.length).toBe(3);
    expect(await valuesOf(store, 'id', 'n')).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
      [4, 44],
      [5, 5],
      [6, 6],
      [8, 88],
      [9, 9],
    ]);
  });
  test('the same key inserted by both stands once, the newer one', async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(one, batchOf([[1n, 1n, full(1)]]), 'one');
    const two = await open(store);
    const late = await two.prepare(
      batchOf([
        [2n, 5n, full(5)],
        [3n, 2n, full(2)],
      ]),
    );
    await write(
      one,
      batchOf([
        [2n, 4n, full(4)],
        [3n, 9n, full(9)],
      ]),
      'one',
    );
    const done = await two.commit(late, { txns: [{ appId: 'two', version: 1n }], info: {}, timestampMs: 0 });
    expect([...done.outcomes]).toEqual([RowOutcome.update, RowOutcome.stale]);
    expect(await valuesOf(store, 'id', 'n')).toEqual([
      [1, 1],
      [2, 5],
      [3, 9],
    ]);
  });
  test("another's joined fences do not hide rows that were deleted and came back", async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(
      one,
      batchOf([
        [1n, 1n, full(1)],
        [2n, 1n, full(1)],
      ]),
      'one',
    );
    await write(one, batchOf([[1n, 2n, 'delete']]), 'one');
    await write(one, batchOf([[1n, 3n, full(3)]]), 'one');
    const two = await open(store, { checkpointEvery: 1 });
    await write(two, batchOf([[2n, 4n, 'delete']]), 'two');
    await two.settled();
    const done = await write(
      one,
      batchOf([
        [1n, 5n, { n: 5 }],
        [2n, 3n, full(9)],
      ]),
      'one',
    );
    expect([...done.outcomes]).toEqual([RowOutcome.update, RowOutcome.stale]);
    expect(await valuesOf(store, 'id', 'n', 'body')).toEqual([[1, 5, 'text']]);
  });
  test('of one stream stop by name', async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(one, batchOf([[1n, 1n, full(1)]]));
    const two = await open(store);
    const late = await two.prepare(batchOf([[2n, 2n, full(2)]]));
    await write(one, batchOf([[2n, 2n, full(2)]]));
    const request = { txns: [{ appId: 'stream', version: nextTxn++ }], info: {}, timestampMs: 0 };
    await expect(two.commit(late, request)).rejects.toMatchObject({ code: 'MERGE_TXN_CONFLICT' });
  });
  test('of one stream stop by name, also when the table was looked at in between', async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(one, batchOf([[1n, 1n, full(1)]]));
    const paused = await open(store);
    const late = await paused.prepare(batchOf([[2n, 2n, full(2)]]));
    await write(one, batchOf([[2n, 2n, full(2)]]));
    const taken = await paused.txnVersion('stream');
    const request = {
      txns: [{ appId: 'stream', version: taken ?? 0n }],
      follows: (txnVersion: (appId: string) => bigint | null) => (txnVersion('stream') ?? -1n) < (taken ?? 0n),
      info: {},
      timestampMs: 0,
    };
    await expect(paused.commit(late, request)).rejects.toMatchObject({ code: 'MERGE_TXN_CONFLICT' });
    expect(await valuesOf(store, 'id')).toEqual([[1], [2]]);
  });
  test('a base deleted in between stops the batch, to be prepared again', async () => {
    const store = createMemoryStore();
    const one = await open(store);
    await write(one, batchOf([[1n, 1n, full(1)]]), 'one');
    const two = await open(store);
    const late = await two.prepare(batchOf([[1n, 5n, { n: 5 }]]));
    await write(one, batchOf([[1n, 4n, 'delete']]), 'one');
    const request = { txns: [], info: {}, timestampMs: 0 };
    await expect(two.commit(late, request)).rejects.toMatchObject({ code: 'MERGE_BASE_LOST' });
    expect([...(await two.prepare(late.batch)).outcomes]).toEqual([RowOutcome.missingBase]);
  });
  test("a foreign rewrite is followed, not rebuilt; another's property change is no hindrance", async () => {
    const store = createMemoryStore();
    const table = await open(store);
    for (let i = 0n; i < 4n; i++)
      await write(
        table,
        batchOf([
          [i, 1n, full(Number(i))],
          [i + 10n, 1n, full(0)],
        ]),
      );
    await compactTable(await openSnapshot(store), { order: { kind: 'sort', columns: ['id'] } });
    await changeTable(await openSnapshot(store), {
      kind: 'properties',
      set: { 'delta.checkpointInterval': '7' },
    });
    await write(
      table,
      batchOf([
        [2n, 5n, full(22)],
        [13n, 5n, 'delete'],
      ]),
    );
    expect(table.lastFollow()).toBe('followed');
    expect(await valuesOf(store, 'id', 'n')).toEqual([
      [0, 0],
      [1, 1],
      [2, 22],
      [3, 3],
      [10, 0],
      [11, 0],
      [12, 0],
    ]);
  });
});

test('a key that another writer repeated is written once again', async () => {
  const store = createMemoryStore();
  const table = await open(store);
  await write(
    table,
    batchOf([
      [1n, 1n, full(1)],
      [2n, 1n, full(2)],
    ]),
  );
  const foreign = batchOf([
    [1n, 2n, full(11)],
    [1n, 3n, full(12)],
    [5n, 1n, full(5)],
  ]);
  const snapshot = await openSnapshot(store);
  const positions = snapshot.schema.fields.slice(foreign.columns.length).map((field) => nullColumn(field.type, 3));
  const names = snapshot.schema.fields.map((field) => field.name);
  await appendBatch(snapshot, { rowCount: 3, names, columns: [...foreign.columns, ...positions] });
  expect((await rowsOf(store)).length).toBe(5);
  const done = await write(
    table,
    batchOf([
      [1n, 9n, full(99)],
      [5n, 9n, 'delete'],
    ]),
  );
  expect(done.rows).toMatchObject({ update: 1, delete: 1 });
  expect(await valuesOf(store, 'id', 'n')).toEqual([
    [1, 99],
    [2, 2],
  ]);
});

test('an index damaged under a running writer is built anew, and no key doubles', async () => {
  const store = createMemoryStore();
  const indexDir = newIndexDir();
  const rows = Array.from({ length: 500 }, (_, i): Row => [BigInt(i), 1n, full(i)]);
  const table = await open(store, { indexDir, indexMemoryEntries: 100 });
  await write(table, batchOf(rows));
  await table.close();
  for (const name of readdirSync(indexDir).filter((file) => file.endsWith('.run'))) {
    const bytes = readFileSync(join(indexDir, name));
    for (let at = 0; at < 500 * 40; at += 40) bytes[at + 17]! ^= 1;
    writeFileSync(join(indexDir, name), bytes);
  }
  const again = await open(store, { indexDir });
  await write(again, batchOf(rows.map(([id]): Row => [id, 2n, full(7)])));
  expect(again.lastFollow()).toBe('rebuilt');
  expect((await rowsOf(store)).map((row) => row['n'])).toEqual(rows.map(() => 7));
});

test('an index whose files vanish under a running writer is built anew, and no key doubles', async () => {
  const store = createMemoryStore();
  const indexDir = newIndexDir();
  const table = await open(store, { indexDir, indexMemoryEntries: 20, autoCompact: null });
  const rows = Array.from({ length: 60 }, (_, i): Row => [BigInt(i), 1n, full(0)]);
  await write(table, batchOf(rows));
  const follows = new Set<unknown>();
  for (let round = 1; round < 12 || (!follows.has('rebuilt') && round < 100); round++) {
    await write(table, batchOf(rows.map(([id]): Row => [id, BigInt(round + 1), full(round)])));
    follows.add(table.lastFollow());
    // As a process that was thought dead does: it takes what it made for its own.
    // The index goes to disk, and its files are merged, beside the batches.
    await pause(15);
    if (round % 4 === 0)
      for (const name of readdirSync(indexDir).filter((file) => file.endsWith('.run')))
        rmSync(join(indexDir, name), { force: true });
    if (round % 4 === 3) await table.optimize();
    expect((await rowsOf(store)).map((row) => row['n'])).toEqual(rows.map(() => round));
  }
  expect(follows).toContain('rebuilt');
  for (const name of readdirSync(indexDir).filter((file) => file.endsWith('.run')))
    rmSync(join(indexDir, name), { force: true });
  await table.close();
});

describe('credentials that expire in mid-batch', () => {
  /** Refuses every call from the `left`-th on until renewed; `losesAnswer`: a put that is the last before is stored unheard. */
  function expiring(
    inner: ObjectStore,
    losesAnswer: boolean,
  ): { store: ObjectStore; expireAfter: (calls: number) => void } {
    let left = Infinity;
    const spent = (key: string): void => {
      if (--left < 0) throw new StoreError('STORE_ACCESS_DENIED', key, 'the token expired');
    };
    return {
      expireAfter: (calls) => (left = calls),
      store: {
        ...inner,
        get: async (key, range) => (spent(key), inner.get(key, range)),
        head: async (key) => (spent(key), inner.head(key)),
        list: (prefix, options) => (spent(prefix), inner.list(prefix, options)),
        put: async (key, body) => (spent(key), inner.put(key, body)),
        delete: async (keys) => (spent(keys[0] ?? ''), inner.delete(keys)),
        async putIfAbsent(key, body) {
          spent(key);
          const result = await inner.putIfAbsent(key, body);
          if (losesAnswer && left === 0) throw new StoreError('STORE_OUTCOME_UNKNOWN', key, 'no answer');
          return result;
        },
      },
    };
  }

  test.each([false, true])(
    'neither lose nor double it, whichever call they fail (last answer lost: %s)',
    async (loses) => {
      const codes = new Set<unknown>();
      let finished = false;
      for (let calls = 0; !finished; calls++) {
        const disk = createMemoryStore();
        const { store, expireAfter } = expiring(disk, loses);
        const table = await open(store);
        const commit = async (rows: readonly Row[], version: bigint): Promise<void> => {
          const prepared = await table.prepare(batchOf(rows));
          await table.commit(prepared, { txns: [{ appId: 'stream', version }], info: {}, timestampMs: 0 });
        };
        await commit(
          [1n, 2n, 3n].map((id) => [id, 1n, full(0)]),
          0n,
        );
        const second: readonly Row[] = [
          [1n, 2n, full(1)],
          [2n, 2n, 'delete'],
          [4n, 2n, full(4)],
        ];
        expireAfter(calls);
        finished = await commit(second, 1n).then(
          () => true,
          (error: unknown) => {
            codes.add((error as { code?: unknown }).code);
            return false;
          },
        );
        expireAfter(Infinity);
        // As a batch is tried again: unless its transaction is there already.
        if ((await table.txnVersion('stream')) !== 1n) await commit(second, 1n);
        await commit([[5n, 3n, full(5)]], 2n);
        expect(await valuesOf(disk, 'id', 'n')).toEqual([
          [1, 1],
          [3, 0],
          [4, 4],
          [5, 5],
        ]);
        expect((await openSnapshot(disk)).version).toBe(3n);
        await table.close();
      }
      expect(codes).toEqual(
        new Set(loses ? ['STORE_ACCESS_DENIED', 'COMMIT_OUTCOME_UNKNOWN'] : ['STORE_ACCESS_DENIED']),
      );
    },
  );
});

test('the failpoints come in the order of the path, and a stop after the commit leaves it whole', async () => {
  const store = createMemoryStore();
  const seen: MergeFailpoint[] = [];
  const table = await open(store, {
    checkpointEvery: 1,
    failpoint: (name) => {
      seen.push(name);
      if (name === 'after-table-commit' && seen.length > 4) throw new Error('stop');
    },
  });
  await write(table, batchOf([[1n, 1n, full(1)]]));
  await table.settled();
  expect(seen).toEqual(['after-data-files', 'before-table-commit', 'after-table-commit', 'during-checkpoint']);
  const version = nextTxn;
  await expect(write(table, batchOf([[2n, 2n, full(2)]]))).rejects.toThrow('stop');
  expect(await table.txnVersion('stream')).toBe(version);
  expect((await rowsOf(store)).length).toBe(2);
});

test('a batch without effect and without transactions makes no commit', async () => {
  const store = createMemoryStore();
  const table = await open(store);
  await write(table, batchOf([[1n, 5n, full(1)]]));
  const done = await table.commit(await table.prepare(batchOf([[1n, 5n, full(1)]])), {
    txns: [],
    info: {},
    timestampMs: 0,
  });
  expect(done.version).toBe(null);
  expect(done.rows.stale).toBe(1);
});
