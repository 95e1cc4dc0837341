import { expect, it } from 'vitest';
import { parseTableName } from './table-name.ts';

it('a name is split at its first dot, or where SQL quotes say so', () => {
  expect(parseTableName('orders')).toEqual({ schema: 'public', table: 'orders' });
  expect(parseTableName('shop.orders.old')).toEqual({ schema: 'shop', table: 'orders.old' });
  expect(parseTableName('"My.Schema"."a""b.c/d"')).toEqual({ schema: 'My.Schema', table: 'a"b.c/d' });
  for (const name of ['.orders', 'shop.', '']) expect(() => parseTableName(name)).toThrow('names no table');
});
