import { describe, expect, test } from 'vitest';
import { readChunk } from './snapshot-read.ts';
import type { SourceSession } from './source.ts';

/** A server whose table has rows of the given sizes. */
function serverOf(sizes: readonly number[]): { readonly session: SourceSession; readonly fetched: number[] } {
  const fetched: number[] = [];
  let at = 0;
  const session = {
    query: async (sql: string) => (sql.includes('pg_relation_filenode') ? [{ n: '77' }] : []),
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
    // 6.8 MB are left behind the first piece: of rows like the widest, 6,799.
    expect(fetched[0]).toBe(4_000);
    expect(fetched[1]).toBe(Math.floor((8_000_000 - 1_200_700) / 1_000));
    expect(Math.max(...fetched)).toBeLessThan(7_000);
    expect(rows.rows.bytes).toBeGreaterThanOrEqual(8_000_000);
    expect(rows.rows.bytes).toBeLessThan(8_000_000 + 4_000 * 300);
    expect(rows.stoppedBehind).toBe(3 * 2 ** 16 + 1);
  });
});
