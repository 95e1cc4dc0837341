import { describe, expect, test } from 'vitest';
import { columnFrom } from '../../test/support/column-from.ts';
import { ParquetError } from '../parquet/parquet-error.ts';
import type { StructField } from '../table/schema.ts';
import { runFileJob, type FileJob } from './file-body.ts';
import { makeFileBody } from './file-thread.ts';

const HERE = Number.POSITIVE_INFINITY;
const field = (name: string, type: StructField['type']): StructField => ({ name, type, nullable: true, metadata: {} });

function job(rows: number): FileJob {
  const range = Array.from({ length: rows }, (_, i) => i);
  return {
    schema: {
      type: 'struct',
      fields: [field('id', 'long'), field('t', 'string'), field('d', 'decimal(20,3)'), field('x', 'double')],
    },
    batch: {
      rowCount: rows,
      names: ['id', 't', 'd', 'x'],
      columns: [
        columnFrom('long', range.map(BigInt)),
        columnFrom(
          'string',
          range.map((i) => (i % 3 === 0 ? null : `text ${i}`)),
        ),
        {
          kind: 'decimal',
          precision: 20,
          scale: 3,
          length: rows,
          validity: null,
          values: BigInt64Array.from({ length: rows * 2 }, (_, i) => (i % 2 === 0 ? BigInt(i) : 0n)),
        },
        columnFrom(
          'double',
          range.map((i) => i / 7),
        ),
      ],
    },
    codec: 'snappy',
    columnMapping: false,
    indexedColumns: 3,
  };
}

describe('a file made in the other thread', () => {
  test(
    'is the one that would be made here, statistics too, and the batch stays whole',
    { timeout: 60_000 },
    async () => {
      const given = job(1000);
      const here = await makeFileBody(given, HERE);
      const [apart, again] = await Promise.all([makeFileBody(given, 0), makeFileBody(given, 0)]);
      expect(Buffer.from(apart.body).equals(here.body)).toBe(true);
      expect(apart.stats).toBe(here.stats);
      expect(apart.stats).toContain('"numRecords":1000');
      expect(again).toEqual(apart);
      expect(await runFileJob(given)).toEqual(here);
    },
  );

  test('that cannot be made says so in the error of its kind', { timeout: 60_000 }, async () => {
    const bad = { ...job(3), schema: { type: 'struct' as const, fields: [field('missing', 'long')] } };
    const said = async (apartBytes: number): Promise<unknown> => makeFileBody(bad, apartBytes).catch((e: unknown) => e);
    const [here, apart] = [await said(HERE), await said(0)];
    expect(apart).toBeInstanceOf(ParquetError);
    expect(apart).toMatchObject({ code: 'PARQUET_ENCODE_FAILED', message: (here as Error).message });
    // The thread goes on.
    expect((await makeFileBody(job(5), 0)).stats).toContain('"numRecords":5');
  });
});
