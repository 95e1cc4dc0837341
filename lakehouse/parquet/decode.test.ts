import fc from 'fast-check';
import type { SchemaElement } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import { jsonRow } from '../read/json-value.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { bytesSource, type ByteSource } from './byte-source.ts';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import { convertValues } from './convert.ts';
import { decodeParquet, decodeRowGroups } from './decode.ts';
import { encodeParquet } from './encode.ts';
import { openParquet } from './footer.ts';

const field = (name: string, type: DeltaType, metadata: Record<string, unknown> = {}): StructField => ({
  name,
  type,
  nullable: true,
  metadata,
});
const struct = (...fields: StructField[]): StructType => ({ type: 'struct', fields });
const runs = Number(process.env['SLUICE_TEST_RUNS'] ?? 25);

/** A type and cells of it, nested two deep. */
function typed(depth: number): fc.Arbitrary<{ type: DeltaType; cell: fc.Arbitrary<Cell> }> {
  const nullable = (cell: fc.Arbitrary<Cell>): fc.Arbitrary<Cell> => fc.option(cell, { nil: null });
  const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
  const unscaled = fc.bigInt({ min: -(10n ** 38n) + 1n, max: 10n ** 38n - 1n });
  const primitives: { type: DeltaType; cell: fc.Arbitrary<Cell> }[] = [
    { type: 'long', cell: nullable(int64) },
    { type: 'timestamp', cell: nullable(int64) },
    { type: 'integer', cell: nullable(fc.integer()) },
    { type: 'byte', cell: nullable(fc.integer({ min: -128, max: 127 })) },
    { type: 'double', cell: nullable(fc.double()) },
    { type: 'boolean', cell: nullable(fc.boolean()) },
    { type: 'string', cell: nullable(fc.string({ unit: 'grapheme' })) },
    { type: 'string', cell: nullable(fc.constantFrom('red', 'green', 'blue')) },
    { type: 'decimal(9,2)', cell: nullable(fc.bigInt({ min: -999_999_999n, max: 999_999_999n })) },
    { type: 'decimal(38,5)', cell: nullable(unscaled) },
  ];
  const leaf = fc.constantFrom(...primitives);
  if (depth === 0) return leaf;
  const inner = typed(depth - 1);
  return fc.oneof(
    leaf,
    inner.map(({ type, cell }) => ({
      type: { type: 'array' as const, elementType: type, containsNull: true },
      cell: nullable(fc.array(cell, { maxLength: 3 })),
    })),
    fc.tuple(inner, inner).map(([a, b]) => ({
      type: struct(field('a', a.type), field('b', b.type)),
      cell: nullable(fc.record({ a: a.cell, b: b.cell })),
    })),
    inner.map(({ type, cell }) => ({
      type: { type: 'map' as const, keyType: 'string' as const, valueType: type, valueContainsNull: true },
      cell: nullable(
        fc.array(fc.tuple(fc.string({ maxLength: 4 }), cell), { maxLength: 3 }).map((entries) => new Map(entries)),
      ),
    })),
  );
}

const table = fc.tuple(typed(2), typed(1), fc.integer({ min: 1, max: 60 })).chain(([first, second, rowCount]) =>
  fc.record({
    schema: fc.constant(struct(field('first', first.type), field('second', second.type))),
    first: fc.array(first.cell, { minLength: rowCount, maxLength: rowCount }),
    second: fc.array(second.cell, { minLength: rowCount, maxLength: rowCount }),
    rows: fc.subarray(Array.from({ length: rowCount }, (_, i) => i)),
    codec: fc.constantFrom('snappy' as const, 'zstd' as const, 'uncompressed' as const),
    rowGroupRows: fc.constantFrom(7, 1000),
  }),
);

const rowsOf = (schema: StructType, batch: ColumnBatch): string[] =>
  Array.from({ length: batch.rowCount }, (_, i) => jsonRow(schema, batch, i));

