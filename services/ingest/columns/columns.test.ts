import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Cell } from '../../../contracts/engine/gate.ts';
import type { DeltaType } from '../../../lakehouse/table/schema.ts';
import { propertyRuns } from '../../../test/support/row-events.ts';
import { valueAt } from '../../stream/row-view.ts';
import { createColumnBuilder } from './create-builder.ts';

const back = (type: DeltaType, cell: Cell): unknown => {
  const builder = createColumnBuilder(type);
  return builder.append(cell) ? valueAt(builder.finish(), type, 0) : 'refused';
};

describe('exact or refused, never changed', () => {
  test.each<[DeltaType, Cell, unknown]>([
    ['boolean', false, false],
    ['short', 32767, 32767],
    ['short', 32768, 'refused'],
    ['integer', 1.5, 'refused'],
    ['long', 9007199254740993n, 9007199254740993n],
    ['long', -1, -1n],
    ['long', 2n ** 63n, 'refused'],
    ['double', 'NaN', Number.NaN],
    ['double', '-Infinity', -Infinity],
    ['float', -0, -0],
    ['decimal(12,2)', '12.5', '12.50'],
    ['decimal(12,2)', '-0.01', '-0.01'],
    ['decimal(12,2)', '12.500', '12.50'],
    ['decimal(12,2)', '12.501', 'refused'],
    ['decimal(12,2)', '10000000000', 'refused'],
    ['decimal(12,2)', 'NaN', 'refused'],
    ['decimal(12,2)', 'Infinity', 'refused'],
    ['decimal(38,10)', '-1234567890123456789012345678.0123456789', '-1234567890123456789012345678.0123456789'],
    ['date', '2024-02-29', '2024-02-29'],
    ['date', '2023-02-29', 'refused'],
    ['date', '15000-01-01', '15000-01-01'],
    ['date', '0044-03-15 BC', 'refused'],
    ['date', 'infinity', 'refused'],
    ['timestamp', '2024-01-02T03:04:05.123456Z', '2024-01-02T03:04:05.123456Z'],
    ['timestamp', '1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
    ['timestamp', '2024-01-02T03:04:05+05:30', '2024-01-01T21:34:05Z'],
    ['timestamp', '0044-03-15T00:00:00Z BC', 'refused'],
    // PostgreSQL counts from 2000 and reaches 294276; int64 microseconds since 1970 end here:
    ['timestamp_ntz', '294247-01-10T04:00:54.775807', '294247-01-10T04:00:54.775807'],
    ['timestamp_ntz', '294247-01-10T04:00:54.775808', 'refused'],
    ['timestamp_ntz', '294276-12-31T23:59:59.999999', 'refused'],
    ['timestamp_ntz', '2024-01-02T03:04:05Z', 'refused'],
    ['string', 'NULL', 'NULL'],
    ['string', '😀é', '😀é'],
    ['string', 9007199254740993n, '9007199254740993'],
  ])('%s %s', (type, cell, expected) => {
    expect(back(type, cell)).toEqual(expected);
  });

  test('base64 text becomes its bytes; other text is refused', () => {
    expect(back('binary', 'AAH/')).toEqual(Buffer.from([0, 1, 255]));
    expect(back('binary', 'A*H/')).toBe('refused');
    expect(back('binary', '')).toEqual(Buffer.from([]));
  });

  test('arrays keep NULL apart from text, and a bad element takes none with it', () => {
    const type = { type: 'array', elementType: 'integer', containsNull: true } as const;
    const builder = createColumnBuilder(type);
    expect(builder.append([1, null, 3])).toBe(true);
    expect(builder.append([4, 'x'])).toBe(false);
    expect(builder.append('{{1},{2}}')).toBe(false);
    expect(builder.append([5])).toBe(true);
    const column = builder.finish();
    expect([valueAt(column, type, 0), valueAt(column, type, 1)]).toEqual([[1, null, 3], [5]]);
  });
});

test('any timestamp of four-digit years survives', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -62135596800, max: 253402300799 }),
      fc.integer({ min: 0, max: 999999 }),
      (seconds, micros) => {
        const text = `${new Date(seconds * 1000).toISOString().slice(0, 19)}.${String(micros).padStart(6, '0')}`;
        const value = back('timestamp_ntz', text) as string;
        expect(value.padEnd(26, '0').replace(/T(\d\d:\d\d:\d\d)0+$/, 'T$1.000000')).toBe(
          micros === 0 ? `${text.slice(0, 19)}${'0'.repeat(7)}`.replace(/T(\d\d:\d\d:\d\d)0+$/, 'T$1.000000') : text,
        );
      },
    ),
    { numRuns: propertyRuns(200) },
  );
});

