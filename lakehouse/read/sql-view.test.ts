import { describe, expect, it } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import { commitKey } from '../table/log-files.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { runSql } from './sql.ts';

/** Written by pyarrow 22: `n` int32 (1, -2, 2147483647) and `d` int64 (NULL, 1, 2), both BYTE_STREAM_SPLIT. */
const SPLIT_INTEGERS = Buffer.from(
  [
    'UEFSMRUAFSQVJCwVBhUSFQYVBhwAAAACAAAABgEB/v8A//8A//8A/38VABUsFSwsFQYVEhUGFQYcAAAAAgAAAAMGAQIAAAAAAAAAAAAAAAAAAB',
    'UEGTw1ABgGc2NoZW1hFQQAFQIlAhgBbgAVBCUCGAFkABYGGRwZLCYAHBUCGSUGEhkYAW4VABYGFkoWSiYISRwVABUSFQIAPCkGGSYABgAAACYA',
    'HBUEGSUGEhkYAWQVABYGFlIWUiZSSRwVABUSFQIAPCkGGSYCBAAAABacARYGJggWnAEAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDIyLj',
    'AuMBksHAAAHAAAALEAAABQQVIx',
  ].join(''),
  'base64',
);

const field = (name: string, type: string): object => ({ name, type, nullable: true, metadata: {} });

describe('files that DuckDB does not decode', () => {
  it('are read all the same: integers split by byte', async () => {
    const store = createMemoryStore();
    await store.put('a.parquet', SPLIT_INTEGERS);
    const actions = [
      { protocol: { minReaderVersion: 1, minWriterVersion: 2 } },
      {
        metaData: {
          id: 'x',
          format: { provider: 'parquet', options: {} },
          schemaString: JSON.stringify({ type: 'struct', fields: [field('n', 'integer'), field('d', 'long')] }),
          partitionColumns: [],
          configuration: {},
        },
      },
      {
        add: {
          path: 'a.parquet',
          partitionValues: {},
          size: SPLIT_INTEGERS.length,
          modificationTime: 0,
          dataChange: true,
        },
      },
    ];
    const log = actions.map((action) => `${JSON.stringify(action)}\n`).join('');
    await store.put(commitKey(0n), new TextEncoder().encode(log));
    const found: unknown[] = [];
    await runSql('SELECT * FROM t ORDER BY n', { resolve: () => openSnapshot(store) }, async ({ rows }) => {
      for await (const chunk of (await rows()).rows) found.push(...chunk);
    });
    expect(found).toEqual([
      [-2, '1'],
      [1, null],
      [2_147_483_647, '2'],
    ]);
  });
});