describe('decodeParquet', () => {
  it(
    'gives back what encodeParquet wrote, whole, by rows, by columns and by row groups',
    { timeout: 60_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(table, async ({ schema, first, second, rows, codec, rowGroupRows }) => {
          const columns = [columnFrom(schema.fields[0]!.type, first), columnFrom(schema.fields[1]!.type, second)];
          const batch = { rowCount: first.length, names: ['first', 'second'], columns };
          const source = bytesSource('t.parquet', await encodeParquet(schema, batch, { codec, rowGroupRows }));
          const all = rowsOf(schema, batch);
          expect(rowsOf(schema, await decodeParquet(source, schema))).toEqual(all);
          expect(rowsOf(schema, await decodeParquet(source, schema, { rows }))).toEqual(rows.map((row) => all[row]));
          const one = struct(schema.fields[1]!);
          const grouped: string[] = [];
          for await (const group of decodeRowGroups(source, one)) grouped.push(...rowsOf(one, group.batch));
          expect(grouped).toEqual(rowsOf(one, { ...batch, names: ['second'], columns: [columns[1]!] }));
        }),
        { numRuns: runs },
      );
    },
  );

  it('reads NULL for a column that the file lacks, at any depth, and void columns', async () => {
    const written = struct(field('s', struct(field('x', 'long'))), field('n', 'long'));
    const wanted = struct(
      field('new', 'decimal(10,2)'),
      field('s', struct(field('y', 'string'), field('x', 'long'))),
      field('nothing', 'void'),
    );
    const batch = {
      rowCount: 2,
      names: ['s', 'n'],
      columns: [columnFrom(written.fields[0]!.type, [{ x: 1n }, null]), columnFrom('long', [5n, 6n])],
    };
    const source = bytesSource('t', await encodeParquet(written, batch));
    expect(rowsOf(wanted, await decodeParquet(source, wanted))).toEqual([
      '{"new":null,"s":{"y":null,"x":1},"nothing":null}',
      '{"new":null,"s":null,"nothing":null}',
    ]);
  });

  it('reads unsigned integers as such, or not at all', () => {
    const all = BigInt64Array.of(-1n, 5n);
    const unsigned = (bits: 32 | 64): SchemaElement => ({
      name: 'v',
      type: bits === 64 ? 'INT64' : 'INT32',
      converted_type: `UINT_${bits}`,
    });
    const rows = (type: DeltaType, column: ColumnVector): string[] =>
      rowsOf(struct(field('v', type)), { rowCount: 2, names: ['v'], columns: [column] });
    const wide = convertValues({ kind: 'int64', values: all }, unsigned(64), 'decimal(20,0)');
    expect(rows('decimal(20,0)', wide)).toEqual(['{"v":18446744073709551615}', '{"v":5}']);
    expect(() => convertValues({ kind: 'int64', values: all }, unsigned(64), 'long')).toThrow('cannot be read as long');
    const low = { kind: 'int32' as const, values: Int32Array.of(-1, 5) };
    expect(rows('decimal(10,0)', convertValues(low, unsigned(32), 'decimal(10,0)'))).toEqual([
      '{"v":4294967295}',
      '{"v":5}',
    ]);
    expect(() => convertValues(low, unsigned(32), 'double')).toThrow('cannot be read as double');
  });

  it('finds columns by physical name and by field id', async () => {
    const mapped = (name: string, id: number, physicalName: string): StructField =>
      field(name, 'long', { 'delta.columnMapping.id': id, 'delta.columnMapping.physicalName': physicalName });
    const written = struct(mapped('a', 1, 'col-1'), mapped('b', 2, 'col-2'));
    const batch = { rowCount: 1, names: ['a', 'b'], columns: [columnFrom('long', [1n]), columnFrom('long', [2n])] };
    const source = bytesSource('t', await encodeParquet(written, batch, { columnMapping: true }));
    const byName = struct(mapped('renamed', 9, 'col-2'));
    expect(rowsOf(byName, await decodeParquet(source, byName, { columnMapping: 'name' }))).toEqual(['{"renamed":2}']);
    const byId = struct(mapped('renamed', 1, 'col-7'));
    expect(rowsOf(byId, await decodeParquet(source, byId, { columnMapping: 'id' }))).toEqual(['{"renamed":1}']);
    const besides = struct(mapped('a', 1, 'col-1'), field('_change_type', 'string'));
    const change = {
      rowCount: 1,
      names: ['a', '_change_type'],
      columns: [batch.columns[0]!, columnFrom('string', ['x'])],
    };
    const changes = bytesSource('c', await encodeParquet(besides, change, { columnMapping: true }));
    const read = struct(mapped('renamed', 1, 'col-7'), field('_change_type', 'string'));
    expect(rowsOf(read, await decodeParquet(changes, read, { columnMapping: 'id' }))).toEqual([
      '{"renamed":1,"_change_type":"x"}',
    ]);
    const plain = bytesSource('plain', await encodeParquet(written, batch));
    await expect(decodeParquet(plain, byId, { columnMapping: 'id' })).rejects.toMatchObject({
      code: 'PARQUET_UNSUPPORTED',
    });
  });

  it.each([
    ['integer', 'long', 7, '7'],
    ['integer', 'double', 7, '7'],
    ['integer', 'decimal(12,2)', 7, '7.00'],
    ['byte', 'decimal(5,2)', -7, '-7.00'],
    ['float', 'double', 0.5, '0.5'],
    ['decimal(5,2)', 'decimal(9,4)', 12345n, '123.4500'],
    ['date', 'timestamp_ntz', 1, '"1970-01-02T00:00:00.000000"'],
  ] as [DeltaType, DeltaType, Cell, string][])('widens %s to %s', async (from, to, cell, expected) => {
    const batch = { rowCount: 1, names: ['v'], columns: [columnFrom(from, [cell])] };
    const source = bytesSource('t', await encodeParquet(struct(field('v', from)), batch));
    const wide = struct(field('v', to));
    expect(rowsOf(wide, await decodeParquet(source, wide))).toEqual([`{"v":${expected}}`]);
  });

  it.each([
    ['long', 'integer', 7n],
    ['long', 'timestamp', 7n],
    ['decimal(9,4)', 'decimal(9,2)', 7n],
    ['decimal(9,2)', 'decimal(8,2)', 7n],
    ['string', 'long', 'x'],
    ['double', 'float', 1],
  ] as [DeltaType, DeltaType, Cell][])('refuses to read %s as %s', async (from, to, cell) => {
    const batch = { rowCount: 1, names: ['v'], columns: [columnFrom(from, [cell])] };
    const source = bytesSource('data/x.parquet', await encodeParquet(struct(field('v', from)), batch));
    await expect(decodeParquet(source, struct(field('v', to)))).rejects.toMatchObject({
      code: 'PARQUET_TYPE_MISMATCH',
      file: 'data/x.parquet',
    });
  });

  it('fetches only the pages that hold wanted rows', async () => {
    const rowCount = 200_000;
    const values = new BigInt64Array(rowCount);
    for (let i = 0; i < rowCount; i++) values[i] = BigInt(i) * 7_919n;
    const column: ColumnVector = { kind: 'int64', length: rowCount, validity: null, values };
    const schema = struct(field('n', 'long'));
    const file = await encodeParquet(schema, { rowCount, names: ['n'], columns: [column] });
    let fetched = 0;
    const source: ByteSource = {
      name: 't',
      sizeBytes: file.byteLength,
      read: (start, end) => {
        fetched += end - start;
        return Promise.resolve(file.subarray(start, end));
      },
    };
    const opened = await openParquet(source);
    fetched = 0;
    const batch = await decodeParquet(opened, schema, { rows: [150_000, 150_001] });
    expect(rowsOf(schema, batch)).toEqual([`{"n":${150_000 * 7919}}`, `{"n":${150_001 * 7919}}`]);
    expect(fetched).toBeLessThan(file.byteLength / 3);
  });
});

