import { describe, expect, it } from 'vitest';

import { compileGate } from './compile.ts';
import type { GateOptions } from './compile.ts';
import type { Gate, GateOp, GateRow } from './gate.ts';
import { decisiveAction } from './gate.ts';
import { ContractError, parseContract } from './parse.ts';

const HEAD = 'apiVersion: v3.1.0\nkind: DataContract\nid: shop.public.t\nversion: 1.0.0\nstatus: active\n';

function gate(columns: string, table = '', options: GateOptions = {}, api = 'v3.1.0'): Gate {
  const text = `${HEAD.replace('v3.1.0', api)}schema:\n  - name: t\n${table}    properties:\n      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}\n${columns}`;
  const { contract, findings } = parseContract(text, 't.odcs.yaml');
  if (contract === null) throw new ContractError(findings);
  return compileGate(contract, null, options);
}

/** `code column action` of each violation, or [] for a clean row. */
function outcome(subject: Gate, row: GateRow, op: GateOp = 'insert'): string[] {
  return (subject.check(op, { id: 1, ...row }) ?? []).map((v) => [v.code, v.ruleId, v.action].join(' '));
}

describe('wire forms and what the lake can hold', () => {
  it.each([
    ['smallint', 32_767, 32_768],
    ['integer', -2_147_483_648, -2_147_483_649],
    ['bigint', 9_223_372_036_854_775_807n, 9_223_372_036_854_775_808n],
    ['bigint', 9_007_199_254_740_993n, '9007199254740993'],
    ['oid', 4_294_967_295, 4_294_967_296],
    ['boolean', true, 't'],
    ['double precision', Number.NaN, 'NaN'],
    ['numeric(12,2)', '143.48', '1,5'],
    ['numeric', '1e-30', '12a'],
    ['text', 'x', 1],
    ['bytea', 'AAEC', 'AAE'],
    ['date', '15000-01-01', '2024-02-30'],
    ['timestamp', '2024-01-02T03:04:05.123456', '2024-01-02T03:04:05Z'],
    ['timestamptz', '294276-12-31T23:59:59.999999Z', '2024-01-02 03:04:05+00'],
  ])('%s takes %s and refuses %s as TYPE', (type, good, bad) => {
    const subject = gate(`      - {name: v, physicalType: '${type}'}\n`);
    expect(outcome(subject, { v: good })).toEqual([]);
    expect(outcome(subject, { v: null })).toEqual([]);
    expect(outcome(subject, { v: bad })).toEqual(['TYPE type:v quarantine']);
  });

  it.each([
    ['numeric(12,2)', 'NaN'],
    ['numeric(12,2)', 'Infinity'],
    ['numeric(12,2)', '12345678901.00'],
    ['numeric(12,2)', '0.001'],
    ['date', 'infinity'],
    ['date', '0044-03-15 BC'],
    ['timestamptz', '-infinity'],
    ['timestamptz', '0001-12-31T23:40:28Z BC'],
  ])('%s %s has no place in the lake: quarantine, null or fail as the contract says', (type, value) => {
    const column = (policy: string): string =>
      `      - {name: v, physicalType: '${type}', customProperties: [{property: onUnrepresentable, value: ${policy}}]}\n`;
    expect(outcome(gate(column('quarantine')), { v: value })).toEqual(['UNREPRESENTABLE representable:v quarantine']);
    expect(outcome(gate(column('fail')), { v: value })).toEqual(['UNREPRESENTABLE representable:v fail']);
    const nulling = gate(column("'null'"));
    const row: GateRow = { id: 1, v: value };
    expect(nulling.check('insert', row)?.map((v) => v.action)).toEqual(['warn']);
    expect(row['v']).toBeNull();
    expect(nulling.nulled.get('v')).toBe(1);
  });

  it('does not judge the bounds of a value that it has replaced by NULL', () => {
    const subject = gate(
      "      - {name: v, logicalType: number, logicalTypeOptions: {maximum: 5}, physicalType: 'numeric(12,2)', customProperties: [{property: onUnrepresentable, value: 'null'}]}\n",
    );
    expect(outcome(subject, { v: 'NaN' })).toEqual(['UNREPRESENTABLE representable:v warn']);
    expect(outcome(subject, { v: '6' })).toEqual(['BOUND maximum:v quarantine']);
  });

  it('keeps every text when the contract maps the column to string', () => {
    const subject = gate(
      "      - {name: n, physicalType: 'numeric(12,2)', customProperties: [{property: physicalTypes, value: {delta: string}}]}\n" +
        '      - {name: d, physicalType: date, customProperties: [{property: physicalTypes, value: {delta: string}}]}\n',
    );
    expect(outcome(subject, { n: 'NaN', d: '0044-03-15 BC' })).toEqual([]);
  });

  it('takes one-dimensional arrays, and text of another shape only in a string column', () => {
    const subject = gate(
      '      - {name: a, physicalType: "int[]", logicalType: array, items: {logicalType: integer, logicalTypeOptions: {format: i32, minimum: 0}}}\n',
    );
    expect(outcome(subject, { a: [1, null, 2] })).toEqual([]);
    expect(outcome(subject, { a: '[0:2]={1,2,3}' })).toEqual(['ARRAY_SHAPE type:a quarantine']);
    expect(outcome(subject, { a: [1, 'x'] })).toEqual(['TYPE type:a quarantine']);
    expect(outcome(subject, { a: [1, -1] })).toEqual(['BOUND items.minimum:a quarantine']);
    const asText = gate(
      '      - {name: a, physicalType: "int[]", logicalType: array, customProperties: [{property: physicalTypes, value: {delta: string}}]}\n',
    );
    expect(outcome(asText, { a: '{{1},{2}}' })).toEqual([]);
  });
});

