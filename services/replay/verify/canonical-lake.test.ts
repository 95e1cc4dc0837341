import { describe, expect, it } from 'vitest';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import { cellText, dateText, decimalText, frame, timestampText } from './canonical-lake.ts';

describe('canonical text of lake cells', () => {
  it.each([
    [0, '1970-01-01'],
    [-1, '1969-12-31'],
    [19_782, '2024-02-29'],
    [2_932_896, '9999-12-31'],
    [2_932_897, '10000-01-01'],
    [-719_162, '0001-01-01'],
    [-719_163, '0001-12-31 BC'],
    [-719_469, '0001-02-29 BC'],
  ])('prints day %i as PostgreSQL does', (days, text) => {
    expect(dateText(days)).toBe(text);
  });

  it('prints microseconds, zones and eras', () => {
    expect(timestampText(0n, '+00')).toBe('1970-01-01 00:00:00+00');
    expect(timestampText(-1n, '')).toBe('1969-12-31 23:59:59.999999');
    expect(timestampText(1_709_251_199_120_000n, '+00')).toBe('2024-02-29 23:59:59.12+00');
    expect(timestampText(-62_135_596_801_000_000n, '+00')).toBe('0001-12-31 23:59:59+00 BC');
    expect(timestampText(9_224_318_015_999_999_999n, '')).toBe('294276-12-31 23:59:59.999999');
  });

  it('prints decimals of both signs with every digit of the scale', () => {
    expect(decimalText(1050n, 0n, 2)).toBe('10.50');
    expect(decimalText(-5n, -1n, 2)).toBe('-0.05');
    expect(decimalText(BigInt.asIntN(64, 10n ** 37n), (10n ** 37n) >> 64n, 18)).toBe(
      `10000000000000000000.${'0'.repeat(18)}`,
    );
  });

  it('keeps NULL, the empty text and -0 apart', () => {
    expect(frame(null)).toBe('~');
    expect(frame('')).toBe('0:');
    expect(frame('é')).toBe('2:é');
    const floats: ColumnVector = { kind: 'float64', length: 2, validity: null, values: new Float64Array([0, -0]) };
    const text = cellText(floats, 'double');
    expect(text(0)).not.toBe(text(1));
  });
});
