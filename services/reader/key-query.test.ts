import { describe, expect, it } from 'vitest';
import type { ColumnShape, TableShape } from '../log/event.ts';
import { absentKeysQuery, keyCondition } from './key-query.ts';

const column = (name: string, pgType: string, keyPosition: number): ColumnShape => ({
  name,
  typeOid: 0,
  typeModifier: -1,
  pgType,
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: keyPosition > 0,
  keyPosition,
});
const shape: TableShape = {
  schema: 'public',
  table: 'o',
  oid: 1,
  version: 1,
  columns: [column('note', 'text', 0), column('b', 'text', 2), column('A', 'bigint', 1)],
};

describe('SQL over keys', () => {
  it('casts each text to the type of its key column, in key order', () => {
    expect(keyCondition(shape, [['1', "it's"]])).toBe(`("A", "b") IN (('1'::bigint, 'it''s'::text))`);
  });

  it('gives keys without a row in the form of the chunk', () => {
    expect(absentKeysQuery(shape, [['1', 'x']], 'note is null', 'ONLY "public"."o"')).toBe(
      `SELECT '(0,0)', NULL, wanted.c1, wanted.c0 FROM (VALUES ('1'::bigint, 'x'::text)) AS wanted(c0, c1) ` +
        `WHERE NOT EXISTS (SELECT 1 FROM ONLY "public"."o" AS present WHERE present."A" = wanted.c0 AND present."b" = wanted.c1 AND (note is null))`,
    );
  });
});