describe('options', () => {
  it('counts code points, not UTF-16 units (varchar(2) holds two emoji)', () => {
    const subject = gate(
      '      - {name: s, logicalType: string, logicalTypeOptions: {minLength: 1, maxLength: 2}, physicalType: varchar(2)}\n',
    );
    expect(outcome(subject, { s: '😀😀' })).toEqual([]);
    expect(outcome(subject, { s: '😀😀x' })).toEqual(['LENGTH maxLength:s quarantine']);
    expect(outcome(subject, { s: '' })).toEqual(['LENGTH minLength:s quarantine']);
  });

  it('divides decimals exactly: 143.48 is a multiple of 0.01 (ajv #2329)', () => {
    const subject = gate(
      "      - {name: v, logicalType: number, logicalTypeOptions: {multipleOf: 0.01, minimum: 0, exclusiveMaximum: 1000.5}, physicalType: 'numeric(12,3)'}\n",
    );
    expect(outcome(subject, { v: '143.48' })).toEqual([]);
    expect(outcome(subject, { v: '143.485' })).toEqual(['BOUND multipleOf:v quarantine']);
    expect(outcome(subject, { v: '-0.01' })).toEqual(['BOUND minimum:v quarantine']);
    expect(outcome(subject, { v: '-0.00' })).toEqual([]);
    expect(outcome(subject, { v: '1000.500' })).toEqual(['BOUND exclusiveMaximum:v quarantine']);
  });

  it.each([
    ['u8', 'integer', [0, 255], [-1, 256]],
    ['i8', 'bigint', [-128, 127], [-129, 128]],
    ['u32', 'bigint', [4_294_967_295], [4_294_967_296, -1]],
    ['u64', "'numeric(20,0)'", ['18446744073709551615'], ['18446744073709551616', '-1']],
    ['i64', 'bigint', [9_223_372_036_854_775_807n], []],
  ] as const)('takes the format %s of %s for a range', (format, type, good, bad) => {
    const subject = gate(
      `      - {name: v, logicalType: integer, logicalTypeOptions: {format: ${format}}, physicalType: ${type}}\n`,
    );
    for (const v of good) expect(outcome(subject, { v })).toEqual([]);
    for (const v of bad) expect(outcome(subject, { v })).toEqual([expect.stringMatching(/^BOUND (?:min|max)imum:v/)]);
  });

  it('tests keys of maps, and days and formats inside documents', () => {
    const subject = gate(
      '      - {name: m, logicalType: map, physicalType: jsonb, map: {key: {logicalType: string, logicalTypeOptions: {maxLength: 1}}, value: {logicalType: integer, logicalTypeOptions: {format: u8}}}}\n' +
        "      - {name: d, logicalType: object, physicalType: jsonb, properties: [{name: day, logicalType: date, logicalTypeOptions: {minimum: '1900-01-01', exclusiveMaximum: '2000-01-01'}}]}\n",
      '',
      {},
      'v3.2.0',
    );
    const fault = (row: GateRow): string | undefined =>
      subject.check('insert', { id: 1, m: null, d: null, ...row })?.[0]?.message;
    expect(fault({ m: '{"a":255}', d: '{"day":"1999-12-31"}' })).toBeUndefined();
    expect(fault({ m: '{"ab":1}' })).toBe('expected {key}: text of 0 to 1 characters');
    expect(fault({ m: '{"a":256}' })).toBe('expected {}: at most 255');
    expect(fault({ d: '{"day":"1899-12-31"}' })).toBe('expected day: at least 1900-01-01');
    expect(fault({ d: '{"day":"2000-01-01"}' })).toBe('expected day: below 2000-01-01');
  });

  it('compares int64 beyond 2^53 exactly', () => {
    const subject = gate(
      '      - {name: v, logicalType: integer, logicalTypeOptions: {format: i64, maximum: 9007199254740993}, physicalType: bigint}\n',
    );
    expect(outcome(subject, { v: 9_007_199_254_740_993n })).toEqual([]);
    expect(outcome(subject, { v: 9_007_199_254_740_994n })).toEqual(['BOUND maximum:v quarantine']);
  });

  it('compares dates and times as texts, infinity included', () => {
    const subject = gate(
      "      - {name: d, logicalType: timestamp, logicalTypeOptions: {timezone: true, minimum: '2020-01-01', maximum: '2030-01-01T00:00:00+01:00'}, physicalType: timestamptz}\n",
    );
    expect(outcome(subject, { d: '2020-01-01T00:00:00Z' })).toEqual([]);
    expect(outcome(subject, { d: '2019-12-31T23:59:59.999999Z' })).toEqual(['BOUND minimum:d quarantine']);
    expect(outcome(subject, { d: '2029-12-31T23:00:00Z' })).toEqual([]);
    expect(outcome(subject, { d: '2029-12-31T23:00:00.000001Z' })).toEqual(['BOUND maximum:d quarantine']);
    expect(outcome(subject, { d: '15000-01-01T00:00:00Z' })).toEqual(['BOUND maximum:d quarantine']);
  });

  it('runs patterns in linear time and refuses lookaround', () => {
    const pattern = (text: string): Gate =>
      gate(`      - {name: s, logicalType: string, logicalTypeOptions: {pattern: '${text}'}, physicalType: text}\n`);
    expect(outcome(pattern('^(a+)+$'), { s: `${'a'.repeat(5000)}!` })).toEqual(['PATTERN pattern:s quarantine']);
    expect(outcome(pattern('b\\d'), { s: 'ab1' })).toEqual([]);
    expect(() => pattern('(?=a)b')).toThrow(/lookahead/);
    expect(() => pattern('(a)\\1')).toThrow(/back-reference/);
  });

  it.each([
    ['uuid', '123e4567-e89b-12d3-a456-426614174000', '123e4567e89b12d3a456426614174000'],
    ['email', 'ana@example.com', 'ana@@example'],
    ['uri', 'https://example.com/a?b=1', 'example.com/a b'],
  ])('format %s', (format, good, bad) => {
    const subject = gate(
      `      - {name: s, logicalType: string, logicalTypeOptions: {format: ${format}}, physicalType: text}\n`,
    );
    expect(outcome(subject, { s: good })).toEqual([]);
    expect(outcome(subject, { s: bad })).toEqual([`FORMAT format:s quarantine`]);
  });

  it('looks into json columns that the contract describes, without losing digits', () => {
    const subject = gate(
      '      - {name: j, logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: sku, logicalType: string, required: true}, {name: qty, logicalType: integer, logicalTypeOptions: {minimum: 1, maximum: 9007199254740993}}]}}\n',
    );
    expect(outcome(subject, { j: '[{"sku": "a", "qty": 9007199254740993}]' })).toEqual([]);
    expect(outcome(subject, { j: '[{"sku": "a", "qty": 9007199254740994}]' })).toEqual(['TYPE document:j quarantine']);
    expect(outcome(subject, { j: '{"sku": 1}' })).toEqual(['TYPE document:j quarantine']);
    expect(subject.check('insert', { id: 1, j: '[{"qty": 1}]' })?.[0]?.message).toBe('expected []: a property sku');
  });
});

