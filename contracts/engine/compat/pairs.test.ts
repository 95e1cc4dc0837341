/** More pairs of contracts of the kinds in the compatibility table: what changes, and all that is said about it. */
import { describe, expect, it } from 'vitest';
import type { Contract } from '../model.ts';
import { ContractError, parseContract } from '../parse.ts';
import { compareContracts } from './compare-contracts.ts';

function contract(columns: readonly string[], rest = '', head = 'v3.1.0'): Contract {
  const text = `apiVersion: ${head}
kind: DataContract
id: shop.public.t
version: 1.0.0
status: active
${rest}schema:
  - id: t
    name: t
    properties:
${columns.map((column) => `      - {${column}}\n`).join('')}`;
  const { contract: parsed, findings } = parseContract(text, 't.odcs.yaml');
  if (parsed === null) throw new ContractError(findings);
  return parsed;
}

const key = (name: string, position: number): string =>
  `id: k_${name}, name: ${name}, logicalType: integer, physicalType: bigint, primaryKey: true, primaryKeyPosition: ${position}, required: true`;
const K = key('k', 1);
const a = (body: string): string => `id: a, name: a, ${body}`;
const items = (properties: string): string =>
  a(`logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [${properties}]}`);
const rule = (values: string): string =>
  a(
    `logicalType: string, physicalType: text, quality: [{id: s, metric: invalidValues, arguments: {validValues: [${values}]}, mustBe: 0}]`,
  );
const list = (values: readonly string[]): string =>
  a(`logicalType: string, physicalType: text, enum: [${values.map((value) => `{value: ${value}}`).join(', ')}]`);
const custom = (name: string, value: string): string => `customProperties: [{property: ${name}, value: ${value}}]`;
const type = (physical: string, logical = 'number'): string =>
  a(`logicalType: ${logical}, physicalType: '${physical}'`);
const sla = (value: string, unit: string): string =>
  `slaProperties: [{id: l, property: latency, value: ${value}, unit: ${unit}, element: t.k}]\n`;

/** Codes with their subjects, in order. */
function changes(before: Contract, after: Contract): string[] {
  return compareContracts(before, after)
    .map(({ code, subject }) => `${code} ${subject}`)
    .toSorted();
}

type Pair = readonly [string, readonly string[], readonly string[], readonly string[]];

const text = (options: string): string => a(`logicalType: string, physicalType: text, ${options}`);
const whole = (options: string): string =>
  a(`logicalType: integer, physicalType: bigint, logicalTypeOptions: {${options}}`);
const tags = (options: string): string =>
  a(
    `logicalType: array, physicalType: 'text[]', logicalTypeOptions: {${options}}, items: {logicalType: string, physicalType: text}`,
  );
const quality = (...rules: readonly string[]): string =>
  a(`logicalType: string, physicalType: text, quality: [${rules.join(', ')}]`);
const nulls = (id: string, operator: string): string => quality(`{${id}metric: nullValues, ${operator}}`);

/** How much of a rule passes, before and after. */
const OPERATORS: readonly Pair[] = (
  [
    ['mustBeBetween: [0, 10]', 'mustBeBetween: [2, 10]', 'TIGHTENED'],
    ['mustBeBetween: [2, 10]', 'mustBeBetween: [2, 11]', 'LOOSENED'],
    ['mustBeBetween: [0, 10]', 'mustBeBetween: [5, 15]', 'CHANGED'],
    ['mustBe: 0', 'mustBeLessThan: 5', 'LOOSENED'],
    ['mustBeLessThan: 5', 'mustBe: 0', 'TIGHTENED'],
    ['mustBe: 0', 'mustBeLessThan: 1', null],
    ['mustBeLessThan: 5', 'mustBeLessOrEqualTo: 4', null],
    ['mustBeLessThan: 5', 'mustBeLessOrEqualTo: 5', 'LOOSENED'],
    ['mustNotBe: 0', 'mustBeGreaterThan: 0', null],
    ['mustBeGreaterThan: 0', 'mustBeGreaterOrEqualTo: 10', 'TIGHTENED'],
    ['mustNotBeBetween: [1, 3]', 'mustNotBeBetween: [1, 2]', 'LOOSENED'],
    ['mustBeLessThan: 5, unit: percent', 'mustBeLessThan: 4.5, unit: percent', 'TIGHTENED'],
    ['mustBeLessOrEqualTo: 100, unit: percent', 'mustBeLessThan: 200, unit: percent', null],
    ['mustBeLessThan: 5', 'mustBeLessThan: 5, unit: percent', 'CHANGED'],
  ] as const
).map(([before, after, code]): Pair => [
  `${before} -> ${after}`,
  [K, nulls('id: s, ', before)],
  [K, nulls('id: s, ', after)],
  code === null ? [] : [`RULE_${code} t.s`],
]);

