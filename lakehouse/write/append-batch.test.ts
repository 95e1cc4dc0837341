import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS } from '../table/actions.ts';
import { buildColumn } from '../table/column-build.ts';
import type { ColumnBatch } from '../table/column.ts';
import { commitTo } from '../table/commit.ts';
import { createTable } from '../table/create.ts';
import type { StructType } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { parseStats } from '../table/stats-read.ts';
import { changeTable } from '../upkeep/change-table.ts';
import { appendBatch } from './append-batch.ts';

const SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: 'id', type: 'long', nullable: false, metadata: {} },
    { name: 'p', type: 'string', nullable: true, metadata: {} },
  ],
};

function rows(...values: readonly (readonly [bigint | null, string | null])[]): ColumnBatch {
  return {
    rowCount: values.length,
    names: ['id', 'p'],
    columns: [
      buildColumn('long', values.length, (row) => values[row]?.[0]),
      buildColumn('string', values.length, (row) => values[row]?.[1]),
    ],
  };
}

describe('appendBatch', () => {
  it('writes a file a partition, with statistics', async () => {
    const table = await createTable(createMemoryStore(), { schema: SCHEMA, partitionColumns: ['p'] });
    const { snapshot } = await appendBatch(table, rows([1n, 'a'], [2n, null], [3n, 'a']));
    const rowsIn = (p: string | null): unknown[] =>
      [...snapshot.files]
        .filter((file) => file.partitionValues['p'] === p)
        .map((file) => parseStats(file.stats)?.rowCount);
    expect([rowsIn('a'), rowsIn(null), snapshot.files.count]).toEqual([[2n], [1n], 2]);
  });

  it('applies a batch of one number once, whatever became of the first answer', async () => {
    const disk = createMemoryStore();
    const table = await createTable(disk, { schema: SCHEMA });
    let lost = 0;
    const store: ObjectStore = {
      ...disk,
      putIfAbsent: async (key, body) => {
        await disk.putIfAbsent(key, body);
        lost++;
        throw new StoreError('STORE_OUTCOME_UNKNOWN', key, 'the answer was lost');
      },
    };
    const txn = { appId: 'q', version: 3n };
    expect((await appendBatch({ ...table, store }, rows([1n, 'a']), { txn })).version).toBe(1n);
    expect(lost).toBe(1);
    expect((await appendBatch(table, rows([1n, 'a']), { txn })).version).toBeNull();
    expect((await openSnapshot(disk)).files.count).toBe(1);
    expect((await appendBatch(await openSnapshot(disk), rows(), {})).version).toBeNull();
  });

  it('refuses a NULL where none may be, other columns, and a schema that changed meanwhile', async () => {
    const table = await createTable(createMemoryStore(), { schema: SCHEMA });
    await expect(appendBatch(table, rows([null, 'a']))).rejects.toMatchObject({ code: 'SCHEMA_INVALID' });
    await expect(appendBatch(table, { ...rows([1n, 'a']), names: ['p', 'id'] })).rejects.toMatchObject({
      code: 'SCHEMA_INVALID',
    });
    await changeTable(table, { kind: 'add-column', name: 'x', type: 'long' });
    await expect(appendBatch(table, rows([1n, 'a']))).rejects.toMatchObject({ code: 'COMMIT_CONFLICT' });
    expect((await openSnapshot(table.store)).files.count).toBe(0);
  });

  it('refuses a batch that was written for other partitions than the table has by now', async () => {
    const table = await createTable(createMemoryStore(), { schema: SCHEMA });
    const metadata = { ...table.metadata, partitionColumns: ['p'] };
    const replaced = { operation: { name: 'REPLACE TABLE' }, actions: { ...NO_ACTIONS, metadata } };
    await commitTo(table, replaced, async () => null);
    await expect(appendBatch(table, rows([1n, 'a']))).rejects.toMatchObject({ code: 'COMMIT_CONFLICT' });
  });
});
