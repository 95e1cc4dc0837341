import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { outOfBounds } from '../upkeep/check-bounds.ts';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import type { DeltaType, StructField, StructType } from './schema.ts';
import { looseStats, parseStats } from './stats-read.ts';
import { collectStats, type StatsOptions } from './stats.ts';

const field = (name: string, type: DeltaType, metadata: Record<string, unknown> = {}): StructField => ({
  name,
  type,
  nullable: true,
  metadata,
});

function statsOf(columns: readonly [string, DeltaType, readonly Cell[]][], options: StatsOptions = {}): string {
  const schema: StructType = { type: 'struct', fields: columns.map(([name, type]) => field(name, type)) };
  return collectStats(
    schema,
    {
      rowCount: columns[0]?.[2].length ?? 0,
      names: columns.map(([name]) => name),
      columns: columns.map(([, type, cells]) => columnFrom(type, cells)),
    },
    options,
  );
}

/** min, max and nullCount texts of one column. */
function boundsOf(type: DeltaType, cells: readonly Cell[]): [unknown, unknown, unknown] {
  const stats = JSON.parse(statsOf([['v', type, cells]])) as Record<string, Record<string, unknown>>;
  return [stats['minValues']?.['v'], stats['maxValues']?.['v'], stats['nullCount']?.['v']];
}

const micros = (text: string): bigint => BigInt(Date.parse(`${text.slice(0, 19)}Z`)) * 1000n + BigInt(text.slice(20));

