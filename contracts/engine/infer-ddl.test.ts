import { describe, expect, it } from 'vitest';

import { inferContract } from './infer.ts';
import { readDdl } from './infer-ddl.ts';
import { readDeltaSchema } from './infer-delta.ts';
import { readSamples } from './infer-samples.ts';
import { lintContract } from './lint.ts';

const DDL = `
-- the shop
CREATE TYPE order_status AS ENUM ('new', 'paid', 'it''s; odd');
CREATE DOMAIN price AS numeric(10,2) NOT NULL CHECK (VALUE >= 0);
CREATE TABLE IF NOT EXISTS public.orders (
  id bigserial PRIMARY KEY,
  "Tenant Id" int NOT NULL DEFAULT 1,
  ref uuid UNIQUE,
  status order_status NOT NULL DEFAULT 'new',
  total numeric(12, 2) CHECK (total >= 0 AND total < 1000.50),
  amount price,
  tags text[] DEFAULT '{}',
  weird public.my_type,
  created_at timestamp with time zone DEFAULT now() NOT NULL,
  email character varying(320) /* pii */,
  CONSTRAINT odd CHECK ((total > (id)::numeric)),
  UNIQUE (ref, email),
  FOREIGN KEY ("Tenant Id") REFERENCES tenants (id)
);
ALTER TABLE ONLY public.orders ADD CONSTRAINT orders_email_ok CHECK (email IN ('a', 'b'));
CREATE UNIQUE INDEX ON public.orders (created_at) WHERE total > 0;
COMMENT ON TABLE orders IS 'All orders';
COMMENT ON COLUMN public.orders.email IS 'where to write';
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN; RETURN NEW; END $$;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE tenants (id int, PRIMARY KEY (id));
`;

describe('readDdl', () => {
  const { tables, skipped } = readDdl(DDL);
  const [orders] = tables;
  const { contract, notes, text } = inferContract(orders ?? { schema: '', table: '', columns: [] }, { name: 'shop' });
  const columns = contract.tables[0]?.columns ?? [];
  const column = (name: string) => columns.find((candidate) => candidate.name === name);

  it('reads every column with its type, key, NOT NULL and comment', () => {
    expect(columns.map((candidate) => [candidate.name, candidate.physicalType, candidate.required])).toEqual([
      ['id', 'bigserial', true],
      ['Tenant Id', 'int', true],
      ['ref', 'uuid', false],
      ['status', 'order_status', true],
      ['total', 'numeric(12, 2)', false],
      ['amount', 'numeric(10,2)', true],
      ['tags', 'text[]', false],
      ['weird', 'public.my_type', false],
      ['created_at', 'timestamp with time zone', true],
      ['email', 'character varying(320)', false],
    ]);
    expect(column('id')).toMatchObject({ keyPosition: 1, options: { format: 'i64' } });
    expect(column('email')).toMatchObject({ description: 'where to write', options: { maxLength: 320 } });
    expect(contract.tables[0]?.description).toBe('All orders');
  });

  it('keeps labels, defaults, UNIQUE, CHECKs (of domains, too) and the flag of zoned times (datacontract-cli #1629)', () => {
    expect(column('status')).toMatchObject({ allowedValues: ['new', 'paid', "it's; odd"], default: 'new' });
    expect(column('ref')?.unique).toBe(true);
    expect(column('total')?.options).toEqual({ minimum: '0', exclusiveMaximum: '1000.5' });
    expect(column('amount')?.options.minimum).toBe('0');
    expect(column('email')?.allowedValues).toEqual(['a', 'b']);
    expect(column('created_at')?.options.timezone).toBe(true);
    expect(column('tags')?.items?.physicalType).toBe('text');
    expect(contract.tables[0]?.rules.map((rule) => rule.id)).toContain('odd');
    expect(contract.tables[0]?.rules.find((rule) => rule.id === 'ref_email_unique')).toMatchObject({
      properties: ['ref', 'email'],
    });
  });

  it('lists types that it does not know, and statements that it passed over', () => {
    expect(notes.filter((note) => note.code === 'TYPE_UNKNOWN').map((note) => note.column)).toEqual(['weird']);
    expect(skipped).toEqual([{ line: 24, statement: 'create function f (' }]);
    expect(tables[1]).toMatchObject({ table: 'tenants', columns: [{ name: 'id', keyPosition: 1, notNull: true }] });
  });

  it('gives a contract that lint accepts', () => {
    expect(lintContract(text, 'x').findings.filter((finding) => finding.level === 'error')).toEqual([]);
  });
});

