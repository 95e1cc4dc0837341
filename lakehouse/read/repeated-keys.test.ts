import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { buildColumn } from '../table/column-build.ts';
import { createTable } from '../table/create.ts';
import type { StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { appendBatch } from '../write/append-batch.ts';
import { checkKeys } from './repeated-keys.ts';

const SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: 'a', type: 'long', nullable: true, metadata: {} },
    { name: 'b', type: 'string', nullable: true, metadata: {} },
  ],
};

async function tableOf(...files: readonly (readonly (readonly [bigint | null, string | null])[])[]): Promise<Snapshot> {
  let snapshot = await createTable(createMemoryStore(), { schema: SCHEMA });
  for (const rows of files) {
    const columns = [
      buildColumn('long', rows.length, (row) => rows[row]?.[0]),
      buildColumn('string', rows.length, (row) => rows[row]?.[1]),
    ];
    ({ snapshot } = await appendBatch(snapshot, { rowCount: rows.length, names: ['a', 'b'], columns }));
  }
  return snapshot;
}

describe('keys of a table', () => {
  it('are told from columns that repeat, also over files, and from NULL', async () => {
    const table = await tableOf(
      [
        [1n, 'x'],
        [2n, 'x'],
        [null, 'y'],
      ],
      [
        [1n, 'y'],
        [1n, 'x'],
        [null, null],
      ],
    );
    expect(await checkKeys(table, ['a', 'b'])).toEqual({ rows: 6, nullRows: 2, repeatedKeys: 1 });
    expect(await checkKeys(table, ['a'])).toEqual({ rows: 6, nullRows: 2, repeatedKeys: 1 });
    expect(await checkKeys(table, ['b'])).toEqual({ rows: 6, nullRows: 1, repeatedKeys: 2 });
  });

  it.each([3, 7, 64, 1000])('are found whatever fits into memory: %d hashes', async (hashesMax) => {
    const rows = Array.from({ length: 300 }, (_, i): [bigint, string] => [BigInt(i), 'v']);
    const table = await tableOf(rows, [
      [17n, 'again'],
      [17n, 'and again'],
      [250n, 'again'],
    ]);
    expect(await checkKeys(table, ['a'], { hashesMax })).toEqual({ rows: 303, nullRows: 0, repeatedKeys: 2 });
    expect(await checkKeys(await tableOf(rows), ['a'], { hashesMax })).toMatchObject({ repeatedKeys: 0 });
  });
});