const PAIRS: readonly Pair[] = [
  ...OPERATORS,
  ['a rule gets an id', [K, nulls('', 'mustBe: 0')], [K, nulls('id: s, ', 'mustBe: 0')], []],
  [
    'a rule without an id gets a neighbour before it',
    [
      K,
      quality('{metric: nullValues, mustBe: 0}', '{metric: missingValues, arguments: {missingValues: [x]}, mustBe: 0}'),
    ],
    [
      K,
      quality(
        '{metric: duplicateValues, mustBe: 0}',
        '{metric: nullValues, mustBe: 0}',
        '{metric: missingValues, arguments: {missingValues: [x]}, mustBe: 0}',
      ),
    ],
    ['RULE_ADDED t.a.duplicateValues'],
  ],
  [
    'a rule moves to another column',
    [K, nulls('id: s, ', 'mustBe: 0'), 'id: b, name: b, logicalType: string'],
    [
      K,
      a('logicalType: string, physicalType: text'),
      'id: b, name: b, logicalType: string, quality: [{id: s, metric: nullValues, mustBe: 0}]',
    ],
    ['RULE_CHANGED t.s'],
  ],
  [
    'values of a rule with a tolerance',
    [K, quality('{id: s, metric: invalidValues, arguments: {validValues: [x]}, mustBeLessThan: 5}')],
    [K, quality('{id: s, metric: invalidValues, arguments: {validValues: [x, y]}, mustBeLessThan: 5}')],
    ['RULE_LOOSENED t.s'],
  ],
  [
    'such a rule is removed',
    [K, quality('{id: s, metric: invalidValues, arguments: {validValues: [x]}, mustBeLessThan: 5}')],
    [K, text('')],
    ['RULE_LOOSENED t.s'],
  ],
  ['the bound itself is let out', [K, whole('minimum: 1')], [K, whole('exclusiveMinimum: 1')], ['RULE_TIGHTENED t.a']],
  ['it is let in', [K, whole('exclusiveMaximum: 9')], [K, whole('maximum: 9')], ['RULE_LOOSENED t.a']],
  [
    'the bound that does not decide',
    [K, whole('minimum: 5, exclusiveMinimum: 1')],
    [K, whole('minimum: 5, exclusiveMinimum: 2')],
    [],
  ],
  ['a step gets wider', [K, whole('multipleOf: 2')], [K, whole('multipleOf: 4')], ['RULE_TIGHTENED t.a']],
  ['a step gets finer', [K, whole('multipleOf: 4')], [K, whole('multipleOf: 2')], ['RULE_LOOSENED t.a']],
  ['another step', [K, whole('multipleOf: 2')], [K, whole('multipleOf: 3')], ['RULE_CHANGED t.a']],
  [
    'entries become unique',
    [K, tags('minItems: 0')],
    [K, tags('minItems: 0, uniqueItems: true')],
    ['RULE_TIGHTENED t.a'],
  ],
  [
    'entries are described',
    [K, a('logicalType: array, physicalType: jsonb')],
    [K, a('logicalType: array, physicalType: jsonb, items: {logicalType: string}')],
    ['RULE_TIGHTENED t.a[]'],
  ],
  [
    'wider, and bounded at once',
    [K, a('logicalType: integer, logicalTypeOptions: {format: i32}, physicalType: integer')],
    [K, a('logicalType: integer, logicalTypeOptions: {format: i64, minimum: 1}, physicalType: bigint')],
    ['RULE_TIGHTENED t.a', 'TYPE_WIDENED t.a'],
  ],
  [
    'another source column behind the name',
    [K, text('physicalName: x')],
    [K, text('physicalName: y')],
    ['COLUMN_RENAMED t.a'],
  ],
  [
    'another type in the lake',
    [
      K,
      a(
        "logicalType: number, physicalType: numeric, customProperties: [{property: physicalTypes, value: {delta: 'decimal(20,4)'}}]",
      ),
    ],
    [
      K,
      a(
        'logicalType: number, physicalType: numeric, customProperties: [{property: physicalTypes, value: {delta: string}}]',
      ),
    ],
    ['TYPE_CHANGED t.a'],
  ],
  [
    'the type in the lake is only named',
    [K, text('description: x')],
    [K, text('description: x, customProperties: [{property: physicalTypes, value: {delta: string}}]')],
    [],
  ],
  [
    'values that do not fit become NULL',
    [K, text('description: x')],
    [K, text(`description: x, ${custom('onUnrepresentable', "'null'")}`)],
    ['ACTION_LOSSY t.a'],
  ],
  ['another default', [K, text(custom('default', 'x'))], [K, text(custom('default', 'y'))], ['POLICY_CHANGED t.a']],
  [
    'a field added in an array of objects',
    [K, items('{name: x, logicalType: string}')],
    [K, items('{name: x, logicalType: string}, {name: y, logicalType: string}')],
    ['COLUMN_ADDED t.a[].y'],
  ],
  [
    'a field removed there',
    [K, items('{name: x, logicalType: string}, {name: y, logicalType: string}')],
    [K, items('{name: x, logicalType: string}')],
    ['COLUMN_REMOVED t.a[].y'],
  ],
  [
    'a field there becomes required',
    [K, items('{name: x, logicalType: string}')],
    [K, items('{name: x, logicalType: string, required: true}')],
    ['REQUIRED t.a[].x'],
  ],
  [
    'a field there is renamed by its id',
    [K, items('{id: i, name: x, logicalType: string}')],
    [K, items('{id: i, name: y, logicalType: string}')],
    ['COLUMN_RENAMED t.a[].y'],
  ],
  [
    'another type there',
    [K, items('{name: x, logicalType: string}')],
    [K, items('{name: x, logicalType: integer}')],
    ['TYPE_CHANGED t.a[].x'],
  ],
  ['a key column added', [key('k', 1)], [key('k', 1), key('l', 2)], ['KEY_CHANGED t', 'REQUIRED_ADDED t.l']],
  ['the key in another order', [key('k', 1), key('l', 2)], [key('k', 2), key('l', 1)], ['KEY_REORDERED t']],
  ['columns in another order', [K, a('logicalType: string')], [a('logicalType: string'), K], ['DOCS t']],
  ['an enum of 3.1 gets a value', [K, rule('x, y')], [K, rule('x, y, z')], ['ENUM_ADDED t.a']],
  ['an enum of 3.1 loses one', [K, rule('x, y')], [K, rule('x')], ['ENUM_REMOVED t.a']],
  ['both at once', [K, rule('x, y')], [K, rule('y, z')], ['ENUM_ADDED t.a', 'ENUM_REMOVED t.a']],
  ['an enum in another order', [K, rule('x, y')], [K, rule('y, x')], []],
  ['numeric with more of both', [K, type('numeric(10,2)')], [K, type('numeric(14,4)')], ['TYPE_WIDENED t.a']],
  ['numeric with fewer integer digits', [K, type('numeric(12,2)')], [K, type('numeric(12,4)')], ['TYPE_CHANGED t.a']],
  ['numeric with fewer of both', [K, type('numeric(14,4)')], [K, type('numeric(10,2)')], ['TYPE_NARROWED t.a']],
  ['numeric loses its bounds', [K, type('numeric(14,4)')], [K, type('numeric')], ['TYPE_WIDENED t.a']],
  ['respelled', [K, type('decimal(10, 2)')], [K, type('NUMERIC(10,2)')], []],
  [
    'varchar gets longer',
    [K, type('varchar(10)', 'string')],
    [K, type('character varying(20)', 'string')],
    ['TYPE_WIDENED t.a'],
  ],
  ['varchar becomes text', [K, type('varchar(10)', 'string')], [K, type('text', 'string')], ['TYPE_WIDENED t.a']],
  ['text becomes varchar', [K, type('text', 'string')], [K, type('varchar(10)', 'string')], ['TYPE_NARROWED t.a']],
  ['float4 to float8', [K, type('real')], [K, type('double precision')], ['TYPE_WIDENED t.a']],
  ['bigint to smallint', [K, type('bigint', 'integer')], [K, type('smallint', 'integer')], ['TYPE_NARROWED t.a']],
  ['integer to numeric', [K, type('integer', 'integer')], [K, type('numeric(12,2)')], ['TYPE_CHANGED t.a']],
  [
    'an array of it',
    [K, type('integer', 'integer')],
    [K, a("logicalType: array, physicalType: 'integer[]', items: {logicalType: integer}")],
    ['TYPE_CHANGED t.a'],
  ],
  [
    'a lower bound rises',
    [K, a('logicalType: integer, physicalType: bigint, logicalTypeOptions: {minimum: 1}')],
    [K, a('logicalType: integer, physicalType: bigint, logicalTypeOptions: {minimum: 2}')],
    ['RULE_TIGHTENED t.a'],
  ],
  [
    'it falls, beyond a double',
    [K, a('logicalType: integer, physicalType: bigint, logicalTypeOptions: {minimum: 9007199254740993}')],
    [K, a('logicalType: integer, physicalType: bigint, logicalTypeOptions: {minimum: 9007199254740992}')],
    ['RULE_LOOSENED t.a'],
  ],
  [
    'a pattern changes',
    [K, a("logicalType: string, physicalType: text, logicalTypeOptions: {pattern: '^a'}")],
    [K, a("logicalType: string, physicalType: text, logicalTypeOptions: {pattern: '^b'}")],
    ['RULE_CHANGED t.a'],
  ],
  ['required', [K, a('logicalType: string')], [K, a('logicalType: string, required: true')], ['REQUIRED t.a']],
  [
    'no longer required',
    [K, a('logicalType: string, required: true')],
    [K, a('logicalType: string')],
    ['NULLABLE t.a'],
  ],
  ['unique', [K, a('logicalType: string')], [K, a('logicalType: string, unique: true')], ['UNIQUE_ADDED t.a']],
  [
    'no longer unique',
    [K, a('logicalType: string, unique: true')],
    [K, a('logicalType: string')],
    ['UNIQUE_REMOVED t.a'],
  ],
  [
    'renamed by its id',
    [K, a('logicalType: string')],
    [K, 'id: a, name: b, logicalType: string'],
    ['COLUMN_RENAMED t.b'],
  ],
  [
    'dropped and another added',
    [K, a('logicalType: string')],
    [K, 'id: b, name: b, logicalType: string'],
    ['COLUMN_ADDED t.b', 'COLUMN_REMOVED t.a'],
  ],
  [
    'a classification falls',
    [K, a('logicalType: string, classification: restricted')],
    [K, a('logicalType: string, classification: public')],
    ['PII_DOWNGRADE t.a'],
  ],
  ['a pii tag goes', [K, a('logicalType: string, tags: [pii]')], [K, a('logicalType: string')], ['PII_DOWNGRADE t.a']],
  [
    'a mask becomes a pseudonym',
    [K, a(`logicalType: string, ${custom('piiAction', 'mask')}`)],
    [K, a(`logicalType: string, ${custom('piiAction', 'hash')}`)],
    ['PII_DOWNGRADE t.a'],
  ],
  [
    'pii comes',
    [K, a('logicalType: string')],
    [K, a(`logicalType: string, ${custom('pii', 'email')}`)],
    ['PII_ADDED t.a'],
  ],
  [
    'a required column with a default',
    [K],
    [K, a(`logicalType: string, required: true, ${custom('default', 'x')}`)],
    ['COLUMN_ADDED t.a'],
  ],
  ['a required column without one', [K], [K, a('logicalType: string, required: true')], ['REQUIRED_ADDED t.a']],
  [
    'timestamp gets a zone',
    [K, type('timestamp', 'timestamp')],
    [K, type('timestamptz', 'timestamp')],
    ['TYPE_CHANGED t.a'],
  ],
];

