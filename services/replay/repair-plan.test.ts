import { describe, expect, it } from 'vitest';
import type { ColumnShape, TableShape } from '../log/event.ts';
import { describePlan, inputKey, planRepair } from './repair-plan.ts';
import type { Difference, TableVerification } from './verify/verify.ts';

const column = (name: string, pgType: string, keyPosition: number, over: Partial<ColumnShape> = {}): ColumnShape => ({
  name,
  typeOid: 0,
  typeModifier: -1,
  pgType,
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: true,
  keyPosition,
  ...over,
});
const shapeOf = (...columns: ColumnShape[]): TableShape => ({ schema: 'p', table: 't', oid: 1, version: 1, columns });
const byId = shapeOf(column('id', 'bigint', 1), column('v', 'text', 0));

const difference = (kind: Difference['kind'], key: string): Difference => ({
  kind,
  key,
  source: null,
  lake: null,
  columns: [],
});
const found = (over: Partial<TableVerification>): TableVerification => ({
  table: 'p.t',
  equal: false,
  sourceRows: 10,
  lakeRows: 10,
  lsn: 1n,
  sampled: null,
  lakeVersion: 3n,
  parkedKeys: 0,
  differences: [],
  unsettled: 0,
  rounds: 2,
  ...over,
});

describe('the plan of a repair', () => {
  it('is nothing for an equal table', () => {
    expect(planRepair(byId, found({ equal: true }))).toEqual({ kind: 'nothing' });
  });

  it('is the keys that differ, are missing or extra', () => {
    const differences = [difference('differs', '1:7'), difference('missing', '2:12'), difference('extra', '3:999')];
    const plan = planRepair(byId, found({ differences }));
    expect(plan).toEqual({
      kind: 'keys',
      keys: [['7'], ['12'], ['999']],
      counts: { differs: 1, missing: 1, extra: 1 },
    });
    expect(describePlan('p.t', plan)).toBe('p.t: 1 rows differ, 1 are missing, 1 are extra; reads 3 keys again\n');
  });

  it('is the whole table when too many rows are to be read; extra rows cost no reading', () => {
    const many = (kind: Difference['kind']): Difference[] => ['1', '2', '3'].map((id) => difference(kind, `1:${id}`));
    expect(planRepair(byId, found({ differences: many('missing') }), 2)).toMatchObject({ kind: 'table' });
    expect(planRepair(byId, found({ differences: many('extra') }), 2)).toMatchObject({ kind: 'keys' });
  });

  it('is the whole table when the lake has none, or nothing settled', () => {
    expect(planRepair(byId, found({ lakeVersion: -1n }))).toMatchObject({ kind: 'table' });
    expect(planRepair(byId, found({ unsettled: 4 }))).toMatchObject({ kind: 'table' });
  });

  it('puts key cells into key order and into PostgreSQL’s input form', () => {
    const two = shapeOf(column('b', 'bytea', 2), column('a', 'text', 1));
    expect(inputKey(two, '3:a:b2:ff')).toEqual(['a:b', '\\xff']);
    const domain = shapeOf(column('d', 'public.code', 1, { kind: 'domain', baseType: 'bytea' }));
    expect(inputKey(domain, '2:00')).toEqual(['\\x00']);
    expect(inputKey(shapeOf(column('f', 'double precision', 1)), '16:3ff0000000000000')).toBeNull();
    expect(inputKey(shapeOf(column('l', 'integer[]', 1, { kind: 'array' })), '2:A0')).toBeNull();
  });
});
