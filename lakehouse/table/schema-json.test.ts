import { expect, it } from 'vitest';
import { parseSchema } from './schema-json.ts';

const typeOf = (type: string): unknown =>
  parseSchema(`{"type":"struct","fields":[{"name":"v","type":${type},"nullable":true,"metadata":{}}]}`).fields[0]?.type;

it('reads the names that types had in older tables', () => {
  expect(typeOf('"null"')).toBe('void');
  expect(typeOf('"decimal"')).toBe('decimal(10,0)');
  expect(typeOf('{"type":"array","elementType":"timestamp_ltz","containsNull":true}')).toMatchObject({
    elementType: 'timestamp',
  });
  expect(() => typeOf('"toString"')).toThrow('schema.v has the unknown type "toString"');
});