test('any decimal that fits survives, whatever its length', () => {
  const decimal = fc.tuple(fc.boolean(), fc.bigInt({ min: 0n, max: 10n ** 38n - 1n }), fc.integer({ min: 0, max: 38 }));
  fc.assert(
    fc.property(decimal, ([negative, unscaled, scale]) => {
      const digits = String(unscaled).padStart(scale + 1, '0');
      const body = scale === 0 ? digits : `${digits.slice(0, digits.length - scale)}.${digits.slice(-scale)}`;
      const text = negative && unscaled !== 0n ? `-${body}` : body;
      expect(back(`decimal(38,${scale})`, text)).toBe(text);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test('rows taken back leave nothing behind', () => {
  const types: DeltaType[] = ['integer', 'long', 'string', 'binary', 'boolean', 'double', 'decimal(10,2)', 'timestamp'];
  for (const type of types) {
    const builder = createColumnBuilder(type);
    const good: Cell =
      type === 'boolean'
        ? true
        : type === 'string'
          ? 'x'
          : type === 'binary'
            ? 'AAAA'
            : type === 'timestamp'
              ? '2024-01-01T00:00:00Z'
              : 1;
    for (let row = 0; row < 3000; row++) {
      builder.append(row % 3 === 0 ? null : good);
      builder.appendAbsent();
      builder.truncate(row + 1);
    }
    expect(builder.length).toBe(3000);
    expect(builder.absent()).toBeNull();
    const column = builder.finish();
    const nulls = [0, 2997, 2999].map((row) => valueAt(column, type, row) === null);
    expect([type, ...nulls]).toEqual([type, true, true, false]);
  }
});

test('a builder that was used before gives the same column as a new one', () => {
  const cell = fc.oneof(fc.constant(null), fc.constant('absent' as const), fc.integer({ min: 0, max: 9 }));
  const written: readonly (readonly [DeltaType, (n: number) => Cell])[] = [
    ['boolean', (n) => n % 2 === 0],
    ['integer', (n) => n],
    ['long', (n) => n],
    ['double', (n) => n / 4],
    ['decimal(12,2)', (n) => `${n}.25`],
    ['timestamp', (n) => `2024-01-01T00:00:0${n}Z`],
    ['string', (n) => 'é'.repeat(n)],
    [{ type: 'array', elementType: 'string', containsNull: true }, (n) => Array.from({ length: n }, () => String(n))],
  ];
  fc.assert(
    fc.property(fc.constantFrom(...written), fc.array(cell), fc.array(cell), ([type, valueOf], before, after) => {
      const fill = (cells: readonly (number | null | 'absent')[], builder = createColumnBuilder(type)) => {
        for (const one of cells) {
          if (one === 'absent') builder.appendAbsent();
          else expect(builder.append(one === null ? null : valueOf(one))).toBe(true);
        }
        return builder;
      };
      const used = fill(before);
      used.reset();
      fill(after, used);
      const made = fill(after);
      expect(used.absent()).toEqual(made.absent());
      expect(used.finish()).toEqual(made.finish());
    }),
    { numRuns: propertyRuns(200) },
  );
});
