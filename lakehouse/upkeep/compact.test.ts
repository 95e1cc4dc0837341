import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { columnFrom } from '../../test/support/column-from.ts';
import { canonicalRows } from '../../test/support/canonical-rows.ts';
import type { MergeBatch } from '../merge/merge.ts';
import { openMergeTable, type OwnedMergeTable } from '../merge/merge-writer.ts';
import { scan } from '../read/scan.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { newAdd, type AddFile } from '../table/actions.ts';
import { readCommit } from '../table/log-reader.ts';
import { FileSetEdit } from '../table/file-set.ts';
import { openSnapshot, type Snapshot } from '../table/snapshot.ts';
import { AUTO_COMPACT_RULES, autoCompaction, planBins } from './compact-plan.ts';
import { compactTable } from './compact.ts';
import { orderRows } from './row-order.ts';

const root = mkdtempSync(join(tmpdir(), 'sluice-compact-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

function batchOf(ids: readonly number[], lsn: bigint): MergeBatch {
  const field = (name: string, type: 'long' | 'string') => ({ name, type, nullable: true, metadata: {} });
  return {
    rowCount: ids.length,
    schema: { type: 'struct', fields: [field('id', 'long'), field('v', 'string')] },
    columns: [
      columnFrom('long', ids.map(BigInt)),
      columnFrom(
        'string',
        ids.map((id) => `${id} at ${lsn}`),
      ),
    ],
    keyColumns: ['id'],
    ops: new Uint8Array(ids.length),
    absent: [null, null],
    epoch: new Int32Array(ids.length).fill(1),
    lsn: new BigUint64Array(ids.length).fill(lsn),
    ord: new Int32Array(ids.length),
    truncate: null,
  };
}
async function write(table: OwnedMergeTable, ids: readonly number[], lsn: bigint): Promise<void> {
  const prepared = await table.prepare(batchOf(ids, lsn));
  await table.commit(prepared, { txns: [{ appId: 'a', version: lsn }], info: {}, timestampMs: 0 });
}
const open = (store: ObjectStore): Promise<OwnedMergeTable> =>
  openMergeTable({ store, indexDir: join(root, String(++folders)), autoCompact: null });
async function idsOf(store: ObjectStore): Promise<number[]> {
  const snapshot = await openSnapshot(store);
  const rows = await canonicalRows(snapshot.schema, scan(snapshot));
  return rows.map((row) => (JSON.parse(row) as { id: number }).id).sort((a, b) => a - b);
}

describe('a compaction', () => {
  test('joins files, purges vectors, and points the index to the new places', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    for (let i = 0; i < 6; i++) await write(table, [i, i + 10, i + 20], BigInt(i + 1));
    await write(table, [0, 11, 22], 10n);
    const done = await table.optimize();
    expect(done).toMatchObject({ filesRemoved: 7, filesAdded: 1, rowsPurged: 3, binsLost: 0 });
    const commit = await readCommit(store, done.version!);
    expect(commit!.adds.every((file) => !file.dataChange && file.deletionVector === null)).toBe(true);
    expect(commit!.removes.every((file) => !file.dataChange)).toBe(true);
    await write(table, [0, 5, 99], 20n);
    expect(table.lastFollow()).toBe('current');
    expect(await idsOf(store)).toEqual([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 99]);
    await table.close();
  });
  test('commits bin by bin where one commit would hold too much, and the index follows each', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    for (let i = 0; i < 6; i++) await write(table, [i, i + 10, i + 20], BigInt(i + 1));
    const before = (await openSnapshot(store)).version;
    const [file] = (await openSnapshot(store)).files;
    const plan = { targetBytes: Number(file!.size) * 2.5 };
    const done = await table.optimize({ plan, groupBytesMax: 1 });
    expect(done).toMatchObject({ filesRemoved: 6, filesAdded: 3, binsLost: 0 });
    expect(done.version).toBe(before + 3n);
    await write(table, [0, 5, 99], 20n);
    expect(table.lastFollow()).toBe('current');
    expect(await idsOf(store)).toEqual([0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 99]);
    await table.close();
  });
  test('has nothing to do on a table that is in order', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, [1, 2], 1n);
    expect(await table.optimize()).toMatchObject({ version: null, filesRemoved: 0 });
    await table.close();
  });
  test.each([0, Infinity])(
    'goes on beside batches, whose keys the index still finds (apartBytes: %s)',
    { timeout: 60_000 },
    async (apartBytes) => {
      const store = createMemoryStore();
      const table = await open(store);
      const many = Array.from({ length: 3_000 }, (_, id) => id);
      for (let i = 0; i < 5; i++) await write(table, many.slice(i * 600, (i + 1) * 600), BigInt(i + 1));
      const compacting = table.optimize({ apartBytes });
      let lsn = 10n;
      let racing = true;
      void compacting.finally(() => (racing = false));
      // Rows of files that are being rewritten: marked in the new ones, and found again by the next batch.
      while (racing) {
        await write(
          table,
          many.filter((id) => id % 7 === Number(lsn % 6n)),
          ++lsn,
        );
        // A store in memory answers at once: messages of the other thread would never get a turn.
        await setImmediate();
      }
      expect(await compacting).toMatchObject({ binsLost: 0 });
      await write(table, many, ++lsn);
      expect(table.lastFollow()).toBe('current');
      expect(await idsOf(store)).toEqual(many);
      await table.close();
    },
  );
  test('that is stopped in its thread leaves the table as it was', { timeout: 60_000 }, async () => {
    const memory = createMemoryStore();
    const stop = new AbortController();
    let armed = false;
    const store: ObjectStore = {
      ...memory,
      async get(key, range) {
        if (armed && key.endsWith('.parquet')) stop.abort(new Error('enough'));
        return memory.get(key, range);
      },
    };
    const table = await open(store);
    for (let i = 0; i < 4; i++) await write(table, [i], BigInt(i + 1));
    armed = true;
    await expect(table.optimize({ apartBytes: 0, signal: stop.signal })).rejects.toThrow('enough');
    armed = false;
    expect(await table.optimize({ apartBytes: 0 })).toMatchObject({ filesRemoved: 4 });
    expect(await idsOf(store)).toEqual([0, 1, 2, 3]);
    await table.close();
  });
  test('that lost to new vectors maps them onto its output', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, [1, 2, 3], 1n);
    await write(table, [4, 5, 6], 2n);
    const stale = await openSnapshot(store);
    // The compaction reads the table as it was; the update comes before its commit.
    await write(table, [2, 6], 3n);
    const done = await compactTable(stale, { order: { kind: 'sort', columns: ['v'] } });
    expect(done).toMatchObject({ filesRemoved: 2, binsLost: 0 });
    const commit = await readCommit(store, done.version!);
    expect(commit!.adds[0]!.deletionVector?.cardinality).toBe(2n);
    expect(await idsOf(store)).toEqual([1, 2, 3, 4, 5, 6]);
    await table.close();
  });
  test('leaves out a bin of which another writer removed a file', async () => {
    const store = createMemoryStore();
    const table = await open(store);
    await write(table, [1], 1n);
    await write(table, [2], 2n);
    const stale = await openSnapshot(store);
    await write(table, [1], 3n);
    expect(await compactTable(stale)).toMatchObject({ version: null, binsLost: 1 });
    expect(await idsOf(store)).toEqual([1, 2]);
    await table.close();
  });
});

