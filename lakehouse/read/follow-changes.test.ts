import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { NO_ACTIONS, removeOf } from '../table/actions.ts';
import { buildColumn } from '../table/column-build.ts';
import { commitTo } from '../table/commit.ts';
import { createTable } from '../table/create.ts';
import type { StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { appendBatch } from '../write/append-batch.ts';
import { changesSchema, readChanges } from './changes.ts';
import { followChanges } from './follow-changes.ts';
import { jsonRow } from './json-value.ts';

const SCHEMA: StructType = {
  type: 'struct',
  fields: [{ name: 'id', type: 'long', nullable: true, metadata: {} }],
};

async function append(table: Snapshot, id: bigint): Promise<Snapshot> {
  const batch = { rowCount: 1, names: ['id'], columns: [buildColumn('long', 1, () => id)] };
  return (await appendBatch(table, batch)).snapshot;
}

describe('a change feed that is followed', () => {
  it('tells each version once, waits for the next, goes on from a version, and ends with the signal', async () => {
    const store = createMemoryStore();
    let table = await createTable(store, { schema: SCHEMA, changeDataFeed: true });
    table = await append(table, 9007199254740993n);
    const stop = new AbortController();
    let pauses = 0;
    const pause = async (): Promise<void> => {
      pauses++;
      if (pauses > 3) stop.abort();
      else table = await append(table, BigInt(pauses));
    };
    const rows: string[] = [];
    for await (const { schema, batch } of followChanges(store, { from: 1n, pause, signal: stop.signal })) {
      for (let row = 0; row < batch.rowCount; row++) rows.push(jsonRow(schema, batch, row));
    }
    expect(rows.map((row) => /"id":(\d+),.*"_commit_version":(\d+)/.exec(row)?.slice(1).join(' at '))).toEqual([
      '9007199254740993 at 1',
      '1 at 2',
      '2 at 3',
      '3 at 4',
    ]);

    const later: string[] = [];
    const end = new AbortController();
    const last = async (): Promise<void> => end.abort();
    for await (const { schema, batch } of followChanges(store, { from: 4n, pause: last, signal: end.signal }))
      later.push(jsonRow(schema, batch, 0));
    expect(later).toEqual(rows.slice(3));
  });

  it('tells the partition of rows that went, also where the remove does not', async () => {
    const store = createMemoryStore();
    const schema: StructType = {
      type: 'struct',
      fields: [...SCHEMA.fields, { name: 'p', type: 'string', nullable: true, metadata: {} }],
    };
    const created = await createTable(store, { schema, partitionColumns: ['p'], changeDataFeed: true });
    const columns = [buildColumn('long', 1, () => 7n), buildColumn('string', 1, () => 'north')];
    const { snapshot } = await appendBatch(created, { rowCount: 1, names: ['id', 'p'], columns });
    const removes = [...snapshot.files].map((file) => ({ ...removeOf(file, 1, true), partitionValues: null }));
    const removed = { operation: { name: 'DELETE' }, actions: { ...NO_ACTIONS, removes } };
    const { snapshot: last } = await commitTo(snapshot, removed, async () => null);
    const rows: string[] = [];
    for await (const batch of readChanges(store, { from: 2n })) rows.push(jsonRow(changesSchema(last), batch, 0));
    expect(rows).toHaveLength(1);
    expect(rows[0]).toContain('"id":7,"p":"north","_change_type":"delete"');
  });
});
