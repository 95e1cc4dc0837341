import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { compareDecimals, formatDecimal, isMultipleOf, normaliseNumber, parseDecimal } from '../decimal-text.ts';
import { classifyDecimal, compareDecimalText, decimalBound, fitsDecimal } from './decimal-check.ts';
import { JsonDecimal, parseExactJson } from './exact-json.ts';
import { parseDuration } from './sla-duration.ts';
import { checkSelectOnly, fillPlaceholders } from './sql-guard.ts';
import { classifyTemporal, compareTemporalText, formatMicros, parseInstant, temporalMicros } from './temporal.ts';
import { codePoints, formatTest } from './value-formats.ts';

/** Scaled runs take their time. */
const TIMEOUT_MS = 120_000;
const RUNS = { numRuns: Number(process.env['SLUICE_TEST_RUNS'] ?? 200) };
const decimal = fc
  .tuple(fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), fc.integer({ min: 0, max: 12 }))
  .map(([unscaled, scale]) => formatDecimal({ unscaled, scale }));

const exact = (text: string) => parseDecimal(text) ?? { unscaled: 0n, scale: 0 };

describe('decimals', () => {
  it(
    'compares text with bounds as exact arithmetic does',
    () => {
      fc.assert(
        fc.property(decimal, decimal, (text, bound) => {
          const prepared = decimalBound(bound);
          expect(prepared === null ? null : Math.sign(compareDecimalText(text, prepared))).toBe(
            compareDecimals(exact(text), exact(bound)),
          );
        }),
        RUNS,
      );
    },
    TIMEOUT_MS,
  );

  it('orders specials as PostgreSQL does, and zero has no sign', () => {
    const zero = decimalBound('0');
    if (zero === null) throw new Error('0 is a bound');
    expect(['NaN', 'Infinity', '-Infinity', '-0.00', '0'].map((text) => compareDecimalText(text, zero))).toEqual([
      1, 1, -1, 0, 0,
    ]);
    const minusThree = decimalBound('-3');
    expect(minusThree === null ? null : compareDecimalText('3', minusThree)).toBe(1);
  });

  it(
    'says what fits decimal(p,s) as arithmetic does',
    () => {
      fc.assert(
        fc.property(decimal, fc.integer({ min: 1, max: 38 }), fc.nat(38), (text, precision, givenScale) => {
          const scale = Math.min(givenScale, precision);
          const value = exact(text);
          const size = value.unscaled < 0n ? -value.unscaled : value.unscaled;
          const wanted =
            isMultipleOf(value, { unscaled: 1n, scale }) &&
            compareDecimals(
              { unscaled: size, scale: value.scale },
              { unscaled: 10n ** BigInt(precision - scale), scale: 0 },
            ) < 0;
          expect(fitsDecimal(text, precision, scale)).toBe(wanted);
        }),
        RUNS,
      );
    },
    TIMEOUT_MS,
  );

  it.each([
    ['1e-30', 'plain'],
    ['.5', 'plain'],
    ['-12.', 'plain'],
    ['NaN', 'special'],
    ['-Infinity', 'special'],
    ['', 'invalid'],
    ['-', 'invalid'],
    ['.', 'invalid'],
    ['0x1F', 'invalid'],
    ['1e999999999', 'invalid'],
  ])('classifies %s as %s', (text, expected) => {
    expect(classifyDecimal(text)).toBe(expected);
  });

  it('normalises YAML numbers', () => {
    expect(['1.50', '0x1F', '-0', '1e3', '9007199254740993', 'x'].map(normaliseNumber)).toEqual([
      '1.5',
      '31',
      '0',
      '1000',
      '9007199254740993',
      null,
    ]);
  });
});

