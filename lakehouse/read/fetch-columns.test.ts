/** Queries over a table in a store that is no local disk: the same answers, and only the bytes they need. */
import { createHash } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { createMemoryStore } from '../store/memory-store.ts';
import type { ObjectStore } from '../store/store.ts';
import { buildColumn } from '../table/column-build.ts';
import { createTable } from '../table/create.ts';
import type { StructField } from '../table/schema.ts';
import { openSnapshot, type Snapshot } from '../table/snapshot.ts';
import { appendBatch } from '../write/append-batch.ts';
import { runSql } from './sql.ts';

const ROWS = 40_000;
const FILES = 3;
const FIELDS: readonly StructField[] = [
  { name: 'id', type: 'long', nullable: true, metadata: {} },
  { name: 'Part', type: 'string', nullable: true, metadata: {} },
  { name: 'body', type: 'string', nullable: true, metadata: {} },
  { name: 'day', type: 'date', nullable: true, metadata: {} },
];

let received = 0;
let dataReads = 0;
let table: Snapshot;

function counting(inner: ObjectStore): ObjectStore {
  return {
    ...inner,
    async get(key, range) {
      const bytes = await inner.get(key, range);
      if (!key.startsWith('_delta_log/')) {
        received += bytes.byteLength;
        dataReads++;
      }
      return bytes;
    },
  };
}

beforeAll(async () => {
  const store = createMemoryStore();
  let made = await createTable(store, { schema: { type: 'struct', fields: FIELDS } });
  const noise = (i: number): string => createHash('md5').update(String(i)).digest('base64');
  for (let file = 0; file < FILES; file++) {
    const columns = [
      buildColumn('long', ROWS, (i) => BigInt(file * ROWS + i)),
      buildColumn('string', ROWS, (i) => (i % 3 === 0 ? null : `p${i % 7}`)),
      buildColumn('string', ROWS, (i) => noise(file * ROWS + i)),
      { kind: 'int32', length: ROWS, validity: null, values: new Int32Array(ROWS).fill(19_000 + file) } as const,
    ];
    made = (await appendBatch(made, { rowCount: ROWS, names: FIELDS.map(({ name }) => name), columns })).snapshot;
  }
  table = await openSnapshot(counting(store));
});

async function ask(query: string): Promise<unknown> {
  received = 0;
  dataReads = 0;
  return runSql(query, { resolve: () => Promise.resolve(table) }, async (run) => {
    const rows: unknown[] = [];
    for await (const part of (await run.rows()).rows) rows.push(...part);
    return rows;
  });
}
const share = (): number => received / Number(table.files.sizeBytes);
const SUM = String((BigInt(ROWS * FILES) * BigInt(ROWS * FILES - 1)) / 2n);

test.each([
  ['a sum', 'SELECT sum(id) FROM t', [[SUM]], 0.3],
  ['a count alone', 'SELECT count(*) FROM t', [['120000']], 0.1],
  ['a filter on another column', `SELECT count(id) FROM t WHERE part = 'p1'`, [['11430']], 0.4],
  ['names in another case and a qualifier', 'SELECT min(x.ID), max("PART") FROM t AS x', [['0', 'p6']], 0.4],
  ['a nested query', 'SELECT max(a) FROM (SELECT id + 1 AS a FROM t)', [['120000']], 0.3],
  ['one file by its bounds', 'SELECT count(body) FROM t WHERE id >= 80000 AND id < 100000', [['20000']], 0.4],
  ['one file by a day', `SELECT count(body) FROM t WHERE day = DATE '2022-01-09'`, [['40000']], 0.4],
  ['a constant on the left', 'SELECT count(*) FROM t WHERE 119999 <= t.id', [['1']], 0.2],
  [
    'between',
    `SELECT count(*) FROM t WHERE day BETWEEN '2022-01-08' AND '2022-01-08' AND body IS NOT NULL`,
    [['40000']],
    0.4,
  ],
  ['a join of the table with itself', 'SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.id < 5', [['5']], 0.3],
])('%s fetches its columns only', async (_, query, rows, most) => {
  expect(await ask(query)).toEqual(rows);
  expect(share()).toBeLessThan(most);
});

test.each([
  ['all columns', `SELECT count(*) FROM (SELECT * FROM t WHERE body <> '')`, [['120000']]],
  ['the whole row by its table', 'SELECT count(t) FROM t', [['120000']]],
  ['columns by a pattern', `SELECT min(COLUMNS('i.')) FROM t`, [['0']]],
  ['columns by position', 'SELECT max(a) FROM t AS x(a, b)', [['119999']]],
  ['an either-or', `SELECT count(*) FROM t WHERE id < 5 OR body IS NULL`, [['5']]],
  ['a negation', 'SELECT count(*) FROM t WHERE NOT (id < 5)', [['119995']]],
  ['an outer join', 'SELECT count(*) FROM t a LEFT JOIN t b ON a.id = b.id AND b.id < 5', [['120000']]],
])('%s: nothing is missing', async (_, query, rows) => {
  expect(await ask(query)).toEqual(rows);
});

test('a query that does not fit the table fetches nothing', async () => {
  await expect(ask('SELECT nosuch FROM t')).rejects.toMatchObject({ code: 'SQL_INVALID' });
  expect(dataReads).toBe(0);
});

test('a PIVOT with its values is answered, one without them says what it needs', async () => {
  const some = '(SELECT id, id % 2 AS odd FROM t WHERE id < 4)';
  expect(await ask(`PIVOT ${some} ON odd IN (0, 1) USING sum(id)`)).toEqual([['2', '4']]);
  await expect(ask('PIVOT t ON id USING count(*)')).rejects.toMatchObject({
    code: 'SQL_INVALID',
    message: expect.stringContaining('IN (value, …)'),
  });
  await expect(ask('DROP TABLE t')).rejects.toMatchObject({ message: expect.stringContaining('only a SELECT') });
});

test('what no file can hold is answered without one', async () => {
  expect(await ask('SELECT count(body) FROM t WHERE id > 120000')).toEqual([['0']]);
  expect(dataReads).toBe(0);
});
