import { describe, expect, it } from 'vitest';
import type { CatalogColumn } from './catalog.ts';
import { lintContract } from './lint.ts';
import { sourceConflicts } from './source-conflict.ts';

const live = (pgType: string, extra: Partial<CatalogColumn> = {}): CatalogColumn => ({
  name: 'v',
  pgType,
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: false,
  keyPosition: 0,
  ...extra,
});

function conflicts(column: string, there: CatalogColumn | null): string[] {
  const text = `apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.2.0
status: active
schema:
  - name: t
    properties:
      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: v, ${column}}
`;
  const { contract, findings } = lintContract(text, 't.odcs.yaml');
  const table = contract?.tables[0];
  if (contract === null || table === undefined) throw new Error(JSON.stringify(findings));
  const id = { ...live('bigint'), name: 'id', notNull: true, keyPosition: 1 };
  const columns = there === null ? [id] : [id, there];
  return sourceConflicts(contract, table, { schema: 'public', table: 't', columns }).map(
    ({ line, message, edit }) => `${line}: ${message}; ${edit}`,
  );
}

describe('a live table against its contract', () => {
  it.each([
    ['wider', 'physicalType: integer', live('bigint')],
    ['narrower', 'physicalType: bigint', live('smallint')],
    ['more digits', "physicalType: 'numeric(10,2)'", live('numeric(14,2)')],
    ['longer', "physicalType: 'varchar(10)'", live('character varying(20)')],
    ['text for a date', 'physicalType: text', live('date')],
    [
      'an enum by its name',
      'physicalType: order_status',
      live('public.order_status', { kind: 'enum', enumLabels: ['a'] }),
    ],
    ['a domain by its base', 'physicalType: integer', live('positive', { kind: 'domain', baseType: 'integer' })],
    ['an array', "physicalType: 'integer[]'", live('bigint[]', { kind: 'array', baseType: 'bigint' })],
    ['a document for text', 'logicalType: array, physicalType: jsonb', live('text')],
    ['a nullable column that is gone', 'physicalType: integer', null],
    [
      'a required column that is dropped on its way',
      "physicalType: text, required: true, customProperties: [{property: piiAction, value: 'drop'}]",
      null,
    ],
  ])('takes %s', (_name, column, there) => {
    expect(conflicts(column, there)).toEqual([]);
  });

  it.each([
    [
      'text for a number',
      'physicalType: integer',
      live('text'),
      /integer in its contract 1\.2\.0 and text at the source/,
    ],
    ['a decimal for a number', 'physicalType: bigint', live('numeric(20,4)'), /physicalType: 'numeric\(20,4\)'/],
    ['a number for text', 'physicalType: text', live('integer'), /logicalType: integer/],
    ['a scalar for an array', "physicalType: 'integer[]'", live('integer'), /integer\[\]/],
    ['a zone', 'physicalType: timestamp', live('timestamp with time zone'), /timestamp/],
    ['a required column that is gone', 'physicalType: integer, required: true', null, /^10: .*required: false/],
  ])('refuses %s, and says the edit', (_name, column, there, expected) => {
    const found = conflicts(column, there);
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(expected);
  });
});
