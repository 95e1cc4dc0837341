import { describe, expect, it } from 'vitest';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import { encodeParquet } from '../parquet/encode.ts';
import { createMemoryStore } from '../store/memory-store.ts';
import { commitKey } from '../table/log-files.ts';
import { createTable } from '../table/create.ts';
import type { DeltaType, StructField } from '../table/schema.ts';
import { openSnapshot } from '../table/snapshot.ts';
import { appendBatch } from '../write/append-batch.ts';
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

const field = (name: string, type: DeltaType): StructField => ({ name, type, nullable: true, metadata: {} });

/** Rows of a query over one table `t` of these files. */
async function rowsOf(fields: readonly StructField[], files: readonly Uint8Array[]): Promise<unknown[]> {
  const store = createMemoryStore();
  const adds = files.map((bytes, at) => ({
    add: { path: `${at}.parquet`, partitionValues: {}, size: bytes.length, modificationTime: 0, dataChange: true },
  }));
  for (const [at, bytes] of files.entries()) await store.put(`${at}.parquet`, bytes);
  const metaData = {
    id: 'x',
    format: { provider: 'parquet', options: {} },
    schemaString: JSON.stringify({ type: 'struct', fields }),
    partitionColumns: [],
    configuration: {},
  };
  const actions = [{ protocol: { minReaderVersion: 1, minWriterVersion: 2 } }, { metaData }, ...adds];
  const log = actions.map((action) => `${JSON.stringify(action)}\n`).join('');
  await store.put(commitKey(0n), new TextEncoder().encode(log));
  const found: unknown[] = [];
  await runSql('SELECT * FROM t ORDER BY ALL', { resolve: () => openSnapshot(store) }, async ({ rows }) => {
    for await (const chunk of (await rows()).rows) found.push(...chunk);
  });
  return found;
}

function fileOf(type: DeltaType, cells: readonly Cell[]): Promise<Uint8Array> {
  const schema = { type: 'struct' as const, fields: [field('v', type)] };
  return encodeParquet(schema, { rowCount: cells.length, names: ['v'], columns: [columnFrom(type, cells)] });
}

describe('files that DuckDB does not decode', () => {
  it('are read all the same: integers split by byte', async () => {
    const rows = await rowsOf([field('n', 'integer'), field('d', 'long')], [SPLIT_INTEGERS]);
    expect(rows).toEqual([
      [-2, '1'],
      [1, null],
      [2_147_483_647, '2'],
    ]);
  });
});

describe('files of another type than the table', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

  it('give the text that their bytes are, also beside files that mark it', async () => {
    const files = [await fileOf('binary', [bytes('é\u{1F600}')]), await fileOf('string', ['x'])];
    expect(await rowsOf([field('v', 'string')], files)).toEqual([['x'], ['é\u{1F600}']]);
    const list = (elementType: DeltaType): DeltaType => ({ type: 'array', elementType, containsNull: true });
    const nested = await rowsOf([field('v', list('string'))], [await fileOf(list('binary'), [[bytes('é')]])]);
    expect(nested).toEqual([[['é']]]);
  });

  it.each([
    ['decimal(5,3)', 'decimal(20,1)', 1555n],
    ['double', 'long', 1.5],
    ['double', 'float', 0.1],
    ['timestamp_ntz', 'date', 1n],
  ] as const)('are refused where a cast would round: %s as %s', async (stored, type, cell) => {
    await expect(rowsOf([field('v', type)], [await fileOf(stored, [cell])])).rejects.toMatchObject({
      code: 'DATA_FILE_CORRUPT',
    });
  });
});

it('names mean what the query says: columns renamed by position, and WITH queries', async () => {
  const schema = { type: 'struct' as const, fields: [field('a', 'long'), field('b', 'long')] };
  const table = await createTable(createMemoryStore(), { schema });
  const columns = [columnFrom('long', [1n]), columnFrom('long', [9n])];
  const { snapshot } = await appendBatch(table, { rowCount: 1, names: ['a', 'b'], columns });
  const count = (query: string): Promise<unknown> =>
    runSql(query, { resolve: () => Promise.resolve(snapshot) }, async ({ rows }) => {
      for await (const [row] of (await rows()).rows) return row?.[0];
      return null;
    });
  expect(await count('SELECT count(*) FROM t x(b, a) WHERE a > 5')).toBe('1');
  expect(await count('SELECT count(*) FROM t x(b, a) WHERE x.a > 5')).toBe('1');
  expect(await count('SELECT count(*) FROM t WHERE a > 5')).toBe('0');
  expect(await count('WITH t AS (SELECT b AS a FROM t) SELECT count(*) FROM t WHERE a > 5')).toBe('1');
  expect(await count('WITH u AS (FROM t), v AS (FROM u) SELECT count(*) FROM v JOIN u USING (a)')).toBe('1');
  const recursive = 'WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT count(*) FROM t';
  expect(await count(recursive)).toBe('5');
});
