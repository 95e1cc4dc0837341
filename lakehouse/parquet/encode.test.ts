import { parquetMetadata } from 'hyparquet';
import { describe, expect, it } from 'vitest';
import type { BytesColumn, ColumnBatch, ColumnVector } from '../table/column.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { encodeParquet } from './encode.ts';

const field = (name: string, type: DeltaType, metadata: Record<string, unknown> = {}): StructField => ({
  name,
  type,
  nullable: true,
  metadata,
});
const struct = (...fields: StructField[]): StructType => ({ type: 'struct', fields });

function utf8(...texts: string[]): BytesColumn {
  const parts = texts.map((text) => Buffer.from(text));
  const offsets = new Int32Array(texts.length + 1);
  parts.forEach((part, i) => (offsets[i + 1] = offsets[i]! + part.length));
  return { kind: 'utf8', length: texts.length, validity: null, offsets, data: new Uint8Array(Buffer.concat(parts)) };
}
const longs = (...values: bigint[]): ColumnBatch['columns'][number] => ({
  kind: 'int64',
  length: values.length,
  validity: null,
  values: BigInt64Array.from(values),
});

describe('encodeParquet', () => {
  it('writes the shapes that the Delta protocol asks for', async () => {
    const schema = struct(
      field('list', { type: 'array', elementType: 'string', containsNull: false }),
      field('map', { type: 'map', keyType: 'string', valueType: 'long', valueContainsNull: true }),
      field('at', 'timestamp'),
      field('local', 'timestamp_ntz'),
      field('small', 'decimal(9,2)'),
      field('wide', 'decimal(38,4)'),
      field('tiny', 'byte'),
      field('gone', 'void'),
    );
    const decimal = (precision: number, scale: number): ColumnBatch['columns'][number] => ({
      kind: 'decimal',
      precision,
      scale,
      length: 1,
      validity: null,
      values: BigInt64Array.of(7n, 0n),
    });
    const file = await encodeParquet(schema, {
      rowCount: 1,
      names: ['list', 'map', 'at', 'local', 'small', 'wide', 'tiny'],
      columns: [
        { kind: 'list', length: 1, validity: null, offsets: Int32Array.of(0, 2), child: utf8('a', 'b') },
        { kind: 'map', length: 1, validity: null, offsets: Int32Array.of(0, 1), keys: utf8('k'), items: longs(1n) },
        longs(1n),
        longs(2n),
        decimal(9, 2),
        decimal(38, 4),
        { kind: 'int32', length: 1, validity: null, values: Int32Array.of(-1) },
      ],
    });
    const shape = parquetMetadata(file.buffer as ArrayBuffer)
      .schema.slice(1)
      .map((e) =>
        [
          e.name,
          e.repetition_type,
          e.type,
          e.logical_type?.type === 'TIMESTAMP' ? `utc=${e.logical_type.isAdjustedToUTC}` : e.converted_type,
        ]
          .filter((x) => x !== undefined)
          .join(' '),
      );
    expect(shape).toEqual([
      'list OPTIONAL LIST',
      'list REPEATED',
      'element OPTIONAL BYTE_ARRAY UTF8',
      'map OPTIONAL MAP',
      'key_value REPEATED',
      'key REQUIRED BYTE_ARRAY UTF8',
      'value OPTIONAL INT64',
      'at OPTIONAL INT64 utc=true',
      'local OPTIONAL INT64 utc=false',
      'small OPTIONAL INT32 DECIMAL',
      'wide OPTIONAL FIXED_LEN_BYTE_ARRAY DECIMAL',
      'tiny OPTIONAL INT32 INT_8',
    ]);
  });

  it('writes physical names and field ids under column mapping', async () => {
    const schema = struct(
      field('a b', 'long', { 'delta.columnMapping.id': 3, 'delta.columnMapping.physicalName': 'col-1' }),
    );
    const file = await encodeParquet(
      schema,
      { rowCount: 1, names: ['a b'], columns: [longs(1n)] },
      { columnMapping: true },
    );
    const column = parquetMetadata(file.buffer as ArrayBuffer).schema[1];
    expect([column?.name, column?.field_id]).toEqual(['col-1', 3]);
  });

  it('cuts row groups where it is told', async () => {
    const values = Array.from({ length: 25 }, (_, i) => BigInt(i));
    const file = await encodeParquet(
      struct(field('n', 'long')),
      { rowCount: 25, names: ['n'], columns: [longs(...values)] },
      { rowGroupRows: 10, codec: 'zstd' },
    );
    expect(parquetMetadata(file.buffer as ArrayBuffer).row_groups.map((group) => group.num_rows)).toEqual([
      10n,
      10n,
      5n,
    ]);
  });

  it('cuts row groups of wide rows by their bytes', async () => {
    const width = 12 * 1024 * 1024;
    const wide: ColumnVector = {
      kind: 'binary',
      length: 3,
      validity: null,
      offsets: Int32Array.of(0, width, 2 * width, 3 * width),
      data: new Uint8Array(3 * width),
    };
    const file = await encodeParquet(struct(field('b', 'binary')), { rowCount: 3, names: ['b'], columns: [wide] });
    expect(parquetMetadata(file.buffer as ArrayBuffer).row_groups.map((group) => group.num_rows)).toEqual([2n, 1n]);
  });

  it.each([
    ['a missing column', { rowCount: 1, names: [], columns: [] }],
    ['a column of another length', { rowCount: 2, names: ['n'], columns: [longs(1n)] }],
    ['a column of another type', { rowCount: 1, names: ['n'], columns: [utf8('x')] }],
  ])('refuses %s', async (_, batch) => {
    await expect(encodeParquet(struct(field('n', 'long')), batch)).rejects.toMatchObject({
      code: 'PARQUET_ENCODE_FAILED',
    });
  });
});