describe('dates and times', () => {
  const micros = fc.bigInt({ min: -62_135_596_800_000_000n, max: 9_224_318_015_999_999_999n });

  it(
    'writes and reads microseconds back, and orders texts as numbers',
    () => {
      fc.assert(
        fc.property(micros, micros, (a, b) => {
          const [x, y] = [formatMicros(a, 'timestamptz'), formatMicros(b, 'timestamptz')];
          expect(temporalMicros(x, 'timestamptz')).toBe(a);
          expect(Math.sign(compareTemporalText(x, y))).toBe(a < b ? -1 : a > b ? 1 : 0);
        }),
        RUNS,
      );
    },
    TIMEOUT_MS,
  );

  it.each([
    ['1970-01-01', 'date', 0n],
    ['2000-02-29', 'date', 951_782_400_000_000n],
    ['0001-12-31T23:40:28Z BC', 'timestamptz', -62_135_597_972_000_000n],
    ['294276-12-31T23:59:59.999999', 'timestamp', 9_224_318_015_999_999_999n],
    ['infinity', 'date', 2n ** 63n],
    ['2024-13-01', 'date', null],
    ['2023-02-29', 'date', null],
    ['2024-01-02T03:04:05', 'timestamptz', null],
    ['2024-01-02T03:04:05.1234567Z', 'timestamptz', null],
  ] as const)('%s as %s is %s µs', (text, kind, expected) => {
    expect(temporalMicros(text, kind)).toBe(expected);
  });

  it('keeps leap years of the BC era: 0001 BC is year 0', () => {
    expect(classifyTemporal('0001-02-29 BC', 'date')).toBe('special');
    expect(classifyTemporal('0002-02-29 BC', 'date')).toBe('invalid');
  });

  it('reads bounds as people write them', () => {
    expect(parseInstant('2024-01-02')).toBe(parseInstant('2024-01-02T01:00:00+01:00'));
    expect(parseInstant('2024-01-02 03:04')).toBe(parseInstant('2024-01-02T03:04:00Z'));
    expect(parseInstant('yesterday')).toBeNull();
  });

  it.each([
    [5, 'minutes', 300_000_000n],
    ['1.5', 'h', 5_400_000_000n],
    ['5 min', null, 300_000_000n],
    [7, 'y', 220_752_000_000_000n],
    [12, 'm', 31_536_000_000_000n],
    [1, 'parsec', null],
  ])('%s %s', (value, unit, expected) => {
    expect(parseDuration(value, unit)).toBe(expected);
  });
});

describe('exact JSON', () => {
  it(
    'agrees with JSON.parse on what both can say',
    () => {
      const unwrap = (value: unknown): unknown =>
        value instanceof JsonDecimal
          ? Number(value.text)
          : value instanceof Map
            ? Object.fromEntries([...value].map(([key, item]) => [key, unwrap(item)]))
            : Array.isArray(value)
              ? value.map(unwrap)
              : typeof value === 'bigint'
                ? Number(value)
                : value;
      fc.assert(
        fc.property(fc.json(), (text) => {
          expect(JSON.stringify(unwrap(parseExactJson(text)))).toBe(JSON.stringify(JSON.parse(text)));
        }),
        RUNS,
      );
    },
    TIMEOUT_MS,
  );

  it('keeps every digit, refuses what is no JSON, and does not blow the stack', () => {
    expect(parseExactJson('12345678901234567890')).toBe(12_345_678_901_234_567_890n);
    expect(parseExactJson('[0.10]')).toEqual([new JsonDecimal('0.10')]);
    for (const bad of ['', '{', '[1,]', '01', '+1', '"a', '{"a" 1}', 'nul', '1 2', '['.repeat(100_000)])
      expect(parseExactJson(bad)).toBeUndefined();
  });
});

describe('formats', () => {
  it('counts code points', () => {
    expect(codePoints('a😀é')).toBe(3);
    expect(codePoints('\ud83d')).toBe(1);
  });

  it.each([
    ['email', 'a.b+c@sub.example.org', true],
    ['email', 'a b@example.org', false],
    ['email', '@example.org', false],
    ['email', 'a@-x.org', false],
    ['uri', 's3://bucket/key', true],
    ['uri', 'mailto:a@b.c', true],
    ['uri', 'http://a/%zz', false],
    ['ipv4', '192.168.0.1', true],
    ['ipv4', '256.1.1.1', false],
    ['byte', 'YQ==', true],
    ['byte', 'YQ=', false],
    ['hostname', 'a.b-c.example', true],
    ['hostname', 'a..b', false],
  ])('%s %s → %s', (format, text, expected) => {
    expect(formatTest(format)?.(text)).toBe(expected);
  });
});

describe('SQL rules', () => {
  it.each([
    ["SELECT count(*) FROM {object} WHERE a = '; DROP TABLE x'", null],
    ['WITH a AS (SELECT 1) SELECT * FROM a;', null],
    ['SELECT "update" FROM {object} -- insert', null],
    ['DELETE FROM {object}', /only SELECT/],
    ['SELECT 1; SELECT 2', /several statements/],
    ['WITH a AS (INSERT INTO x VALUES (1) RETURNING 1) SELECT * FROM a', /found INSERT/],
    ["SELECT * FROM read_csv('/etc/passwd')", /read_csv/],
    ["SELECT * FROM '/etc/passwd'", /a file cannot be read/],
    ["SELECT getenv('HOME')", /getenv/],
    ['PRAGMA database_list', /only SELECT/],
    ["SELECT 'open", /not closed/],
    ['', /empty/],
  ])('%s', (query, expected) => {
    const found = checkSelectOnly(query);
    if (expected === null) expect(found).toBeNull();
    else expect(found).toMatch(expected);
  });

  it('fills both spellings of the placeholders, quoting names', () => {
    expect(fillPlaceholders('SELECT {property}, ${column} FROM {object} JOIN ${table}', 'v', 'a"b')).toBe(
      'SELECT "a""b", "a""b" FROM v JOIN v',
    );
  });
});
