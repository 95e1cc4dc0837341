import { describe, expect, it } from 'vitest';
import { ConfigError } from '../runtime/errors.ts';
import { keyCells, keyRange, sinceXmin } from './backfill-range.ts';
import { requireCondition } from './source-condition.ts';

const id = [{ name: 'id', pgType: 'bigint' }];
const two = [
  { name: 'Part "x"', pgType: 'text' },
  { name: 'n', pgType: 'numeric(12,2)' },
];

describe('the range of a backfill', () => {
  it('takes one value, or a list for several columns, digit for digit', () => {
    expect(keyCells('9007199254740993', id, '--from-key')).toEqual(['9007199254740993']);
    expect(keyCells('[9007199254740993]', id, '--from-key')).toEqual(['9007199254740993']);
    expect(keyCells('["a, 1", 12.50]', two, '--from-key')).toEqual(['a, 1', '12.50']);
    for (const wrong of ['a', '["a"]', '["a", {}]', '["a", 1, 2]'])
      expect(() => keyCells(wrong, two, '--from-key')).toThrow(ConfigError);
  });

  it('compares rows in the key’s order, both ends included', () => {
    expect(keyRange(id, ['1'], null)).toBe(`("id") >= ('1'::bigint)`);
    const both = keyRange(two, ["o'x", '1'], ['z', '2']) ?? '';
    expect(both).toBe(
      `("Part ""x""", "n") >= ('o''x'::text, '1'::numeric(12,2)) AND ("Part ""x""", "n") <= ('z'::text, '2'::numeric(12,2))`,
    );
    expect(requireCondition(both)).toBe(both);
    expect(keyRange(two, null, null)).toBeNull();
  });

  it('asks for rows since a transaction by its age, over the wrap of 32 bits', () => {
    expect(sinceXmin('755')).toBe(`age(xmin) <= age('755'::xid)`);
    expect(sinceXmin(String((1n << 32n) + 755n))).toBe(`age(xmin) <= age('755'::xid)`);
    for (const wrong of ['0', '2', '-1', 'x', "1'"]) expect(() => sinceXmin(wrong)).toThrow(ConfigError);
  });
});
