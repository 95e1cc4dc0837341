/** The exported JSON Schema, compiled by ajv, takes and refuses the same rows as the gate of the same contract. */
import { createRequire } from 'node:module';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as formats from 'ajv-formats';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { compileGate } from '../compile.ts';
import { decisiveAction } from '../gate.ts';
import type { Cell, GateRow } from '../gate.ts';
import { ContractError, parseContract } from '../parse.ts';
import { exportContract } from './export-contract.ts';

const RUNS = { numRuns: Number(process.env['SLUICE_TEST_RUNS'] ?? 60) };

const HEAD = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.things
version: 1.0.0
status: active
schema:
  - name: things
    physicalName: public.things
`;

interface Kind {
  readonly yaml: string;
  /** Cells that are near what the column takes, right and wrong. */
  readonly cells: fc.Arbitrary<Cell>;
}

const digits = fc.constantFrom(
  '0',
  '1',
  '12',
  '-3',
  '1.5',
  '01.50',
  '-0.00',
  '1.555',
  '123456789.12',
  '1234567890',
  '.5',
  '5.',
  'NaN',
  'x',
  '',
);
const dates = fc.constantFrom(
  '2024-02-29',
  '2023-02-29',
  '1900-02-29',
  '2000-02-29',
  '2024-04-31',
  '2024-12-31',
  '0001-01-01',
  '0000-01-01',
  '24-01-01',
  'infinity',
  '0044-03-15 BC',
);
const texts = fc.constantFrom('', 'a', 'new', 'paid', 'abc', 'ab-12', '\u{1F33C}\u{1F33C}\u{1F33C}', 'aaaa', 'N/A');
const whole = fc.constantFrom<Cell>(0, 1, -1, 7, 10, 100, 32_767, 32_768, 2_147_483_647, 2_147_483_648, 1.5, '1');
const quality = (rule: string): string => `quality: [{id: q, ${rule}, mustBe: 0}]`;
const warning = (rule: string): string => `quality: [{id: q, severity: warning, ${rule}, mustBe: 0}]`;
const KINDS: readonly Kind[] = [
  { yaml: 'logicalType: boolean, physicalType: boolean', cells: fc.constantFrom<Cell>(true, false, 'true', 1) },
  {
    yaml: 'logicalType: integer, physicalType: smallint, logicalTypeOptions: {format: i16, minimum: -1}',
    cells: whole,
  },
  {
    yaml: 'logicalType: integer, physicalType: integer, logicalTypeOptions: {format: i32, exclusiveMaximum: 10, multipleOf: 5}',
    cells: whole,
  },
  {
    yaml: 'logicalType: integer, physicalType: bigint, logicalTypeOptions: {format: i64, minimum: 0, maximum: 9223372036854775807}',
    cells: whole,
  },
  {
    yaml: `logicalType: integer, physicalType: integer, ${quality('metric: invalidValues, arguments: {validValues: [1, 7]}')}`,
    cells: whole,
  },
  {
    yaml: `logicalType: integer, physicalType: integer, ${quality('metric: missingValues, arguments: {missingValues: [0, -1]}')}`,
    cells: whole,
  },
  {
    yaml: 'logicalType: number, physicalType: double precision, logicalTypeOptions: {format: f64, minimum: 0}',
    cells: fc.constantFrom<Cell>(0, -0.5, 1e300, '1'),
  },
  { yaml: "logicalType: number, physicalType: 'numeric(10,2)'", cells: digits },
  { yaml: "logicalType: number, physicalType: 'numeric(38,0)'", cells: digits },
  {
    yaml: `logicalType: number, physicalType: 'numeric(10,2)', ${quality('metric: invalidValues, arguments: {validValues: [1.5, 0]}')}`,
    cells: digits,
  },
  {
    yaml: 'logicalType: number, physicalType: numeric, customProperties: [{property: physicalTypes, value: {delta: string}}]',
    cells: digits,
  },
  { yaml: 'logicalType: date, physicalType: date', cells: dates },
  {
    yaml: 'logicalType: date, physicalType: date, customProperties: [{property: onUnrepresentable, value: "null"}]',
    cells: dates,
  },
  {
    yaml: 'logicalType: timestamp, physicalType: timestamptz, logicalTypeOptions: {timezone: true}',
    cells: fc
      .tuple(
        dates,
        fc.constantFrom('', 'T00:00:00Z', 'T23:59:59.123456Z', 'T23:59:59', ' 00:00:00Z', 'T25:00:00Z', 'T01:02:03.Z'),
      )
      .map(([day, time]) => day + time),
  },
  {
    yaml: 'logicalType: timestamp, physicalType: timestamp, logicalTypeOptions: {timezone: false}',
    cells: fc
      .tuple(dates, fc.constantFrom('', 'T00:00:00', 'T23:59:59.1', 'T23:59:59.1234567', 'T00:60:00'))
      .map(([day, time]) => day + time),
  },
  { yaml: 'logicalType: string, physicalType: text, logicalTypeOptions: {minLength: 1, maxLength: 3}', cells: texts },
  { yaml: "logicalType: string, physicalType: text, logicalTypeOptions: {pattern: '^[a-z]+-[0-9]{2}$'}", cells: texts },
  {
    yaml: "logicalType: string, physicalType: text, logicalTypeOptions: {pattern: '^a', maxLength: 3}, quality: [{id: p, metric: invalidValues, arguments: {pattern: 'b'}, mustBe: 0}, {id: v, metric: invalidValues, arguments: {validValues: [abc, ab-12]}, mustBe: 0}]",
    cells: texts,
  },
  {
    yaml: `logicalType: string, physicalType: status, ${quality('metric: invalidValues, arguments: {validValues: [new, paid]}')}`,
    cells: texts,
  },
  {
    yaml: `logicalType: string, physicalType: status, customProperties: [{property: enumOpen, value: true}], ${quality('metric: invalidValues, arguments: {validValues: [new, paid]}')}`,
    cells: texts,
  },
  {
    yaml: `logicalType: string, physicalType: text, ${warning('metric: invalidValues, arguments: {validValues: [new, paid]}')}`,
    cells: texts,
  },
  {
    yaml: 'logicalType: string, physicalType: text, required: true, logicalTypeOptions: {maxLength: 1}, customProperties: [{property: onViolation, value: warn}]',
    cells: texts,
  },
  {
    yaml: `logicalType: string, physicalType: text, ${quality("metric: missingValues, arguments: {missingValues: [null, '', N/A]}")}`,
    cells: texts,
  },
  { yaml: `logicalType: string, physicalType: text, ${quality('metric: nullValues')}`, cells: texts },
  {
    yaml: 'logicalType: string, physicalType: uuid, logicalTypeOptions: {format: uuid}',
    cells: fc.constantFrom(
      '123e4567-e89b-12d3-a456-426614174000',
      '123E4567-E89B-12D3-A456-426614174000',
      '123e4567e89b12d3a456426614174000',
      'urn:uuid:123e4567-e89b-12d3-a456-426614174000',
    ),
  },
  {
    yaml: 'logicalType: string, physicalType: text, logicalTypeOptions: {format: ipv4}',
    cells: fc.constantFrom('1.2.3.4', '1.2.3', '256.1.1.1', '0.0.0.0'),
  },
  {
    yaml: 'logicalType: string, physicalType: bytea, logicalTypeOptions: {format: binary}',
    cells: fc.constantFrom('', 'AA==', 'AAA=', 'AAAA', 'A', 'A===', 'AA=A'),
  },
  {
    yaml: "logicalType: array, physicalType: 'integer[]', items: {logicalType: integer, physicalType: integer, logicalTypeOptions: {minimum: 0}}, logicalTypeOptions: {minItems: 1, maxItems: 2, uniqueItems: true}",
    cells: fc.oneof(fc.array(fc.constantFrom<Cell>(0, 1, -1, null, 'a'), { maxLength: 3 }), fc.constant<Cell>('{1}')),
  },
  {
    yaml: "logicalType: array, physicalType: 'text[]', items: {logicalType: string, required: true, quality: [{id: q, metric: invalidValues, arguments: {validValues: [a, b]}, mustBe: 0}]}",
    cells: fc.array(fc.constantFrom<Cell>('a', 'b', 'c', null), { maxLength: 3 }),
  },
];

const requireFrom = createRequire(import.meta.url);

function judges(kind: Kind, required: boolean) {
  const yaml = kind.yaml.replace('required: true, ', '');
  const text = `${HEAD}    properties:
      - {name: id, logicalType: integer, physicalType: integer, primaryKey: true, required: true}
      - {name: value, ${required ? 'required: true, ' : ''}${yaml}}
