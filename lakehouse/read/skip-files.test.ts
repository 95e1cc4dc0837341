import { describe, expect, it } from 'vitest';
import { newAdd, type AddFile } from '../table/actions.ts';
import { collectStats } from '../table/stats.ts';
import type { DeltaType, StructType } from '../table/schema.ts';
import type { Snapshot } from '../table/snapshot.ts';
import { columnFrom, type Cell } from '../../test/support/column-from.ts';
import { canSkip, type Condition } from './skip-files.ts';

const schema = (type: DeltaType): StructType => ({
  type: 'struct',
  fields: [{ name: 'v', type, nullable: true, metadata: {} }],
});

function fileOf(stats: string | null, partition: Record<string, string | null> = {}): AddFile {
  return newAdd({ path: 'f', partitionValues: partition, size: 1n, modificationTime: 0n, dataChange: true, stats });
}

/** Only what skipping looks at. */
const table = (type: DeltaType, partitionColumns: string[] = []): Snapshot =>
  ({ schema: schema(type), metadata: { partitionColumns, configuration: {} } }) as unknown as Snapshot;

function skips(
  type: DeltaType,
  cells: readonly Cell[],
  is: Condition['is'],
  value?: bigint | number | string,
): boolean {
  const batch = { rowCount: cells.length, names: ['v'], columns: [columnFrom(type, cells)] };
  const condition = { path: ['v'], is, value } as unknown as Condition;
  return canSkip(table(type), fileOf(collectStats(schema(type), batch)), [condition]);
}

describe('canSkip', () => {
  it('finds a timestamp between milliseconds, also with bounds that were cut', () => {
    expect(skips('timestamp', [1_080_758n], '=', 1_080_758n)).toBe(false);
    expect(skips('timestamp', [1_080_758n], '=', 1_082_001n)).toBe(true);
    const cut =
      '{"numRecords":1,"minValues":{"v":"1970-01-01T00:00:01.080Z"},"maxValues":{"v":"1970-01-01T00:00:01.080Z"}}';
    const condition: Condition = { path: ['v'], is: '>=', value: 1_080_758n };
    expect(canSkip(table('timestamp'), fileOf(cut), [condition])).toBe(false);
  });

  it('compares texts by code point, beyond the cut too', () => {
    const long = `${'a'.repeat(32)}\u{1F33C}`;
    expect(skips('string', [long], '=', long)).toBe(false);
    expect(skips('string', [long], '=', 'b')).toBe(true);
    expect(skips('string', ['\u{1F33C}'], '>', '\uffff')).toBe(false);
  });

  it('keeps every digit of longs and decimals', () => {
    expect(skips('long', [9_007_199_254_740_993n], '=', 9_007_199_254_740_993n)).toBe(false);
    expect(skips('long', [9_007_199_254_740_992n], '=', 9_007_199_254_740_993n)).toBe(true);
    expect(skips('decimal(15,2)', [123_456_789_012_345n], '=', 123_456_789_012_346n)).toBe(true);
    expect(skips('decimal(38,2)', [-5n, 5n], '=', -5n)).toBe(false);
  });

  it('trusts no upper bound of floats, where a NaN may hide', () => {
    const hidden = '{"numRecords":2,"minValues":{"v":1.0},"maxValues":{"v":1.0}}';
    const above: Condition = { path: ['v'], is: '>', value: 2 };
    const below: Condition = { path: ['v'], is: '<', value: 1 };
    expect(canSkip(table('double'), fileOf(hidden), [above])).toBe(false);
    expect(canSkip(table('double'), fileOf(hidden), [below])).toBe(true);
  });

  it('takes the lower bound of floats as the float that it stands for, also after the column became a double', () => {
    const bound = '{"numRecords":1,"minValues":{"v":0.7},"maxValues":{"v":0.7}}';
    const same: Condition = { path: ['v'], is: '=', value: Math.fround(0.7) };
    for (const type of ['float', 'double'] as const) {
      expect(canSkip(table(type), fileOf(bound), [same])).toBe(false);
      expect(canSkip(table(type), fileOf(bound), [{ ...same, is: '<', value: 0.6999 }])).toBe(true);
    }
  });

  it('allows for bounds of long decimals that were rounded to a double', () => {
    const rounded =
      '{"numRecords":2,"minValues":{"v":1.2345678901234567e+27},"maxValues":{"v":1.2345678901234567e+27}}';
    const equals = (value: bigint): Condition => ({ path: ['v'], is: '=', value });
    const value = 12345678901234567890123456780000000001n;
    expect(canSkip(table('decimal(38,10)'), fileOf(rounded), [equals(value)])).toBe(false);
    expect(canSkip(table('decimal(38,10)'), fileOf(rounded), [equals(value + 10n ** 22n)])).toBe(true);
  });

  it('knows files of NULL only, and without NULL', () => {
    expect(skips('long', [null, null], '=', 1n)).toBe(true);
    expect(skips('long', [null, null], 'not null')).toBe(true);
    expect(skips('long', [1n], 'null')).toBe(true);
    expect(skips('long', [1n, null], 'null')).toBe(false);
  });

  it('goes by partition values, where the empty text is NULL', () => {
    const by = (text: string | null, condition: Condition): boolean =>
      canSkip(table('date', ['v']), fileOf(null, { v: text }), [condition]);
    expect(by('2024-01-02', { path: ['v'], is: '=', value: 19_724n })).toBe(false);
    expect(by('2024-01-02', { path: ['v'], is: '=', value: 19_725n })).toBe(true);
    expect(by('', { path: ['v'], is: 'null' })).toBe(false);
    expect(by(null, { path: ['v'], is: '=', value: 1n })).toBe(true);
  });

  it('takes a float that partitions as its text and as the float that it stands for', () => {
    const by = (value: number): boolean =>
      canSkip(table('float', ['v']), fileOf(null, { v: '1.0E-7' }), [{ path: ['v'], is: '=', value }]);
    expect([by(1e-7), by(Math.fround(1e-7)), by(1.1e-7)]).toEqual([false, false, true]);
  });

  it('keeps a file without statistics, with broken ones, or asked about an unknown column', () => {
    const condition: Condition = { path: ['v'], is: '=', value: 5n };
    for (const stats of [null, '', '{', '{"numRecords":"x"}', '{"numRecords":1,"minValues":{"v":"zzz"}}'])
      expect(canSkip(table('long'), fileOf(stats), [condition])).toBe(false);
    expect(canSkip(table('long'), fileOf(null), [{ ...condition, path: ['w'] }])).toBe(false);
  });
});
