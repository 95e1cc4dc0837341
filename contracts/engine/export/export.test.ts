import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { officialValidators } from '../corpus/official.ts';
import { readDdl } from '../infer-ddl.ts';
import { lintContract } from '../lint.ts';
import type { Contract, TableContract } from '../model.ts';
import { ContractError, parseContract } from '../parse.ts';
import { exportContract } from './export-contract.ts';
import type { ExportTarget } from './export-contract.ts';

const TEXT = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.orders
version: 1.2.0
status: active
schema:
  - name: orders
    physicalName: public.orders
    description: It's all orders
    quality:
      - {id: rows, metric: rowCount, mustBeGreaterThan: 0}
      - {id: pair, metric: duplicateValues, arguments: {properties: [ref, email]}, mustBe: 0}
    properties:
      - {name: id, logicalType: integer, logicalTypeOptions: {format: i64, minimum: 1}, physicalType: bigint, primaryKey: true, required: true}
      - {name: ref, logicalType: string, logicalTypeOptions: {format: uuid}, physicalType: uuid, unique: true}
      - {name: email, logicalType: string, logicalTypeOptions: {maxLength: 320}, physicalType: varchar(320), customProperties: [{property: piiAction, value: hash}]}
      - {name: ssn, logicalType: string, physicalType: text, customProperties: [{property: piiAction, value: drop}]}
      - {name: status, logicalType: string, physicalType: order_status, required: true, quality: [{id: ok, metric: invalidValues, arguments: {validValues: [new, "it's"]}, mustBe: 0}]}
      - {name: total, logicalType: number, logicalTypeOptions: {minimum: 0, multipleOf: 0.10}, physicalType: 'numeric(12,2)'}
      - {name: body, logicalType: object, physicalType: jsonb, properties: [{name: a, logicalType: string}]}
      - {name: pdf, logicalType: string, logicalTypeOptions: {format: binary}, physicalType: bytea}
      - {name: tags, logicalType: array, physicalType: 'text[]', items: {logicalType: string}}
      - {name: 'a b', logicalType: timestamp, logicalTypeOptions: {timezone: false}, physicalType: timestamp}
