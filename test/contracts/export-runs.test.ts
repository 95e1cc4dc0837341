/** What `contracts export` writes is run by those it is written for: PostgreSQL, and Spark with Delta. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { exportContract } from '../../contracts/engine/export/export-contract.ts';
import { inferContract } from '../../contracts/engine/infer.ts';
import { readDdl } from '../../contracts/engine/infer-ddl.ts';
import type { Contract, TableContract } from '../../contracts/engine/model.ts';
import { ContractError, parseContract } from '../../contracts/engine/parse.ts';
import { getPostgres } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { withSpark } from '../judges/judge.ts';

const suite = await requires('exports on a real server', 'pg15');
const sparkSuite = await requires('exports in Spark', 'python', 'spark');

const CONTRACT = `apiVersion: v3.1.0
kind: DataContract
id: shop.Odd Schema.orders
version: 1.0.0
status: active
schema:
  - name: "Order's"
    physicalName: "Odd Schema.Order's"
    description: It's "all" orders
    customProperties: [{property: replicaIdentity, value: full}]
    quality:
      - {id: rows, metric: rowCount, mustBeGreaterThan: 0}
      - {id: pair, metric: duplicateValues, arguments: {properties: [ref, E-Mail]}, mustBe: 0}
      - {id: order_of_times, type: sql, query: 'SELECT count(*) FROM {object} WHERE NOT ((paid_at >= created_at) OR (status = ''new''))', mustBe: 0}
    properties:
      - {name: order id, logicalType: integer, logicalTypeOptions: {format: i64, minimum: 1}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 2, required: true}
      - {name: Tenant, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: ref, logicalType: string, logicalTypeOptions: {format: uuid, pattern: '^[0-9a-f-]+$'}, physicalType: uuid, unique: true}
      - {name: E-Mail, logicalType: string, logicalTypeOptions: {maxLength: 320, minLength: 3}, physicalType: varchar(320), description: it's where to write}
      - {name: status, logicalType: string, physicalType: order_status, required: true, customProperties: [{property: default, value: new}], quality: [{id: ok, metric: invalidValues, arguments: {validValues: [new, "it's"]}, mustBe: 0}]}
      - {name: moods, logicalType: array, physicalType: 'mood[]', items: {logicalType: string, physicalType: mood, quality: [{id: m, metric: invalidValues, arguments: {validValues: [sad, ok]}, mustBe: 0}]}}
      - {name: total, logicalType: number, logicalTypeOptions: {minimum: 0, multipleOf: 0.05}, physicalType: 'numeric(12,2)'}
      - {name: price, logicalType: number, physicalType: euro}
      - {name: ratio, logicalType: number, logicalTypeOptions: {format: f64, exclusiveMaximum: 1.5, multipleOf: 0.5}, physicalType: double precision}
      - {name: body, logicalType: object, physicalType: jsonb}
      - {name: pdf, logicalType: string, logicalTypeOptions: {format: binary, maxLength: 4}, physicalType: bytea}
      - {name: tags, logicalType: array, logicalTypeOptions: {minItems: 1, maxItems: 3}, physicalType: 'text[]', items: {logicalType: string}}
      - {name: day, logicalType: date, logicalTypeOptions: {minimum: '2020-01-01'}, physicalType: date}
      - {name: created_at, logicalType: timestamp, logicalTypeOptions: {timezone: true, minimum: '2020-01-01T00:00:00'}, physicalType: timestamptz}
      - {name: paid_at, logicalType: timestamp, logicalTypeOptions: {timezone: false, maximum: '2999-01-01T00:00:00'}, physicalType: timestamp}
      - {name: note, logicalType: string, physicalType: text, quality: [{id: no_na, metric: missingValues, arguments: {missingValues: ['', N/A]}, mustBe: 0}]}
      - {name: code, logicalType: string, physicalType: text, logicalTypeOptions: {pattern: '^[A-Z]{2}\\d+$'}}
`;

function load(text: string): readonly [Contract, TableContract] {
  const { contract, findings } = parseContract(text, 'x');
  const table = contract?.tables[0];
  if (contract === null || table === undefined) throw new ContractError(findings);
  return [contract, table];
}

suite('postgres-ddl', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
  });
  afterAll(async () => {
    await database.close();
  });

  it('runs on an empty database, and the table refuses what the contract refuses', async () => {
    const { before, text } = exportContract(...load(CONTRACT), 'postgres-ddl');
    await database.query([...(before ?? []), text].join('\n'));
    const good: Record<string, string> = {
      'order id': '1',
      Tenant: '1',
      ref: `'123e4567-e89b-12d3-a456-426614174000'`,
      'E-Mail': `'a@b.example'`,
      status: `'it''s'`,
      moods: `'{sad,NULL}'`,
      total: '143.45',
      price: '1',
      ratio: '1',
      body: `'{}'`,
      pdf: String.raw`'\x01'`,
      tags: `'{a}'`,
      day: `'2020-01-01'`,
      created_at: `'2020-01-01T00:00:00Z'`,
      paid_at: `'2999-01-01'`,
      note: `'x'`,
      code: `'AB1'`,
    };
    const insert = (row: Record<string, string>): Promise<unknown> =>
      database.query(
        `insert into "Odd Schema"."Order's" (${Object.keys(row)
          .map((name) => `"${name}"`)
          .join(', ')}) values (${Object.values(row).join(', ')})`,
      );
    await insert(good);
    const next = { ...good, 'order id': '2', ref: 'NULL' };
    const wrong: Record<string, string> = {
      'order id': '0',
      Tenant: 'NULL',
      ref: good['ref'] ?? '',
      'E-Mail': `'a'`,
      status: `'paid'`,
      moods: `'{glad}'`,
      total: '-0.05',
      ratio: '1.5',
      pdf: String.raw`'\x0102030405'`,
      tags: `'{a,b,c,d}'`,
      day: `'2019-12-31'`,
      created_at: `'2019-12-31T23:59:59Z'`,
      paid_at: `'2999-01-02'`,
      note: `'N/A'`,
      code: `'ab1'`,
    };
    for (const [name, value] of Object.entries(wrong))
      await expect(insert({ ...next, [name]: value }), `${name} ${value}`).rejects.toThrow();
    await expect(insert({ ...next, total: '0.01' })).rejects.toThrow(/check/);
    // NULL passes every CHECK, as it passes the contract.
    await insert({ 'order id': '3', Tenant: '1' });
  });

  it('is read back by infer as the same contract', () => {
    const ddl = `
      CREATE SCHEMA sales;
      CREATE TYPE mood AS ENUM ('sad', 'it''s');
      CREATE TABLE sales."Odd Name" (
        "Tenant Id" int NOT NULL DEFAULT 1,
        id bigint CHECK (id >= 1),
        ref uuid UNIQUE,
        email varchar(320) NOT NULL,
        name text CHECK (char_length(name) <= 40) CHECK (name IN ('a', 'b''c')),
        m mood DEFAULT 'sad',
        total numeric(12,2) CHECK (total > 0 AND total <= 1000.50),
        step numeric(10,2) CHECK (step % 0.05 = 0),
        tags text[] CHECK (cardinality(tags) <= 3),
        at timestamptz NOT NULL, local timestamp, day date, body jsonb, raw bytea, ok boolean DEFAULT true,
        CONSTRAINT later CHECK (at > '2020-01-01' OR day IS NULL),
        PRIMARY KEY (id, "Tenant Id"), UNIQUE (email, name)
      );
      COMMENT ON TABLE sales."Odd Name" IS 'it''s';
      COMMENT ON COLUMN sales."Odd Name".email IS 'where';`;
    const infer = (text: string): string => {
      const { tables, skipped } = readDdl(text);
      expect(skipped).toEqual([]);
      const [table] = tables;
      if (table === undefined) throw new Error(`no table in ${text}`);
      return inferContract(table, { name: 'shop' }).text;
    };
    const first = infer(ddl);
    const { before, text, lossy } = exportContract(...load(first), 'postgres-ddl');
    expect(infer([...(before ?? []), text].join('\n'))).toBe(first);
    expect(lossy).toEqual([]);
  });
});

sparkSuite('Delta', () => {
  it('takes delta-ddl and delta-constraints, which hold', async () => {
    const physical = CONTRACT.replace(`"Odd Schema.Order's"`, 'shop.orders');
    const { text: create } = exportContract(...load(physical), 'delta-ddl');
    const { text: constraints } = exportContract(...load(physical), 'delta-constraints');
    const statements = [create, ...constraints.split(/;\n/)]
      .map((each) => each.trim().replace(/;$/, ''))
      .filter(Boolean);
    expect(statements.length).toBeGreaterThan(12);
    const columns = '`order_id`, `Tenant`, `status`, `total`, `code`';
    const [found] = (
      await withSpark([
        'CREATE SCHEMA shop',
        ...statements,
        `INSERT INTO shop.orders (${columns}) VALUES (1, 1, 'it\\'s', 1.05, 'AB12'), (2, 1, 'new', NULL, NULL)`,
        'SELECT order_id, status FROM shop.orders',
      ])
    ).slice(-1);
    expect(found).toHaveLength(2);
    expect(found?.[0]).toContain("it's");
    await expect(
      withSpark([
        'CREATE SCHEMA shop',
        ...statements,
        `INSERT INTO shop.orders (${columns}) VALUES (1, 1, 'its', 1.05, 'AB12')`,
      ]),
    ).rejects.toThrow(/status_values/);
  });
});