const since = (bound: string): string =>
  a(`logicalType: timestamp, physicalType: timestamptz, logicalTypeOptions: {timezone: true, minimum: '${bound}'}`);
const until = (bound: string): string =>
  a(`logicalType: date, physicalType: date, logicalTypeOptions: {maximum: '${bound}'}`);
const missing = (values: string): string =>
  quality(`{id: s, metric: missingValues, arguments: {missingValues: [${values}]}, mustBe: 0}`);
const open = (value: boolean): string =>
  text(
    `${custom('enumOpen', String(value))}, quality: [{id: s, metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0}]`,
  );
const format = (word: string): string => a(`logicalType: integer, logicalTypeOptions: {format: ${word}}`);

/** One promise in two forms, and bounds that are the same one. */
const SPELLINGS: readonly Pair[] = [
  ['above 0 is 1 or more', [K, whole('exclusiveMinimum: 0')], [K, whole('minimum: 1')], []],
  ['below 9.5 is 9 or less', [K, whole('maximum: 9')], [K, whole('exclusiveMaximum: 9.5')], []],
  ['no length is less than none', [K, text('')], [K, text('logicalTypeOptions: {minLength: 0}')], []],
  ['one instant in two offsets', [K, since('2024-01-01T00:00:00Z')], [K, since('2024-01-01T02:00:00+02:00')], []],
  ['a day is its midnight', [K, since('2024-01-01')], [K, since('2024-01-01 00:00:00Z')], []],
  ['later by half a second', [K, since('2024-01-01')], [K, since('2024-01-01T00:00:00.5Z')], ['RULE_TIGHTENED t.a']],
  ['a year of five digits is later', [K, until('9999-12-31')], [K, until('10000-01-01')], ['RULE_LOOSENED t.a']],
  ['unsigned to signed', [K, format('u32')], [K, format('i32')], ['TYPE_CHANGED t.a']],
  ['unsigned to wider and signed', [K, format('u8')], [K, format('i16')], ['TYPE_WIDENED t.a']],
  [
    'entries of an array get wider',
    [K, a("logicalType: array, physicalType: 'int4[]', items: {logicalType: integer}")],
    [
      K,
      a("logicalType: array, physicalType: 'int8[]', items: {logicalType: integer, logicalTypeOptions: {format: i64}}"),
    ],
    ['TYPE_WIDENED t.a[]'],
  ],
  ['the list is opened', [K, open(false)], [K, open(true)], ['RULE_LOOSENED t.a']],
  ['the list is closed', [K, open(true)], [K, open(false)], ['RULE_TIGHTENED t.a']],
  ['more counts as missing', [K, missing("''")], [K, missing("'', n/a")], ['RULE_TIGHTENED t.s']],
  ['less counts as missing', [K, missing("'', n/a")], [K, missing("''")], ['RULE_LOOSENED t.s']],
  ['other things count as missing', [K, missing('x')], [K, missing('y')], ['RULE_CHANGED t.s']],
  [
    'unique as an attribute, then as a rule',
    [K, text('unique: true')],
    [K, quality('{id: s, metric: duplicateValues, mustBe: 0}')],
    [],
  ],
  [
    'unique as a rule, then as an attribute',
    [K, quality('{metric: duplicateValues, mustBeLessThan: 1}')],
    [K, text('unique: true')],
    [],
  ],
  [
    'unique as a rule that only warns',
    [K, text('unique: true')],
    [K, quality('{id: s, metric: duplicateValues, mustBe: 0, severity: warning}')],
    ['RULE_ADDED t.s', 'UNIQUE_REMOVED t.a'],
  ],
  ['a foreign key is described', [K, text('')], [K, text('relationships: [{to: c.id}]')], ['DOCS ']],
  ['a word of another tool', [K, text(custom('steward', 'ana'))], [K, text(custom('steward', 'bo'))], ['DOCS ']],
];

