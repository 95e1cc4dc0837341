import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExactNumber, parseLossless, stringifyLossless } from './lossless-json.ts';

const RUNS = Number(process.env['SLUICE_TEST_RUNS'] ?? '200');

describe('lossless JSON', () => {
  it.each([
    '9007199254740993',
    '-9223372036854775808',
    '12345678901234567890.123456789012345678',
    '-1E-18',
    '1.50',
    '-0',
    '0.1',
    '[1.0,2,-0.0,1e400]',
    '{"a":{"b":[18446744073709551615,"9007199254740993 1.5",null,true]}}',
    '{"__proto__":1.50}',
  ])('gives back the digits of %s', (text) => {
    expect(stringifyLossless(parseLossless(text))).toBe(text);
  });

  it('reads integers as numbers up to 2^53 and as bigint beyond, also those that a double holds', () => {
    expect(parseLossless('[9007199254740991,9007199254740992,9007199254740993,1796030465668000000,1.5,"x"]')).toEqual([
      9007199254740991,
      9007199254740992n,
      9007199254740993n,
      1796030465668000000n,
      1.5,
      'x',
    ]);
    expect(parseLossless('1.50')).toEqual(new ExactNumber('1.50'));
  });

  it.each(['', '{', '[1.5', '{"a" 1.5}', '01.5', '1.5x', '[1.5,]', '"\\x 1.5"', '{"a":1.5,}', '-', '1.', 'nul'])(
    'refuses %j without quoting it',
    (text) => {
      expect(() => parseLossless(text)).toThrow(SyntaxError);
    },
  );

  it('agrees with JSON.parse on every document whose numbers are doubles', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.boolean(), (text, slow) => {
        // A fraction in front forces the exact parser.
        const document = slow ? `[1.50,${text}]` : `[1,${text}]`;
        const read = parseLossless(document) as unknown[];
        expect(JSON.parse(stringifyLossless(read[1]))).toEqual(JSON.parse(text));
      }),
      { numRuns: RUNS },
    );
  });
});
