import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { addColumns } from './add-columns.ts';
import type { CatalogColumn, CatalogTable } from './catalog.ts';
import { lintContract } from './lint.ts';

const column = (name: string, pgType: string, extra: Partial<CatalogColumn> = {}): CatalogColumn => ({
  name,
  pgType,
  baseType: null,
  kind: 'base',
  enumLabels: null,
  notNull: false,
  keyPosition: 0,
  ...extra,
});

const HEAD = 'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active\nschema:\n';
const LIVE: CatalogTable = {
  schema: 'public',
  table: 't',
  columns: [
    column('id', 'bigint', { keyPosition: 1, notNull: true }),
    column('mood', 'mood', { kind: 'enum', enumLabels: ['a', 'b'], notNull: true }),
    column('tags', 'text[]', { kind: 'array', baseType: 'text' }),
  ],
};

describe('addColumns', () => {
  it.each([
    [
      'at the end of the file',
      `${HEAD}  - name: t\n    properties:\n      # the key\n      - name: id # mine\n        logicalType: integer\n        logicalTypeOptions: {minimum: 1.0, maximum: 9007199254740993}\n        primaryKey: true\n`,
    ],
    [
      'before what follows',
      `${HEAD}  - name: t\n    properties:\n      - {name: id, logicalType: integer, primaryKey: true} # mine\nslaProperties: []\n`,
    ],
    [
      'in a list that is not indented',
      `${HEAD}- name: t\n  properties:\n  - name: id\n    logicalType: integer\n    primaryKey: true\n\n# the end\nteam: {name: x}\n`,
    ],
    [
      'behind a column that stands for another',
      `${HEAD}  - name: t\n    properties:\n      - &a\n        <<: {name: id, logicalType: integer}\n        primaryKey: true\nservers: []\ntags: [a]\n`,
    ],
    [
      'without a last line break',
      `${HEAD}  - name: t\n    properties:\n      - name: id\n        logicalType: integer\n        primaryKey: true`,
    ],
  ])('adds lines %s, and changes none', (_name, text) => {
    const grown = addColumns(text, 'x', LIVE);
    const { contract, findings } = lintContract(grown, 'x');
    expect(findings.filter((finding) => finding.level === 'error')).toEqual([]);
    expect(contract?.tables[0]?.columns.map((entry) => [entry.name, entry.required])).toEqual([
      ['id', false],
      ['mood', false],
      ['tags', false],
    ]);
    expect(contract?.tables[0]?.columns[1]?.allowedValues).toEqual(['a', 'b']);
    const kept = grown.split('\n');
    let at = 0;
    for (const line of text.split('\n')) {
      at = kept.indexOf(line, at);
      expect([line, at >= 0]).toEqual([line, true]);
    }
    expect(addColumns(grown, 'x', LIVE)).toBe(grown);
  });

  it('gives ids that are free', () => {
    const text = `${HEAD}  - name: t\n    properties:\n      - {id: mood, name: id, logicalType: integer, primaryKey: true}\n`;
    const { contract } = lintContract(addColumns(text, 'x', LIVE), 'x');
    expect(contract?.tables[0]?.columns.map((entry) => entry.id)).toEqual(['mood', 'mood_2', 'tags']);
  });

  it('grows the shipped examples', () => {
    const text = readFileSync('contracts/example.accounts.odcs.yaml', 'utf8');
    const { contract } = lintContract(text, 'x');
    const columns = contract?.tables[0]?.columns ?? [];
    const live: CatalogTable = {
      schema: 'example',
      table: 'accounts',
      columns: [...columns.map((entry) => column(entry.name, 'text')), column('fresh', 'numeric')],
    };
    const grown = addColumns(text, 'x', live);
    expect(lintContract(grown, 'x').contract?.tables[0]?.columns.at(-1)).toMatchObject({
      name: 'fresh',
      physicalTypes: { delta: 'string' },
    });
    expect(grown.length - text.length).toBeLessThan(250);
  });

  it.each([
    ['[{name: id, logicalType: integer, primaryKey: true}]'],
    ['[{name: id, logicalType: integer, primaryKey: true}, ]'],
    ['[\n      {name: id, logicalType: integer, primaryKey: true} # mine\n    ]'],
  ])('adds to a list in flow style: %j', (list) => {
    const grown = addColumns(`${HEAD}  - name: t\n    properties: ${list}\nteam: {name: x}\n`, 'x', LIVE);
    const { contract, findings } = lintContract(grown, 'x');
    expect(findings.filter((finding) => finding.level === 'error')).toEqual([]);
    expect(contract?.tables[0]?.columns.map((entry) => entry.name)).toEqual(['id', 'mood', 'tags']);
    expect(contract?.owner).toBe('x');
  });
});
