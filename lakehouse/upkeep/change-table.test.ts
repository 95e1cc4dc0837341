import { describe, expect, it } from 'vitest';
import { encodeParquet } from '../parquet/encode.ts';
import { scan } from '../read/scan.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import { NO_ACTIONS, newAdd, removeOf } from '../table/actions.ts';
import { buildColumn } from '../table/column-build.ts';
import type { ColumnVector } from '../table/column.ts';
import { commitTo } from '../table/commit.ts';
import { createTable } from '../table/create.ts';
import { encodeDeletionVectors } from '../table/deletion-vector.ts';
import type { StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { collectStats } from '../table/stats.ts';
import { changeTable } from './change-table.ts';
import { isWider, widenColumn } from './widen-column.ts';

const SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: 'id', type: 'integer', nullable: false, metadata: { source: 'int4' } },
    { name: 'name', type: 'string', nullable: true, metadata: {} },
  ],
};

async function table(): Promise<Snapshot> {
  const store = createMemoryStore();
  const snapshot = await createTable(store, { schema: SCHEMA, properties: { 'my.key': 'kept' } });
  return addFile(snapshot, [1, 2, 3]);
}

async function addFile(snapshot: Snapshot, ids: readonly number[]): Promise<Snapshot> {
  const batch = {
    rowCount: ids.length,
    names: ['id', 'name'],
    columns: [
      buildColumn('integer', ids.length, (row) => ids[row]),
      buildColumn('string', ids.length, (row) => `n${ids[row]}`),
    ],
  };
  const body = await encodeParquet(SCHEMA, batch);
  const path = `part-${snapshot.version}.parquet`;
  await snapshot.store.put(path, body);
  const add = newAdd({
    path,
    partitionValues: {},
    size: BigInt(body.length),
    modificationTime: 0n,
    dataChange: true,
    stats: collectStats(SCHEMA, batch),
  });
  return (
    await commitTo(
      snapshot,
      { operation: { name: 'WRITE' }, actions: { ...NO_ACTIONS, adds: [add] } },
      async () => null,
    )
  ).snapshot;
}

function value(column: ColumnVector, row: number): unknown {
  if (column.validity !== null && ((column.validity[row >> 3] ?? 0) & (1 << (row & 7))) === 0) return null;
  if (column.kind === 'utf8')
    return Buffer.from(column.data).toString('utf8', column.offsets[row], column.offsets[row + 1]);
  return column.kind === 'int32' || column.kind === 'int64' ? column.values[row] : undefined;
}

async function rows(snapshot: Snapshot): Promise<unknown[][]> {
  const found: unknown[][] = [];
  for await (const batch of scan(snapshot)) {
    for (let row = 0; row < batch.rowCount; row++) found.push(batch.columns.map((column) => value(column, row)));
  }
  return found;
}

const names = (snapshot: Snapshot): string[] => snapshot.schema.fields.map(({ name }) => name);

