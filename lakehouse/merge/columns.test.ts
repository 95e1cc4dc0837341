import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonRow } from '../read/json-value.ts';
import { partitionColumn } from '../read/partition-column.ts';
import type { ColumnVector } from '../table/column.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import { concat } from './concat.ts';
import { NULL_SOURCE, gather } from './gather.ts';
import { partitionText } from './partition-value.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? 40);

const TYPES: readonly (readonly [DeltaType, fc.Arbitrary<Cell>])[] = [
  ['boolean', fc.boolean()],
  ['integer', fc.integer()],
  ['long', fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })],
  ['float', fc.float({ noNaN: true })],
  ['double', fc.double({ noNaN: true })],
  ['decimal(38,3)', fc.bigInt({ min: -(10n ** 37n), max: 10n ** 37n })],
  ['string', fc.string({ maxLength: 40 })],
  ['binary', fc.uint8Array({ maxLength: 5 })],
  [
    { type: 'array', elementType: 'string', containsNull: true },
    fc.array(fc.option(fc.string({ maxLength: 3 })), { maxLength: 4 }),
  ],
  [
    { type: 'map', keyType: 'integer', valueType: 'string', valueContainsNull: true },
    fc
      .array(fc.tuple(fc.integer(), fc.option(fc.string({ maxLength: 3 }))), { maxLength: 3 })
      .map((list) => new Map(list) as unknown as Cell),
  ],
  [
    {
      type: 'struct',
      fields: [
        { name: 'a', type: 'integer', nullable: true, metadata: {} },
        { name: 'b', type: { type: 'array', elementType: 'long', containsNull: true }, nullable: true, metadata: {} },
      ],
    },
    fc
      .tuple(fc.option(fc.integer()), fc.array(fc.bigInt({ min: 0n, max: 9n }), { maxLength: 3 }))
      .map(([a, b]): Cell => ({ a, b })),
  ],
];

function texts(type: DeltaType, column: ColumnVector): string[] {
  const schema: StructType = { type: 'struct', fields: [{ name: 'c', type, nullable: true, metadata: {} }] };
  const batch = { rowCount: column.length, names: ['c'], columns: [column] };
  return Array.from({ length: column.length }, (_, row) => jsonRow(schema, batch, row));
}

test.each(TYPES)('gather and concat move %j cells as they are', (type, cell) => {
  const cells = fc.array(fc.option(cell, { freq: 4 }), { maxLength: 20 });
  fc.assert(
    fc.property(cells, cells, fc.array(fc.tuple(fc.nat(2), fc.nat(40)), { maxLength: 30 }), (a, b, picks) => {
      const columns = [columnFrom(type, a), columnFrom(type, b)];
      expect(texts(type, concat(columns))).toEqual(texts(type, columnFrom(type, [...a, ...b])));
      const usable = picks.filter(([source]) => source === 2 || [a, b][source]!.length > 0);
      const source = Uint8Array.from(usable, ([from]) => (from === 2 ? NULL_SOURCE : from));
      const row = Uint32Array.from(usable, ([from, at]) => (from === 2 ? 0 : at % [a, b][from]!.length));
      const wanted = usable.map(([from], i) => (from === 2 ? null : [a, b][from]![row[i]!]!));
      const got = gather(columns, { count: usable.length, source, row });
      expect(texts(type, got)).toEqual(texts(type, columnFrom(type, wanted)));
      const whole = gather([columns[0]!], { count: a.length, source: null, row: Uint32Array.from(a.keys()) });
      expect(texts(type, whole)).toEqual(texts(type, columns[0]!));
    }),
    { numRuns: RUNS },
  );
});

const PARTITIONS: readonly (readonly [DeltaType, fc.Arbitrary<Cell>])[] = [
  ['boolean', fc.boolean()],
  ['byte', fc.integer({ min: -128, max: 127 })],
  ['long', fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })],
  ['float', fc.float()],
  ['double', fc.double()],
  ['decimal(38,3)', fc.bigInt({ min: -(10n ** 37n), max: 10n ** 37n })],
  ['string', fc.string({ minLength: 1, maxLength: 40, unit: 'binary' })],
  ['date', fc.integer({ min: -719_162, max: 2_932_896 })],
  ['timestamp', fc.bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_999n })],
  ['timestamp_ntz', fc.bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_999n })],
];

test.each(PARTITIONS)('a %s comes back from the text of its partition', (type, cell) => {
  const back = (value: Cell): void => {
    const column = columnFrom(type, [value]);
    const partition = partitionText(type, column, 0, 'v', 'memory://t');
    if (typeof type === 'string') expect(texts(type, partitionColumn(type, partition, 1))).toEqual(texts(type, column));
  };
  for (const value of type === 'float' || type === 'double' ? [-0, 0, Number.NaN, -Infinity, 1e-7, 1e300] : [null])
    back(type === 'float' && value !== null ? Math.fround(value) : value);
  fc.assert(fc.property(cell, back), { numRuns: RUNS });
});
