import { expect, it } from 'vitest';
import type { SourceTable } from './catalog.ts';
import { newTableState, select } from './table-selection.ts';

function table(name: string, oid: number): SourceTable {
  return {
    schema: 'public',
    table: name,
    oid,
    relkind: 'r',
    persistence: 'p',
    replicaIdentity: 'd',
    rowSecurity: false,
    primaryKey: ['id'],
    deferrableKey: false,
    identityIndex: [],
    uniqueIndex: [],
    estimatedRows: 0,
    blocks: 0,
    attributes: [],
    heaps: [{ schema: 'public', table: name, oid, relfilenode: oid, blocks: 0 }],
  };
}

const names = (tables: readonly { readonly table: string }[]): string[] => tables.map((each) => each.table);

it('takes neither of two new tables that the lake could not keep apart', () => {
  const { taken, refused } = select([table('orders', 1), table('ORDERS', 2), table('other', 3)], 'embedded');
  expect(names(taken)).toEqual(['other']);
  expect(names(refused)).toEqual(['orders', 'ORDERS']);
});

it('keeps the one that is followed already, and refuses what came beside it', () => {
  const orders = table('orders', 1);
  const known = [newTableState(orders, 0, null)];
  const { taken, refused } = select([orders, table('ORDERS', 2)], 'embedded', known);
  expect(names(taken)).toEqual(['orders']);
  expect(refused.map(({ error }) => error.code)).toEqual(['TABLE_NAME_CLASH']);

  const letGo = known.map((state) => ({ ...state, phase: 'removed' as const }));
  expect(select([orders, table('ORDERS', 2)], 'embedded', letGo).taken).toEqual([]);
});