describe('pairs of contracts', () => {
  it.each([...PAIRS, ...SPELLINGS])('%s', (_name, before, after, expected) => {
    expect(changes(contract(before), contract(after))).toEqual(expected);
  });

  it('an enum of 3.2 is one of 3.1, and changes alike', () => {
    const v32 = (values: readonly string[]): Contract => contract([K, list(values)], '', 'v3.2.0');
    expect(changes(v32(['x', 'y']), v32(['x', 'y', 'z']))).toEqual(['ENUM_ADDED t.a']);
    expect(changes(v32(['x', 'y']), v32(['x']))).toEqual(['ENUM_REMOVED t.a']);
  });

  it.each([
    ['minutes to hours', sla('5', 'minutes'), sla('5', 'hours'), ['SLA_WORSE']],
    ['the same span in another unit', sla('60', 'minutes'), sla('1', 'h'), []],
    ['a shorter one', sla('1', 'h'), sla('30', 'minutes'), []],
    ['gone', sla('1', 'h'), '', ['SLA_WORSE']],
    ['one m is a month', sla('1', 'minute'), sla('1', 'm'), ['SLA_WORSE']],
    ['of another column', sla('1', 'h'), sla('1', 'h').replace('t.k', 't.a'), ['SLA_WORSE']],
    [
      'support that ends sooner',
      "slaProperties: [{property: endOfSupport, value: '2030-01-01'}]\n",
      "slaProperties: [{property: endOfSupport, value: '2029-12-31'}]\n",
      ['SLA_WORSE'],
    ],
  ])('a service level: %s', (_name, before, after, expected) => {
    const codes = compareContracts(contract([K], before), contract([K], after)).map(({ code }) => code);
    expect(codes.filter((code) => code.startsWith('SLA'))).toEqual(expected);
  });

  const stream = (topic: string, word: string): string =>
    `servers: [{server: s, type: kafka, host: 'a:1', format: ${word}, customProperties: [{property: topic, value: ${topic}}]}]\n`;
  const source = (schema: string): string =>
    `servers: [{server: p, type: postgres, host: h, port: 1, database: d, schema: ${schema}}]\n`;
  it.each([
    ['in another form', stream('x', 'json'), stream('x', 'avro'), ['LOCATION_CHANGED servers.s']],
    ['at another host', stream('x', 'json'), stream('x', 'json').replace('a:1', 'b:1'), ['DOCS ']],
    ['on one more server', '', stream('x', 'json'), ['DOCS ']],
    ['in another schema of the source', source('a'), source('b'), ['LOCATION_CHANGED t']],
    ['with the schema spelled out', '', source('public'), ['DOCS ']],
  ])('the table is %s', (_name, before, after, expected) => {
    expect(changes(contract([K], before), contract([K], after))).toEqual(expected);
  });
});