describe('operations', () => {
  const columns =
    '      - {name: a, logicalType: string, physicalType: text, required: true, quality: [{id: a_ok, metric: invalidValues, arguments: {validValues: [x, y]}, mustBe: 0}]}\n';

  it('never lets a required column block a delete that carries the key only (airbyte #8557)', () => {
    expect(outcome(gate(columns), {}, 'delete')).toEqual([]);
    expect(
      gate(columns)
        .check('delete', { id: null })
        ?.map((v) => v.code),
    ).toEqual(['KEY_NULL']);
    expect(
      gate(columns)
        .check('delete', {})
        ?.map((v) => `${v.code} ${v.action}`),
    ).toEqual(['KEY_NULL fail']);
  });

  it('takes an absent column of an update as unchanged: rules on it are skipped and counted', () => {
    const subject = gate(columns);
    expect(outcome(subject, {}, 'update')).toEqual([]);
    expect(outcome(subject, {}, 'update')).toEqual([]);
    expect(subject.skipped.get('a_ok')).toBe(2);
    expect(outcome(subject, { a: null }, 'update')).toEqual(['REQUIRED required:a quarantine']);
    expect(outcome(subject, {}, 'insert')).toEqual(['REQUIRED required:a quarantine']);
    expect(outcome(subject, { a: 'z' }, 'snapshot')).toEqual(['ENUM a_ok quarantine']);
  });
});

