/** The counts of table rules: one SELECT for DuckDB and the same count over rows in memory must agree. */
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, expect, it } from 'vitest';

import type { GateRow } from '../../contracts/engine/gate.ts';
import { countRows } from '../../contracts/engine/rules/count-rows.ts';
import { countSql } from '../../contracts/engine/rules/table-probe.ts';
import type { CountRequest } from '../../contracts/engine/rules/table-probe.ts';

const ROWS: GateRow[] = [
  { id: 1, a: 'x', 'b"c': 'AB-1' },
  { id: 2, a: 'y', 'b"c': null },
  { id: 3, a: null, 'b"c': 'ab' },
  { id: 3, a: '', 'b"c': "it's" },
  { id: 3, a: '', 'b"c': "it's" },
];

let instance: DuckDBInstance;

async function duckCount(sql: string): Promise<bigint> {
  const connection = await instance.connect();
  try {
    const reader = await connection.runAndReadAll(sql);
    return BigInt(String(reader.getRows()[0]?.[0] ?? 0));
  } finally {
    connection.closeSync();
  }
}

beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run('CREATE TABLE t (id INTEGER, a VARCHAR, "b""c" VARCHAR)');
  const text = (cell: unknown): string => (typeof cell === 'string' ? `'${cell.replaceAll("'", "''")}'` : 'NULL');
  for (const row of ROWS)
    await connection.run(`INSERT INTO t VALUES (${Number(row['id'])}, ${text(row['a'])}, ${text(row['b"c'])})`);
  connection.closeSync();
});
afterAll(() => instance.closeSync());

const REQUESTS: readonly (readonly [CountRequest, bigint])[] = [
  [{ kind: 'rows' }, 5n],
  [{ kind: 'null', column: 'a' }, 1n],
  [{ kind: 'missing', column: 'a', values: [null, ''] }, 3n],
  [{ kind: 'missing', column: 'a', values: [''] }, 2n],
  [{ kind: 'missing', column: 'a', values: [] }, 0n],
  [{ kind: 'invalid', column: 'a', validValues: ['x', 'y'], pattern: null }, 2n],
  [{ kind: 'invalid', column: 'b"c', validValues: ["it's"], pattern: null }, 2n],
  [{ kind: 'invalid', column: 'b"c', validValues: null, pattern: '^[A-Z]+-\\d$' }, 3n],
  [{ kind: 'invalid', column: 'id', validValues: [1, 2], pattern: null }, 3n],
  [{ kind: 'duplicate', columns: ['id'] }, 2n],
  [{ kind: 'duplicate', columns: ['id', 'a'] }, 1n],
];

it.each(REQUESTS)('%j', async (request, expected) => {
  expect(countRows(request, ROWS)).toBe(expected);
  expect(await duckCount(countSql(request, 't', 'duckdb'))).toBe(expected);
});