`;

function load(text: string): readonly [Contract, TableContract] {
  const { contract, findings } = parseContract(text, 'x');
  const table = contract?.tables[0];
  if (contract === null || table === undefined) throw new ContractError(findings);
  return [contract, table];
}
const run = (target: ExportTarget, text = TEXT) => exportContract(...load(text), target);

describe('exports', () => {
  it('delta-ddl has only Delta words (the peer writes jsonb, bytea, order_status) and no dropped column', () => {
    const { text, lossy } = run('delta-ddl');
    expect(text).toBe(`CREATE TABLE \`public\`.\`orders\` (
  \`id\` BIGINT NOT NULL,
  \`ref\` STRING,
  \`email\` STRING,
  \`status\` STRING NOT NULL,
  \`total\` DECIMAL(12,2),
  \`body\` STRING,
  \`pdf\` BINARY,
  \`tags\` ARRAY<STRING>,
  \`a_b\` TIMESTAMP_NTZ
) USING DELTA
COMMENT 'It\\'s all orders';
`);
    expect(lossy.map((item) => item.subject)).toContain('orders.rows');
  });

  it('delta-constraints let NULL pass (delta-rs #4183)', () => {
    const { text } = run('delta-constraints');
    expect(text).toContain('ADD CONSTRAINT total_minimum CHECK (`total` IS NULL OR `total` >= 0);');
    expect(text).toContain("CHECK (`status` IS NULL OR `status` IN ('new', 'it\\'s'));");
    // The lake has the pseudonym, whose length is another.
    expect(text).not.toContain('email');
  });

  it('postgres-ddl can be read back to the same columns, keys and conditions', () => {
    const { text } = run('postgres-ddl');
    const { tables, skipped } = readDdl(text);
    expect(skipped).toEqual([]);
    expect(
      tables[0]?.columns.map((column) => [column.name, column.pgType, column.notNull, column.keyPosition]),
    ).toEqual([
      ['id', 'bigint', true, 1],
      ['ref', 'uuid', false, 0],
      ['email', 'varchar(320)', false, 0],
      ['ssn', 'text', false, 0],
      ['status', 'order_status', true, 0],
      ['total', 'numeric(12,2)', false, 0],
      ['body', 'jsonb', false, 0],
      ['pdf', 'bytea', false, 0],
      ['tags', 'text[]', false, 0],
      ['a b', 'timestamp', false, 0],
    ]);
    expect(tables[0]?.uniques).toEqual([['ref'], ['ref', 'email']]);
    expect(tables[0]?.comment).toBe("It's all orders");
  });

  it('avro makes nullable columns unions with null, whatever else they are', () => {
    const { text, lossy } = run('avro');
    const record = JSON.parse(text) as {
      readonly name: string;
      readonly fields: readonly { readonly name: string; readonly type: unknown }[];
    };
    const type = (name: string): unknown => record.fields.find((field) => field.name === name)?.type;
    expect(type('id')).toBe('long');
    expect(type('total')).toEqual(['null', { type: 'bytes', logicalType: 'decimal', precision: 12, scale: 2 }]);
    expect(type('tags')).toEqual(['null', { type: 'array', items: ['null', 'string'] }]);
    expect(type('a_b')).toEqual(['null', { type: 'long', logicalType: 'local-timestamp-micros' }]);
    expect(type('ssn')).toBeUndefined();
    expect(lossy.map((item) => item.message)).toContain('Avro names have letters, digits and _ only: written as a_b');
  });

  it('jsonschema judges rows in their wire form', () => {
    const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(
      JSON.parse(run('jsonschema').text) as object,
    );
    const row = {
      id: 1,
      ref: null,
      email: 'a',
      ssn: null,
      status: 'new',
      total: '1.50',
      body: '{}',
      pdf: 'AA==',
      tags: ['x', null],
      'a b': null,
    };
    expect(validate(row)).toBe(true);
    expect(validate({ ...row, id: 0 })).toBe(false);
    expect(validate({ ...row, status: 'old' })).toBe(false);
    expect(validate({ ...row, total: 1.5 })).toBe(false);
  });

  it('odcs keeps numbers as written, and gives a contract that means the same', () => {
    const { text, lossy } = run('odcs');
    expect(text).toContain('multipleOf: 0.10');
    expect(lossy).toEqual([]);
    const [again] = load(text);
    const strip = (contract: Contract) => JSON.stringify({ ...contract, source: null });
    expect(strip(again)).toBe(strip(load(TEXT)[0]));
  });

  it('odcs turns 3.0 rules and 3.2 words into 3.1, listing what is lost', () => {
    const old = TEXT.replace('v3.1.0', 'v3.0.2').replace(
      '{id: rows, metric: rowCount, mustBeGreaterThan: 0}',
      '{id: rows, rule: rowCount, mustBeGreaterThan: 0}',
    );
    expect((parse(run('odcs', old).text) as { apiVersion: string }).apiVersion).toBe('v3.1.0');
    expect(run('odcs', old).text).toContain('metric: rowCount');
    const next = TEXT.replace('v3.1.0', 'v3.2.0')
      .replace(
        '{name: ref, logicalType: string,',
        '{name: ref, deprecated: true, synonyms: [{synonym: r}], enum: [{value: a}], logicalType: string,',
      )
      .replace(
        '{name: body, logicalType: object, physicalType: jsonb, properties: [{name: a, logicalType: string}]}',
        '{name: body, logicalType: map, physicalType: hstore, map: {key: {logicalType: string}, value: {logicalType: string}}}',
      );
    const result = run('odcs', next);
    expect(lintContract(result.text, 'x').findings.filter((finding) => finding.level === 'error')).toEqual([]);
    expect(load(result.text)[1].columns[1]).toMatchObject({ deprecated: true, allowedValues: ['a'] });
    expect(result.lossy.map((item) => item.message)).toEqual([
      'synonyms exists in ODCS 3.2 only',
      'logicalType map exists in ODCS 3.2 only; written as object',
    ]);
  });

  it('markdown escapes what would break its tables', () => {
    const { text } = run('markdown', TEXT.replace("description: It's all orders", 'description: a | b <i>'));
    expect(text).toContain('a \\| b &lt;i>');
    expect(text).toContain('| ssn | text | not kept |');
  });

  it.runIf(officialValidators() !== null)(
    'odcs is valid by the official schema, and exporting it again changes nothing',
    () => {
      const once = run('odcs').text;
      const official = officialValidators()?.['3.1'];
      expect(official?.(parse(once)), JSON.stringify(official?.errors)).toBe(true);
      expect(run('odcs', once).text).toBe(once);
    },
  );

  const PROMISES = TEXT.replace(
    'properties: [ref, email]}, mustBe: 0}',
    `properties: [ref, email]}, mustBe: 0}
      - {id: cheap, type: custom, engine: cel, implementation: row.id > 0}
      - {id: sums, type: sql, query: 'SELECT count(*) FROM {object} o JOIN other USING (id)', mustBe: 0}
      - {id: prose, type: text, description: looks right}`,
  )
    .replace(
      '{name: total,',
      '{name: big, logicalType: integer, logicalTypeOptions: {format: i64, maximum: 9007199254740993}, physicalType: bigint, customProperties: [{property: default, value: 5}]}\n      - {name: kind, logicalType: string, physicalType: text, customProperties: [{property: default, value: a}], quality: [{id: kinds, metric: invalidValues, arguments: {validValues: [a, b]}, mustBe: 0}]}\n      - {name: a-b, logicalType: boolean, physicalType: boolean}\n      - {name: total,',
    )
    .concat('slaProperties:\n  - {id: fresh, property: latency, value: 5, unit: minutes, element: orders.id}\n');

  it.each(['jsonschema', 'ajv', 'delta-ddl', 'delta-constraints', 'postgres-ddl', 'avro'] as const)(
    '%s lists rules, service levels and privacy as lost',
    (target) => {
      const subjects = run(target, PROMISES).lossy.map((item) => item.subject);
      for (const subject of [
        'orders.rows',
        'orders.cheap',
        'orders.sums',
        'orders.prose',
        'orders.fresh',
        'orders.email',
        'orders.ssn',
      ])
        expect(subjects, subject).toContain(subject);
      expect(subjects.includes('orders.pair')).toBe(target !== 'postgres-ddl');
    },
  );

  it('jsonschema lists what JSON numbers and decimal text cannot carry', () => {
    const { text, lossy } = run('jsonschema', PROMISES);
    expect(text).toContain('"maximum": 9007199254740993');
    expect(lossy.map((item) => `${item.subject}: ${item.message}`)).toEqual(
      expect.arrayContaining([
        'orders.id: readers that parse JSON numbers as doubles round int64 beyond 2^53',
        'orders.big: maximum 9007199254740993 is rounded by readers with doubles',
        'orders.total: minimum 0 of decimal text cannot be said in JSON Schema',
        'orders.total: multipleOf 0.1 of decimal text cannot be said in JSON Schema',
        'orders.ref: JSON Schema has no place for uniqueness',
      ]),
    );
  });

  it('avro has enums with their own names, defaults of the first branch, and names that do not collide', () => {
    const text = run(
      'avro',
      PROMISES.replace(
        '{name: a-b,',
        '{name: a_b, logicalType: boolean, physicalType: boolean}\n      - {name: a-b,',
      ).replace("{name: 'a b',", "{name: 'b c',"),
    ).text;
    const { fields } = JSON.parse(text) as { readonly fields: readonly { readonly name: string }[] };
    const field = (name: string) => fields.find((each) => each.name === name);
    expect(field('kind')).toEqual({
      name: 'kind',
      type: [{ type: 'enum', name: 'orders_kind', symbols: ['a', 'b'] }, 'null'],
      default: 'a',
    });
    expect(field('big')).toEqual({ name: 'big', type: ['long', 'null'], default: 5 });
    expect(field('a_b')).toMatchObject({ name: 'a_b', default: null });
    expect(field('a_b_2')).toMatchObject({ columnName: 'a-b' });
    // A pseudonym is no uuid.
    expect(field('email')).toMatchObject({ type: ['null', 'string'] });
  });
});
