import { describe, expect, it } from 'vitest';

import type { CatalogColumn, CatalogTable } from './catalog.ts';
import { constantDefault, inferContract } from './infer.ts';
import { lintContract } from './lint.ts';

function column(name: string, pgType: string, extra: Partial<CatalogColumn> = {}): CatalogColumn {
  return { name, pgType, baseType: null, kind: 'base', enumLabels: null, notNull: false, keyPosition: 0, ...extra };
}

const orders: CatalogTable = {
  schema: 'public',
  table: 'orders',
  columns: [
    column('tenant_id', 'integer', { notNull: true, keyPosition: 1 }),
    column('order_id', 'bigint', { notNull: true, keyPosition: 2 }),
    column('ref', 'uuid', { notNull: true }),
    column('email', 'character varying(320)'),
    column('status', 'order_status', {
      kind: 'enum',
      enumLabels: ['new', 'paid', 'x,y'],
      notNull: true,
      defaultText: "'new'::order_status",
    }),
    column('total', 'numeric(12,2)', { notNull: true }),
    column('weight', 'numeric'),
    column('tags', 'text[]', { kind: 'array', baseType: 'text' }),
    column('body', 'jsonb'),
    column('created_at', 'timestamp with time zone', { notNull: true, defaultText: 'now()' }),
    column('local_at', 'timestamp without time zone'),
    column('price', 'public.money_amount', { kind: 'domain', baseType: 'numeric(10,2)' }),
    column('shape', 'public.my_type'),
    column('a b', 'text'),
  ],
  uniques: [['ref'], ['tenant_id', 'email']],
  checks: [
    { name: 'total_ok', expression: '(total >= (0)::numeric)' },
    {
      name: 'email_ok',
      expression: "((email)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))",
    },
    { name: 'odd', expression: '(total > weight)' },
  ],
  foreignKeys: [{ columns: ['tenant_id'], table: 'tenants', referenced: ['id'] }],
};

describe('inferContract', () => {
  const result = inferContract(orders, { name: 'shop' });
  const table = result.contract.tables[0];
  const byName = (name: string) => table?.columns.find((candidate) => candidate.name === name);

  it('gives the same text for the same catalog', () => {
    expect(inferContract(orders, { name: 'shop' }).text).toBe(result.text);
  });

  it('keeps key order, NOT NULL, UNIQUE, lengths, timezone flags and arrays', () => {
    expect(byName('order_id')).toMatchObject({
      keyPosition: 2,
      required: true,
      logicalType: 'integer',
      options: { format: 'i64' },
    });
    expect(byName('ref')).toMatchObject({ unique: true, options: { format: 'uuid' } });
    expect(byName('email')?.options.maxLength).toBe(320);
    expect(byName('created_at')?.options.timezone).toBe(true);
    expect(byName('local_at')?.options.timezone).toBe(false);
    expect(byName('tags')?.items?.logicalType).toBe('string');
    expect(table?.rules.find((rule) => rule.id === 'tenant_id_email_unique')).toMatchObject({
      properties: ['tenant_id', 'email'],
    });
  });

  it('keeps enum labels, constant defaults, simple CHECKs as options and the others as SQL', () => {
    expect(byName('status')?.allowedValues).toEqual(['new', 'paid', 'x,y']);
    expect(byName('status')?.default).toBe('new');
    expect(byName('created_at')?.default).toBeUndefined();
    expect(byName('total')?.options.minimum).toBe('0');
    expect(byName('email')?.allowedValues).toEqual(['a', 'b']);
    expect(table?.rules.find((rule) => rule.id === 'odd')).toMatchObject({
      kind: 'sql',
      query: 'SELECT count(*) FROM {object} WHERE NOT ((total > weight))',
    });
    expect(table?.relationships[0]).toMatchObject({ from: ['orders.tenant_id'], to: ['tenants.id'] });
  });

  it('takes a domain as its base and never guesses: bare numeric and unknown types are listed', () => {
    expect(byName('price')?.physicalType).toBe('numeric(10,2)');
    expect(byName('weight')?.physicalTypes.delta).toBe('string');
    expect(result.notes.map((note) => `${note.code} ${note.column ?? ''}`)).toEqual([
      'CHECK_AS_SQL ',
      'CHOICE_NEEDED weight',
      'TYPE_UNKNOWN shape',
    ]);
  });
});

describe('a contract written for types of the database', () => {
  const bases = ['smallint', 'integer', 'bigint', 'oid', 'real', 'numeric(10,2)', 'numeric', 'boolean', 'date'];
  const more = [
    'timestamp with time zone',
    'time without time zone',
    'text',
    'character varying(5)',
    'bytea',
    'uuid',
    'jsonb',
  ];
  // Where a contract is read without the database beside it, its names say nothing.
  it.each([...bases, ...more])('is valid by itself for domains over %s and arrays of them', (base) => {
    const table: CatalogTable = {
      ...orders,
      columns: [
        column('id', 'app.d', { kind: 'domain', baseType: base, notNull: true, keyPosition: 1 }),
        column('many', 'app.d[]', { kind: 'array', baseType: base }),
        column('list', 'app.list', { kind: 'domain', baseType: `${base}[]` }),
      ],
      uniques: [],
      checks: [],
      foreignKeys: [],
    };
    const { text } = inferContract(table, { name: 'shop' });
    const { contract, findings } = lintContract(text, 'd.odcs.yaml');
    expect(findings.filter(({ level }) => level === 'error')).toEqual([]);
    expect(contract).not.toBeNull();
  });
});

describe('constantDefault', () => {
  it.each([
    ["'new'::order_status", 'new'],
    ["'it''s'::text", "it's"],
    ['0', 0],
    ['(0)::numeric', '0'],
    ['12.50', '12.50'],
    ['false', false],
    ['now()', undefined],
    ["nextval('orders_id_seq'::regclass)", undefined],
    [null, undefined],
  ])('%s → %s', (expression, expected) => {
    expect(constantDefault(expression)).toBe(expected);
  });
});