describe('readDeltaSchema', () => {
  it('maps every primitive back and leaves our own columns out', () => {
    const field = (name: string, type: unknown, metadata = {}) => ({ name, type, nullable: true, metadata });
    const table = readDeltaSchema(
      'public',
      't',
      [
        field('id', 'long'),
        field('a_b', 'decimal(12,2)', { 'sluice.sourceName': 'a b' }),
        field('at', 'timestamp_ntz'),
        field('tags', { type: 'array', elementType: 'string', containsNull: true }),
        field('s', { type: 'struct', fields: [] }),
        field('_sluice_lsn', 'long'),
      ],
      ['id'],
    );
    expect(table.columns.map((column) => [column.name, column.pgType, column.keyPosition])).toEqual([
      ['id', 'bigint', 1],
      ['a b', 'numeric(12,2)', 0],
      ['at', 'timestamp without time zone', 0],
      ['tags', 'text[]', 0],
      ['s', 'jsonb', 0],
    ]);
  });
});

describe('readSamples', () => {
  it('finds the narrowest type that holds all values, whatever their order', () => {
    const rows = [
      { id: 1, n: 5, v: '20.5', mixed: 'a', at: '2024-01-02T03:04:05Z', tags: ['x', null] },
      { id: 2, n: 9_007_199_254_740_993n, v: '17.685', mixed: '2024-01-01', at: null, tags: [] },
    ];
    const forward = readSamples(rows, { schema: 's', table: 't', keys: ['id'] });
    const backward = readSamples(rows.toReversed(), { schema: 's', table: 't', keys: ['id'] });
    expect(forward.table).toEqual(backward.table);
    expect(forward.table.columns.map((column) => [column.name, column.pgType, column.notNull])).toEqual([
      ['id', 'integer', true],
      ['n', 'bigint', true],
      ['v', 'numeric', true],
      ['mixed', 'text', true],
      ['at', 'timestamp with time zone', false],
      ['tags', 'text[]', true],
    ]);
    expect(forward.columns.find((column) => column.name === 'at')).toMatchObject({ rows: 2, nulls: 1 });
  });

  it('reads on behind what it does not know of a column', () => {
    const { tables, skipped } = readDdl(`/* a /* nested */ ; comment */
create table parent (id bigint generated always as identity (start 5) primary key, v text storage external unique);
create table child (
  like parent including all,
  k int generated by default as identity,
  p bigint references parent on delete set null on update set default,
  twice int generated always as (k * 2) stored check (twice > 0),
  n int constraint n_there not null deferrable initially deferred default 7
) inherits (old);`);
    const [parent, child] = tables;
    expect(parent?.columns.map(({ name, keyPosition, notNull }) => [name, keyPosition, notNull])).toEqual([
      ['id', 1, true],
      ['v', 0, false],
    ]);
    expect(parent?.uniques).toEqual([['v']]);
    expect(child?.columns.map(({ name, notNull, defaultText }) => [name, notNull, defaultText])).toEqual([
      ['k', true, null],
      ['p', false, null],
      ['twice', false, null],
      ['n', true, '7'],
    ]);
    expect(child?.checks?.map(({ expression }) => expression)).toEqual(['twice > 0']);
    expect(child?.foreignKeys).toEqual([{ columns: ['p'], table: 'parent', referenced: ['id'] }]);
    expect(skipped).toEqual([
      { line: 4, statement: 'like parent' },
      { line: 9, statement: 'inherits old' },
    ]);
  });

  it('follows migrations: columns that go, are renamed or change, labels that come', () => {
    const { tables, skipped } = readDdl(`create type mood as enum ('sad', 'happy');
create table t (id int primary key, a int not null check (a > 0), b varchar(10) unique, c text, m mood, check (b <> c));
create table gone (id int);
alter type mood add value if not exists 'glad' before 'happy';
alter table t drop column c, rename column a to "A b";
alter table t alter b type text using b::text, alter column b set not null, alter column "A b" drop not null;
alter table t rename to kept;
drop table if exists gone, never;`);
    expect(skipped).toEqual([]);
    expect(tables.map(({ table }) => table)).toEqual(['kept']);
    expect(
      tables[0]?.columns.map(({ name, pgType, notNull, enumLabels }) => [name, pgType, notNull, enumLabels]),
    ).toEqual([
      ['id', 'int', true, null],
      ['A b', 'int', false, null],
      ['b', 'text', true, null],
      ['m', 'mood', false, ['sad', 'glad', 'happy']],
    ]);
    expect(tables[0]?.checks?.map(({ expression }) => expression)).toEqual(['"A b" > 0']);
    expect(tables[0]?.uniques).toEqual([['b']]);
  });
});
