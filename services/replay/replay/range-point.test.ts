import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../runtime/errors.ts';
import { parseRangePoint } from './range-point.ts';

describe('a range point', () => {
  it.each([
    ['beginning', { kind: 'beginning' }],
    ['earliest', { kind: 'earliest' }],
    ['offset:12', { kind: 'offset', offsets: 12n }],
    ['lsn:16/B374D848', { kind: 'lsn', lsn: 0x16b374d848n }],
    ['16/b374d848', { kind: 'lsn', lsn: 0x16b374d848n }],
    ['batch:7', { kind: 'batch', batch: 7n }],
    ['2026-01-31T10:00:00Z', { kind: 'time', micros: 1_769_853_600_000_000n }],
    ['2026-01-31 10:00:00.000001', { kind: 'time', micros: 1_769_853_600_000_001n }],
    ['timestamp:2026-01-31T12:00:00+02:00', { kind: 'time', micros: 1_769_853_600_000_000n }],
    ['2026-01-31', { kind: 'time', micros: 1_769_817_600_000_000n }],
  ])('%s', (text, point) => {
    expect(parseRangePoint('--from', text)).toEqual(point);
  });

  it('names offsets by partition', () => {
    expect(parseRangePoint('--to', 'offset:0=5, 2=9')).toEqual({
      kind: 'offset',
      offsets: new Map([
        [0, 5n],
        [2, 9n],
      ]),
    });
  });

  it.each([
    '',
    'yesterday',
    '2026-13-01',
    '2026-02-30',
    '2026-01-31T25:00:00Z',
    'offset:-1',
    'offset:0=1,0=2',
    'offset:99999999999999999999',
    'lsn:',
    'lsn:16-3',
    'batch:x',
    '1700000000',
    'now',
  ])('refuses %j as a beginning', (text) => {
    expect(() => parseRangePoint('--from', text)).toThrow(ConfigError);
  });

  it('refuses an end before everything', () => {
    expect(() => parseRangePoint('--to', 'beginning')).toThrow(/nothing would be left/);
    expect(parseRangePoint('--to', 'now')).toEqual({ kind: 'now' });
  });
});