describe('a damaged file', () => {
  const schema = struct(field('n', 'long'), field('s', 'string'));
  const make = async (): Promise<Uint8Array> =>
    encodeParquet(schema, {
      rowCount: 500,
      names: ['n', 's'],
      columns: [
        columnFrom(
          'long',
          Array.from({ length: 500 }, (_, i) => BigInt(i)),
        ),
        columnFrom(
          'string',
          Array.from({ length: 500 }, (_, i) => `text ${i}`),
        ),
      ],
    });

  it('is a typed error that names the file, when it is cut at any place', async () => {
    const file = await make();
    for (let size = 0; size < file.byteLength; size += 97)
      await expect(decodeParquet(bytesSource('f.parquet', file.subarray(0, size)), schema)).rejects.toMatchObject({
        code: 'PARQUET_CORRUPT',
        file: 'f.parquet',
      });
  });

  it('never escapes as another kind of error, whatever byte is flipped', async () => {
    const file = await make();
    for (let at = 0; at < file.byteLength; at += 13) {
      const damaged = file.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 0xff;
      try {
        const batch = await decodeParquet(bytesSource('f.parquet', damaged), schema);
        expect(batch.rowCount).toBe(500);
      } catch (error) {
        expect(error).toMatchObject({ name: 'ParquetError', file: 'f.parquet' });
      }
    }
  });
});