function tableOf(files: readonly { bytes: number; rows: number; deleted?: number; part?: string }[]): Snapshot {
  const edit = new FileSetEdit(new Map(), new Map(), 0, 0n);
  files.forEach(({ bytes, rows, deleted, part }, i) =>
    edit.add(
      newAdd({
        path: `f${i}`,
        partitionValues: part === undefined ? {} : { part },
        size: BigInt(bytes),
        modificationTime: 0n,
        dataChange: true,
        stats: `{"numRecords":${rows}}`,
        ...(deleted === undefined
          ? {}
          : {
              deletionVector: {
                storageType: 'u',
                pathOrInlineDv: `v${i}`,
                offset: 1,
                sizeInBytes: 1,
                cardinality: BigInt(deleted),
              },
            }),
      }),
    ),
  );
  return { files: edit.done() } as Snapshot;
}
const paths = (files: readonly AddFile[]): string[] => files.map((file) => file.path);

describe('the plan', () => {
  const rules = { targetBytes: 1000, filesMin: 2, deletedShareMax: 0.3, all: false };
  test('packs small files of one partition up to the target', () => {
    const table = tableOf([400, 400, 400, 900].map((bytes) => ({ bytes, rows: 1 })));
    expect(planBins(table, rules).map((bin) => paths(bin.files))).toEqual([['f0', 'f1']]);
    const parted = tableOf(['x', 'y', 'x', 'y'].map((part) => ({ bytes: 100, rows: 1, part })));
    expect(planBins(parted, rules).map((bin) => paths(bin.files))).toEqual([
      ['f0', 'f2'],
      ['f1', 'f3'],
    ]);
  });
  test('does not rewrite a large file for the sake of a few small ones', () => {
    const table = tableOf([600, 1, 1, 1].map((bytes) => ({ bytes, rows: 1 })));
    expect(planBins(table, rules).map((bin) => paths(bin.files))).toEqual([['f1', 'f2', 'f3']]);
  });
  test('rewrites a worn file even alone', () => {
    const table = tableOf([
      { bytes: 900, rows: 10, deleted: 4 },
      { bytes: 900, rows: 10, deleted: 3 },
    ]);
    expect(planBins(table, rules).map((bin) => paths(bin.files))).toEqual([['f0']]);
  });
  test('by itself waits for many small files, a worn file, or a worn table', () => {
    const large = 64 * 1024 * 1024;
    expect(autoCompaction(tableOf([{ bytes: large, rows: 100, deleted: 20 }]), AUTO_COMPACT_RULES)).toBe(null);
    expect(autoCompaction(tableOf([{ bytes: large, rows: 100, deleted: 31 }]), AUTO_COMPACT_RULES)).not.toBe(null);
    expect(autoCompaction(tableOf([{ bytes: large, rows: 100, deleted: 26 }]), AUTO_COMPACT_RULES)).not.toBe(null);
    const small = (count: number): Snapshot => tableOf(Array.from({ length: count }, () => ({ bytes: 10, rows: 1 })));
    expect(autoCompaction(small(32), AUTO_COMPACT_RULES)).toBe(null);
    expect(autoCompaction(small(33), AUTO_COMPACT_RULES)).not.toBe(null);
  });
});

