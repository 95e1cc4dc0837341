import { describe, expect, it } from 'vitest';
import { ConfigError } from '../runtime/errors.ts';
import { requireCondition } from './source-condition.ts';

describe('a condition', () => {
  it.each([
    "id in (1, 2) and note = 'a;b--c)'",
    `"odd;)name" > 3`,
    "note like E'it\\'s ;' or (a = 1)",
    "note = 'it''s'",
    "note = E'\\'); select 1; --'",
    'a - -1 = 2',
    'price$ = 1',
  ])('passes: %s', (sql) => {
    expect(requireCondition(sql)).toBe(sql);
  });

  it.each([
    'true); drop table t; --',
    '1 = 1 -- rest',
    '1 /* x */ = 1',
    "note = 'open",
    '(id = 1',
    'id = 1)',
    "note = $$it's$$",
    'note = $a$;$a$',
    "note = 'x\\'); select 1 --'",
    '  ',
  ])('is refused: %s', (sql) => {
    expect(() => requireCondition(sql)).toThrow(ConfigError);
  });
});
