import { describe, expect, test } from 'vitest';
import { readChunk } from './snapshot-read.ts';
import type { SourceSession } from './source.ts';

/** A server whose table has rows of the given sizes. */
function serverOf(
  sizes: readonly number[],
  toast = '0',
): { readonly session: SourceSession; readonly fetched: number[] } {
  const fetched: number[] = [];
  let at = 0;
  const session = {
    query: async (sql: string) => (sql.includes('pg_relation_filenode') ? [{ n: '77', heap: '8192', toast }] : []),
    rows: async (sql: string, onRow: (bytes: Buffer, start: number, end: number) => void) => {
      const count = Number(/^FETCH (\d+) /.exec(sql)?.[1]);
      fetched.push(count);
      const rows = sizes.slice(at, at + count);
      at += rows.length;
      for (const size of rows) {
        const row = Buffer.alloc(5 + size);
        row.writeUInt32BE(4 + size, 1);
        // Two columns, the first of which is the ctid.
        row.writeUInt16BE(2, 5);
        row.writeInt32BE(5, 7);
        row.write('(3,1)', 11);
        onRow(row, 5, 5 + size);
      }
      return rows.length;
    },
  };
  return { session: session as unknown as SourceSession, fetched };
}

const query = {
  schema: 'public',
  table: 't',
  oid: 5,
  columns: ['a'],
  conditions: [],
  rowsMax: 40_000,
  bytesMax: 8_000_000,
  only: true,
};
const snapshot = { xmin: 1n, xmax: 1n, running: new Set<bigint>() } as never;

describe('a chunk is fetched', () => {
  test('in few pieces where its rows are narrow, and to its end', async () => {
    const { session, fetched } = serverOf(Array.from({ length: 20_000 }, () => 100));
    const rows = await readChunk(session, query, snapshot);
    expect(fetched).toEqual([4_000, 16_000, 16_000]);
    expect([rows.rows.rows, rows.rows.bytes, rows.stoppedBehind, rows.relfilenode]).toEqual([
      20_000,
      2_000_000,
      null,
      77,
    ]);
  });

  test('in pieces that fit the limit where a row is wide, and stops behind the one that reaches it', async () => {
    const sizes = Array.from({ length: 60_000 }, (_, i) => (i === 10 ? 1_000 : 300));
    const { session, fetched } = serverOf(sizes);
    const rows = await readChunk(session, query, snapshot);
    expect(fetched.length).toBeLessThan(5);
    expect(rows.rows.bytes).toBeGreaterThanOrEqual(8_000_000);
    expect(rows.rows.bytes).toBeLessThan(12_000_000);
    expect(rows.stoppedBehind).toBe(3 * 2 ** 16 + 1);
  });

  test('row by row where each is larger than the limit', async () => {
    const { session, fetched } = serverOf(
      Array.from({ length: 3 }, () => 20_000_000),
      '60000000',
    );
    const rows = await readChunk(session, query, snapshot);
    expect(fetched).toEqual([1]);
    expect([rows.rows.rows, rows.stoppedBehind]).toEqual([1, 3 * 2 ** 16 + 1]);
  });

  test('in small pieces where documents of 100 kB begin, and not one by one where a single one is wide', async () => {
    const wide = serverOf(
      Array.from({ length: 500 }, () => 100_000),
      '50000000',
    );
    const rows = await readChunk(wide.session, query, snapshot);
    expect(wide.fetched[0]).toBe(1);
    expect(wide.fetched.length).toBeLessThan(5);
    expect(rows.rows.bytes).toBeLessThan(12_000_000);
    const mixed = serverOf(
      Array.from({ length: 50_000 }, (_, i) => (i === 0 ? 1_000_000 : 500)),
      '5000000',
    );
    await readChunk(mixed.session, query, snapshot);
    expect(mixed.fetched.length).toBeLessThan(500);
  });
});