`;
  const { contract, findings } = parseContract(text, 'x');
  const table = contract?.tables[0];
  if (contract === null || table === undefined) throw new ContractError(findings);
  const ajv = new Ajv2020({ strict: false, logger: false });
  formats.default.default(ajv);
  const validate = ajv.compile(JSON.parse(exportContract(contract, table, 'jsonschema').text) as object);
  const code = { exports: {} as unknown };
  // oxlint-disable-next-line no-implied-eval, typescript/no-implied-eval -- the export is a program: it is run as its user runs it
  new Function('module', 'exports', 'require', exportContract(contract, table, 'ajv').text)(
    code,
    code.exports,
    requireFrom,
  );
  const standalone = code.exports as (row: unknown) => boolean;
  const gate = compileGate(contract, null);
  return { validate, standalone, gate };
}

describe('jsonschema and ajv exports', () => {
  it.each(KINDS.map((kind) => [kind.yaml, kind] as const))('judge as the gate does: %s', (_name, kind) => {
    for (const required of [false, true]) {
      const { validate, standalone, gate } = judges(kind, required);
      fc.assert(
        fc.property(fc.option(kind.cells, { freq: 8 }), fc.boolean(), (value, absent) => {
          const row: GateRow = absent ? { id: 1 } : { id: 1, value };
          const violations = gate.check('insert', { ...row });
          const taken = violations === null || decisiveAction(violations) === 'warn';
          expect([validate(row), standalone(row)], JSON.stringify(row)).toEqual([taken, taken]);
        }),
        RUNS,
      );
    }
  });
});