describe('orders', () => {
  const batch = {
    rowCount: 5,
    names: ['a', 'b'],
    columns: [columnFrom('integer', [3, null, 1, 3, 2]), columnFrom('string', ['x', 'y', 'é', 'a', ''])],
  };
  test('sort by columns, NULLs first', () => {
    expect([...orderRows(batch, { kind: 'sort', columns: ['a', 'b'] })]).toEqual([1, 2, 4, 3, 0]);
    expect([...orderRows(batch, { kind: 'sort', columns: ['b'] })]).toEqual([4, 3, 0, 1, 2]);
  });
  test('Z-order keeps neighbours in both columns together', () => {
    const side = 16;
    const cells = Array.from({ length: side * side }, (_, i) => i);
    const grid = {
      rowCount: cells.length,
      names: ['x', 'y'],
      columns: [
        columnFrom(
          'integer',
          cells.map((i) => i % side),
        ),
        columnFrom(
          'integer',
          cells.map((i) => Math.floor(i / side)),
        ),
      ],
    };
    const order = orderRows(grid, { kind: 'z-order', columns: ['x', 'y'] });
    // A quarter of the rows covers a quarter of the square, not a strip of it.
    const first = [...order.subarray(0, cells.length / 4)];
    expect(Math.max(...first.map((i) => i % side))).toBe(side / 2 - 1);
    expect(Math.max(...first.map((i) => Math.floor(i / side)))).toBe(side / 2 - 1);
  });
  test('an unknown column is refused', () => {
    expect(() => orderRows(batch, { kind: 'sort', columns: ['c'] })).toThrow(/no column c/);
  });
});