describe('collectStats', () => {
  it('keeps every digit of longs and decimals', () => {
    expect(
      statsOf([
        ['id', 'long', [9_007_199_254_740_993n, -9_223_372_036_854_775_808n]],
        ['d', 'decimal(38,18)', [12_345_678_901_234_567_890_123_456_789_012_345_678n, -1n]],
      ]),
    ).toBe(
      '{"numRecords":2,"minValues":{"id":-9223372036854775808,"d":-0.000000000000000001},' +
        '"maxValues":{"id":9007199254740993,"d":12345678901234567890.123456789012345678},"nullCount":{"id":0,"d":0}}',
    );
  });

  it('takes whole texts for bounds to compare with those of a writer that cuts elsewhere', () => {
    const cells = ['x'.repeat(40), 'x'.repeat(90)];
    const theirs = parseStats(
      `{"numRecords":2,"minValues":{"v":"${cells[0]}"},"maxValues":{"v":"${'x'.repeat(63)}y"}}`,
    );
    const found = parseStats(statsOf([['v', 'string', cells]], { wholeTexts: true }));
    expect(found?.minValues['v']).toBe(cells[0]);
    expect(found?.maxValues['v']).toBe(cells[1]);
    expect(outOfBounds(theirs!, found!)).toEqual([]);
  });

  it('finds the least and the greatest of longs and decimals, whichever words they differ in', () => {
    const near = (bits: number): fc.Arbitrary<bigint> =>
      fc
        .tuple(fc.nat(bits - 2), fc.bigInt(-2n, 2n), fc.boolean())
        .map(([shift, off, negative]) => (negative ? -1n : 1n) * 2n ** BigInt(shift) + off);
    const agrees = (type: DeltaType, cells: readonly bigint[]): void => {
      const [min, max] = /"minValues":\{"v":(-?\d+)\},"maxValues":\{"v":(-?\d+)\}/
        .exec(statsOf([['v', type, cells]]))!
        .slice(1)
        .map(BigInt);
      const ordered = [...cells].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      expect([min, max]).toEqual([ordered[0], ordered.at(-1)]);
    };
    fc.assert(fc.property(fc.array(near(64), { minLength: 1 }), (cells) => agrees('long', cells)));
    fc.assert(fc.property(fc.array(near(126), { minLength: 1 }), (cells) => agrees('decimal(38,0)', cells)));
  });

  it('floors the least timestamp and ceils the greatest to milliseconds', () => {
    expect(boundsOf('timestamp', [micros('2026-01-01T12:00:00.080758')])).toEqual([
      '2026-01-01T12:00:00.080Z',
      '2026-01-01T12:00:00.081Z',
      0,
    ]);
    expect(boundsOf('timestamp_ntz', [-1n])).toEqual(['1969-12-31T23:59:59.999', '1970-01-01T00:00:00.000', 0]);
    expect(boundsOf('timestamp', [micros('2024-03-10T02:30:00.123000')]).slice(0, 2)).toEqual([
      '2024-03-10T02:30:00.123Z',
      '2024-03-10T02:30:00.123Z',
    ]);
  });

  it('gives no bounds for years outside 0001..9999', () => {
    expect(boundsOf('timestamp', [2n ** 63n - 1n, 0n])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('timestamp', [253_402_300_799_999_001n])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('date', [2_932_897])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('date', [-719_163])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('date', [-719_162, 2_932_896])).toEqual(['0001-01-01', '9999-12-31', 0]);
  });

  it('cuts long texts without losing rows', () => {
    const long = `${'a'.repeat(32)}\u{1F33C}tail`;
    expect(boundsOf('string', [long])).toEqual(['a'.repeat(32), `${'a'.repeat(32)}\u{10ffff}`, 0]);
    expect(boundsOf('string', [`${'\u{1F33C}'.repeat(40)}`]).slice(0, 2)).toEqual([
      '\u{1F33C}'.repeat(32),
      `${'\u{1F33C}'.repeat(32)}\u{10ffff}`,
    ]);
    expect(boundsOf('string', ['b'.repeat(40)])[1]).toBe(`${'b'.repeat(32)}\u007f`);
    expect(boundsOf('string', [`${'b'.repeat(32)}\u{10ffff}z`])[1]).toBeUndefined();
    expect(boundsOf('string', ['b'.repeat(32)])[1]).toBe('b'.repeat(32));
  });

  it('bounds every text in code point order', () => {
    const byPoints = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 50 }), { minLength: 1 }), (texts) => {
        const [min, max] = boundsOf('string', texts) as unknown as [string, string | undefined];
        for (const text of texts) {
          expect(byPoints(min, text)).toBeLessThanOrEqual(0);
          if (max !== undefined) expect(byPoints(max, text)).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: Number(process.env['SLUICE_TEST_RUNS'] ?? 100) },
    );
  });

  it('gives no bounds to floats among which is a NaN or an infinity', () => {
    expect(boundsOf('double', [1, Number.NaN])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('double', [1, Number.NEGATIVE_INFINITY])).toEqual([undefined, undefined, 0]);
    expect(boundsOf('double', [-0, 2.5, null])).toEqual([0, 2.5, 1]);
  });

  it('counts NULLs without bounds where all are NULL, and of types without order', () => {
    expect(boundsOf('long', [null, null])).toEqual([undefined, undefined, 2]);
    expect(boundsOf('boolean', [true, null])).toEqual([undefined, undefined, 1]);
    expect(boundsOf('binary', [new Uint8Array([1])])).toEqual([undefined, undefined, 0]);
    expect(boundsOf({ type: 'array', elementType: 'long', containsNull: true }, [[1n], null])[2]).toBe(1);
  });

  it('nests by path, never by splitting names', () => {
    const inner: StructType = { type: 'struct', fields: [field('x.y', 'long'), field('z', 'string')] };
    const text = statsOf([
      ['a.b', 'long', [1n, 2n]],
      ['s', inner, [{ 'x.y': 5n, z: null }, null]],
    ]);
    expect(text).toBe(
      '{"numRecords":2,"minValues":{"a.b":1,"s":{"x.y":5}},"maxValues":{"a.b":2,"s":{"x.y":5}},' +
        '"nullCount":{"a.b":0,"s":{"x.y":1,"z":2}}}',
    );
  });

  it('indexes the first leaves, or the named paths', () => {
    const columns: [string, DeltaType, Cell[]][] = [
      ['a', 'long', [1n]],
      ['b', 'long', [2n]],
      ['c', 'long', [3n]],
    ];
    expect(parseStats(statsOf(columns, { indexedColumns: 2 }))?.maxValues).toEqual({ a: 1, b: 2 });
    expect(parseStats(statsOf(columns, { indexedColumns: -1 }))?.maxValues).toEqual({ a: 1, b: 2, c: 3 });
    expect(parseStats(statsOf(columns, { indexedColumns: [['C']] }))?.maxValues).toEqual({ c: 3 });
  });

  it('keys by physical names under column mapping', () => {
    const schema: StructType = {
      type: 'struct',
      fields: [field('a', 'long', { 'delta.columnMapping.physicalName': 'col-9' })],
    };
    const batch = { rowCount: 1, names: ['a'], columns: [columnFrom('long', [1n])] };
    expect(parseStats(collectStats(schema, batch, { columnMapping: true }))?.minValues).toEqual({ 'col-9': 1 });
  });
});

describe('looseStats', () => {
  it('keeps every digit and loosens the bounds', () => {
    const text = '{"numRecords":2,"minValues":{"d":12345678901234567890.123456789012345678},"nullCount":{"d":0}}';
    expect(looseStats(text, 9n)).toBe(text.replace(/\}$/, ',"tightBounds":false}'));
    expect(looseStats(null, 9n)).toBe('{"numRecords":9,"tightBounds":false}');
    expect(parseStats(looseStats(text, 9n))).toMatchObject({ rowCount: 2n, tightBounds: false });
  });
});