describe('actions', () => {
  it('follows severity, then the rule, the column, the table', () => {
    const rule = (extra: string): string =>
      `      - {name: a, logicalType: string, physicalType: text, quality: [{id: r, metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0${extra}}]}\n`;
    expect(outcome(gate(rule(', severity: warning')), { a: 'z' })).toEqual(['ENUM r warn']);
    expect(outcome(gate(rule('')), { a: 'z' })).toEqual(['ENUM r quarantine']);
    const table = '    customProperties: [{property: onViolation, value: fail}]\n';
    expect(outcome(gate(rule(''), table), { a: 'z' })).toEqual(['ENUM r fail']);
    expect(
      outcome(gate(rule(', customProperties: [{property: onViolation, value: quarantine}]'), table), { a: 'z' }),
    ).toEqual(['ENUM r quarantine']);
  });

  it('records every failed rule in order of evaluation; the first that is no warning decides', () => {
    const subject = gate(
      '      - {name: a, logicalType: string, physicalType: text, logicalTypeOptions: {maxLength: 1}}\n      - {name: b, physicalType: integer}\n',
      '    customProperties: [{property: unknownColumns, value: quarantine}]\n    quality: [{id: cel1, type: custom, engine: cel, implementation: \'row.a == "x"\', severity: info}]\n',
    );
    const found = subject.check('insert', { id: 1, a: 'long', b: 'no', zz: 1 });
    expect(found?.map((v) => v.ruleId)).toEqual(['unknown:zz', 'type:b', 'maxLength:a', 'cel1']);
    expect(decisiveAction(found ?? [])).toBe('quarantine');
    expect(subject.check('insert', { id: 1, a: 'y', b: 1 })?.map((v) => v.action)).toEqual(['warn']);
  });

  it('obeys unknownColumns, and counts unknown columns whatever it says', () => {
    const policy = (value: string): Gate =>
      gate('', `    customProperties: [{property: unknownColumns, value: ${value}}]\n`);
    expect(outcome(policy('fail'), { x: 1 })).toEqual(['UNKNOWN_COLUMN unknown:x fail']);
    const evolving = policy('evolve');
    expect(outcome(evolving, { x: 1, y: undefined })).toEqual([]);
    expect([...evolving.unknownColumns]).toEqual([['x', 1]]);
  });

  it('masks classified values and cuts long ones', () => {
    const subject = gate(
      '      - {name: s, logicalType: string, physicalType: text, logicalTypeOptions: {maxLength: 1}, classification: restricted}\n' +
        '      - {name: l, logicalType: string, physicalType: text, logicalTypeOptions: {maxLength: 1}}\n',
    );
    const found = subject.check('insert', { id: 1, s: 'secret', l: 'y'.repeat(1000) }) ?? [];
    expect(found[0]?.value).toBe('***');
    expect(found[1]?.value?.length).toBe(201);
    expect(JSON.stringify(found)).not.toContain('secret');
  });

  it('enforces count rules that mean zero on each row, others not', () => {
    const subject = gate(
      "      - {name: a, logicalType: string, physicalType: text, quality: [{id: m, metric: missingValues, arguments: {missingValues: [null, '', 'n/a']}, mustBe: 0}]}\n" +
        '      - {name: b, logicalType: string, physicalType: text, quality: [{id: n, metric: nullValues, mustBeLessThan: 1, unit: percent}, {id: p, metric: invalidValues, arguments: {pattern: ^x}, mustBeLessOrEqualTo: 0}]}\n',
    );
    expect(outcome(subject, { a: 'n/a', b: null })).toEqual(['RULE m quarantine']);
    expect(outcome(subject, { a: null, b: 'yx' })).toEqual(['RULE m quarantine', 'PATTERN p quarantine']);
    expect(outcome(subject, { a: 'ok', b: 'xy' })).toEqual([]);
  });

  it('lets new labels pass an open enum, and compares decimals in lists by value', () => {
    const open = gate(
      '      - {name: a, logicalType: string, physicalType: mood, customProperties: [{property: enumOpen, value: true}], quality: [{id: r, metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0}]}\n',
    );
    expect(outcome(open, { a: 'new label' })).toEqual([]);
    const rates = gate(
      "      - {name: a, logicalType: number, physicalType: 'numeric(4,2)', quality: [{id: r, metric: invalidValues, arguments: {validValues: [1.5, 2]}, mustBe: 0}]}\n",
    );
    expect(outcome(rates, { a: '1.50' })).toEqual([]);
    expect(outcome(rates, { a: '2.01' })).toEqual(['ENUM r quarantine']);
  });

  it('drops only where the table says twice that this is meant', () => {
    const drop = '{property: onViolation, value: drop}';
    expect(() => gate('', `    customProperties: [${drop}]\n`)).toThrow(/drop loses events/);
    const subject = gate(
      '      - {name: a, physicalType: integer}\n',
      `    customProperties: [${drop}, {property: allowDrop, value: true}]\n`,
    );
    expect(outcome(subject, { a: 'x' })).toEqual(['TYPE type:a drop']);
  });

  it('refuses to compile what it cannot enforce', () => {
    expect(() =>
      gate('', '    quality: [{id: r, type: custom, engine: greatExpectations, implementation: x}]\n'),
    ).toThrow(/greatExpectations.*not built in/);
    expect(() =>
      gate(
        '      - {name: a, physicalType: text, customProperties: [{property: physicalTypes, value: {delta: long}}]}\n',
      ),
    ).toThrow(/cannot be kept as Delta long/);
  });
});

describe('rules inside arrays and documents', () => {
  const tags =
    "      - {name: tags, logicalType: array, physicalType: 'text[]', items: {logicalType: string, quality: [QUALITY]}}\n";
  const document =
    '      - {name: doc, logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: kind, logicalType: string, quality: [QUALITY]}]}}\n';
  const values = '{metric: invalidValues, arguments: {validValues: [a, b]}, mustBe: 0}';
  const nulls = '{metric: nullValues, mustBe: 0}';

  it.each([
    ['allowed items', tags, values, { tags: ['a', 'b'] }, { tags: ['a', 'c'] }],
    ['no NULL among the items', tags, nulls, { tags: ['a'] }, { tags: ['a', null] }],
    [
      'allowed values in a document',
      document,
      values,
      { doc: '[{"kind": "a"}]' },
      { doc: '[{"kind": "a"}, {"kind": "c"}]' },
    ],
  ])('enforces %s on each event', (_name, column, quality, good, bad) => {
    const subject = gate(column.replace('QUALITY', quality));
    expect(outcome(subject, good)).toEqual([]);
    expect(outcome(subject, bad)).toHaveLength(1);
  });
});
