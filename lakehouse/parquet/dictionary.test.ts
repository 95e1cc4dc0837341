import { describe, expect, test } from 'vitest';
import { columnFrom } from '../../test/support/column-from.ts';
import { mayRepeat } from './dictionary.ts';

const rows = Array.from({ length: 20_000 }, (_, i) => i);

describe('a dictionary is', () => {
  test('not built for values that are all different, of any kind', () => {
    expect(mayRepeat(columnFrom('integer', rows))).toBe(false);
    expect(
      mayRepeat(
        columnFrom(
          'long',
          rows.map((i) => BigInt(i) << 33n),
        ),
      ),
    ).toBe(false);
    expect(
      mayRepeat(
        columnFrom(
          'double',
          rows.map((i) => i / 3),
        ),
      ),
    ).toBe(false);
    expect(
      mayRepeat(
        columnFrom(
          'string',
          rows.map((i) => `customer ${i}`),
        ),
      ),
    ).toBe(false);
    expect(
      mayRepeat(
        columnFrom(
          'string',
          rows.map((i) => `${i}${'x'.repeat(i % 50)}`),
        ),
      ),
    ).toBe(false);
  });

  test('built where values repeat side by side, far apart, or hardly at all but NULL', () => {
    expect(
      mayRepeat(
        columnFrom(
          'long',
          rows.map((i) => BigInt(i >> 2)),
        ),
      ),
    ).toBe(true);
    expect(
      mayRepeat(
        columnFrom(
          'string',
          rows.map((i) => `city ${(i * 7919) % 1000}`),
        ),
      ),
    ).toBe(true);
    expect(
      mayRepeat(
        columnFrom(
          'string',
          rows.map(() => null),
        ),
      ),
    ).toBe(true);
    expect(
      mayRepeat(
        columnFrom(
          'boolean',
          rows.map((i) => i % 2 === 0),
        ),
      ),
    ).toBe(true);
  });

  test('left to the writer where a file is small', () => {
    expect(mayRepeat(columnFrom('integer', rows.slice(0, 1000)))).toBe(true);
  });
});