describe('changes of a table', () => {
  it('add a column that old rows have as NULL; old versions stay as they were', async () => {
    const before = await table();
    const done = await changeTable(before, { kind: 'add-column', name: 'at', type: 'timestamp_ntz', comment: 'when' });
    expect(await rows(done.snapshot)).toEqual([
      [1, 'n1', null],
      [2, 'n2', null],
      [3, 'n3', null],
    ]);
    expect(done.snapshot.protocol.readerFeatures).toEqual(['deletionVectors', 'timestampNtz']);
    expect(done.snapshot.schema.fields[2]?.metadata).toEqual({ comment: 'when' });
    expect(done.snapshot.metadata.configuration['my.key']).toBe('kept');
    expect(done.snapshot.schema.fields[0]?.metadata).toEqual({ source: 'int4' });
    expect(names(await openSnapshot(before.store, { version: before.version }))).toEqual(['id', 'name']);
    await expect(changeTable(done.snapshot, { kind: 'add-column', name: 'AT', type: 'long' })).rejects.toMatchObject({
      code: 'SCHEMA_INVALID',
    });
  });

  it('rename and drop under column mapping only', async () => {
    const plain = await table();
    await expect(changeTable(plain, { kind: 'rename-column', from: 'name', to: 'title' })).rejects.toMatchObject({
      code: 'UPKEEP_REFUSED',
    });
    await expect(changeTable(plain, { kind: 'drop-column', name: 'name' })).rejects.toMatchObject({
      code: 'UPKEEP_REFUSED',
    });
    const mapped = (await changeTable(plain, { kind: 'column-mapping' })).snapshot;
    expect(mapped.protocol.readerFeatures).toContain('columnMapping');
    expect(mapped.protocol.writerFeatures).toContain('columnMapping');
    expect(mapped.metadata.configuration).toMatchObject({
      'delta.columnMapping.mode': 'name',
      'delta.columnMapping.maxColumnId': '2',
    });
    expect(await rows(mapped)).toEqual(await rows(plain));
    const renamed = (await changeTable(mapped, { kind: 'rename-column', from: 'name', to: 'the title' })).snapshot;
    expect(names(renamed)).toEqual(['id', 'the title']);
    expect(await rows(renamed)).toEqual(await rows(plain));
    const dropped = (await changeTable(renamed, { kind: 'drop-column', name: 'the title' })).snapshot;
    expect(await rows(dropped)).toEqual([[1], [2], [3]]);
    // The name is free again, and brings no old value back.
    const again = (await changeTable(dropped, { kind: 'add-column', name: 'name', type: 'string' })).snapshot;
    expect(await rows(again)).toEqual([
      [1, null],
      [2, null],
      [3, null],
    ]);
    expect(again.metadata.configuration['delta.columnMapping.maxColumnId']).toBe('3');
  });

  it('set nullability, comments and properties, and refuse what could not be honoured', async () => {
    const start = await table();
    const nullable = (await changeTable(start, { kind: 'drop-not-null', name: 'id' })).snapshot;
    expect(nullable.schema.fields[0]?.nullable).toBe(true);
    const told = (await changeTable(nullable, { kind: 'comment', column: null, text: 'orders' })).snapshot;
    expect(
      (await changeTable(told, { kind: 'comment', column: 'id', text: 'key' })).snapshot.schema.fields[0]?.metadata,
    ).toEqual({ source: 'int4', comment: 'key' });
    expect(told.metadata.description).toBe('orders');
    expect((await changeTable(told, { kind: 'comment', column: null, text: 'orders' })).version).toBeNull();
    const set = (
      await changeTable(told, { kind: 'properties', set: { 'delta.enableInCommitTimestamps': 'true', 'my.key': null } })
    ).snapshot;
    expect(set.protocol.writerFeatures).toContain('inCommitTimestamp');
    expect(set.inCommitTimestampMs).toBe(
      Number(set.metadata.configuration['delta.inCommitTimestampEnablementTimestamp']),
    );
    expect(set.metadata.configuration['delta.inCommitTimestampEnablementVersion']).toBe(String(set.version));
    expect(set.metadata.configuration['my.key']).toBeUndefined();
    for (const bad of [
      { 'delta.columnMapping.mode': 'id' },
      { 'delta.constraints.x': 'id > 0' },
      { 'delta.appendOnly': 'yes' },
      { 'delta.setTransactionRetentionDuration': 'interval 1 day' },
      { 'delta.unheardOf': '1' },
    ]) {
      await expect(changeTable(set, { kind: 'properties', set: bad })).rejects.toMatchObject({
        code: 'UPKEEP_REFUSED',
      });
    }
  });

  it('are made again on top of a winner', async () => {
    const start = await table();
    await changeTable(start, { kind: 'add-column', name: 'a', type: 'long' });
    const late = await changeTable(start, { kind: 'add-column', name: 'b', type: 'long' });
    expect(late.conflicts).toBe(1);
    expect(names(late.snapshot)).toEqual(['id', 'name', 'a', 'b']);
  });
});

describe('a wider type', () => {
  it.each([
    ['byte', 'short', true],
    ['integer', 'long', true],
    ['long', 'integer', false],
    ['float', 'double', true],
    ['decimal(5,2)', 'decimal(10,4)', true],
    ['decimal(5,2)', 'decimal(5,3)', false],
    ['decimal(10,2)', 'decimal(38,10)', true],
    ['decimal(5,2)', 'decimal(5,2)', false],
    ['string', 'long', false],
  ] as const)('%s to %s: %s', (from, to, wider) => {
    expect(isWider(from, to)).toBe(wider);
  });

  it('is given by rewriting the files, live rows only', async () => {
    const start = await table();
    const [file] = [...start.files];
    if (file === undefined) throw new Error('no file');
    const written = encodeDeletionVectors([Uint32Array.from([1])], crypto.randomUUID());
    await start.store.put(written.key, written.bytes);
    const marked = { ...file, deletionVector: written.descriptors[0] ?? null };
    const thinned = (
      await commitTo(
        start,
        {
          operation: { name: 'DELETE' },
          actions: { ...NO_ACTIONS, removes: [removeOf(file, 1, true)], adds: [marked] },
        },
        async () => null,
      )
    ).snapshot;
    const racing = await addFile(thinned, [7]);
    const done = await widenColumn(thinned, 'id', 'long');
    expect(done.conflicts).toBe(1);
    expect(done.snapshot.schema.fields[0]).toMatchObject({
      name: 'id',
      type: 'long',
      nullable: false,
      metadata: { source: 'int4' },
    });
    const found = await rows(done.snapshot);
    expect(found.toSorted(([a], [b]) => Number(a) - Number(b))).toEqual([
      [1n, 'n1'],
      [3n, 'n3'],
      [7n, 'n7'],
    ]);
    expect(await rows(await openSnapshot(racing.store, { version: racing.version }))).toEqual(await rows(racing));
    expect((await widenColumn(done.snapshot, 'id', 'long')).version).toBeNull();
    await expect(widenColumn(done.snapshot, 'id', 'integer')).rejects.toMatchObject({ code: 'UPKEEP_REFUSED' });
  });
});
