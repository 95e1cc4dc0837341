import { describe, expect, it } from 'vitest';
import { parseSpan, spanWords } from './duration.ts';
import { matchesGlob } from './name-glob.ts';

describe('globs on names', () => {
  it.each([
    ['public.*', 'public.orders', true],
    ['*', '', true],
    ['order?', 'orders', true],
    ['order?', 'order', false],
    ['a*b*c', 'a1b2b3c', true],
    ['a*b*c', 'a1b2b3', false],
    ['orders', 'Orders', false],
    ['a.b', 'axb', false],
  ])('%s on %s: %s', (glob, name, expected) => expect(matchesGlob(glob, name)).toBe(expected));

  it('needs no exponential time', () => {
    expect(matchesGlob(`${'*a'.repeat(40)}b`, 'a'.repeat(4000))).toBe(false);
  });
});

describe('spans of time', () => {
  it.each([
    ['90s', 90_000_000n, 'last 90 seconds'],
    ['1h', 3_600_000_000n, 'last 1 hour'],
    ['7d', 604_800_000_000n, 'last 7 days'],
    ['2w', 1_209_600_000_000n, 'last 2 weeks'],
  ])('%s', (text, micros, words) => expect([parseSpan(text), spanWords(text)]).toEqual([micros, words]));

  it.each(['', '7', 'd', '1.5h', '-1d', '7 days'])('%j is none', (text) => expect(parseSpan(text)).toBeNull());
});
