import { describe, expect, it } from 'vitest';

import { lintContract } from './lint.ts';
import { didYouMean, nearest } from './nearest.ts';
import { parseContract } from './parse.ts';
import { canonicalPgType, parsePgType } from './pg-type.ts';
import { deltaTypeText, mapColumn, mapPgText } from './type-table.ts';
import { writeYaml, exactNumber } from './write.ts';
import { readYaml } from './yaml-tree.ts';

const TEXT = `# comment
apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: t
    physicalName: public.t
    properties:
      - name: id
        logicalType: integer
        logicalTypeOptions: {maximum: 9007199254740993}
        primaryKey: true
      - name: v
        logicalType: number
        logicalTypeOptions:
          multipleOf: 0.10
`;

describe('parseContract', () => {
  it('gives every element its place and every number its digits', () => {
    const { contract, findings } = parseContract(TEXT, 't.yaml');
    expect(findings).toEqual([]);
    const [id, v] = contract?.tables[0]?.columns ?? [];
    expect(id?.options.maximum).toBe('9007199254740993');
    expect(v?.options.multipleOf).toBe('0.1');
    expect(contract?.source.locate([...(v?.path ?? []), 'logicalTypeOptions', 'multipleOf'])).toEqual({
      line: 18,
      column: 11,
    });
    expect(contract?.source.locate([...(v?.path ?? []), 'nothing'])).toEqual({ line: 15, column: 9 });
  });

  it.each([
    ['a: [', 'YAML_SYNTAX'],
    ['', 'YAML_SYNTAX'],
    ['a: 1\na: 2', 'YAML_DUPLICATE_KEY'],
    ['--- {}\n--- {}', 'YAML_UNSUPPORTED'],
    ['a: *x', 'YAML_SYNTAX'],
    ['&a [*a]', 'YAML_SYNTAX'],
    ['? {a: 1}\n: 2', 'YAML_UNSUPPORTED'],
    ['just text', 'WRONG_TYPE'],
  ])('%j is %s', (text, code) => {
    const { contract, findings } = parseContract(text, 'x');
    expect(contract).toBeNull();
    expect(findings.map((finding) => finding.code)).toContain(code);
  });

  it('merges what << names: own keys go before it, and of several maps the first', () => {
    const text = TEXT.replace('- name: v', '- &v\n        name: v').concat(
      "      - {<<: [{description: first}, *v, {description: last}], name: w}\n      - {name: x, '<<': {tags: [a]}}\n",
    );
    const { contract, findings } = parseContract(text, 't.yaml');
    expect(findings.map(({ code, line }) => [code, line])).toEqual([['UNKNOWN_KEY', 21]]);
    const merged = parseContract(text.replace("'<<': ", '<<: '), 't.yaml').contract?.tables[0]?.columns;
    expect(contract).toBeNull();
    expect(merged?.map((column) => [column.name, column.logicalType, column.description, column.tags])).toEqual([
      ['id', 'integer', null, []],
      ['v', 'number', null, []],
      ['w', 'number', 'first', []],
      ['x', null, null, ['a']],
    ]);
    expect(parseContract(text.replace("'<<': {tags: [a]}", '<<: 5'), 't.yaml').findings[0]?.code).toBe('YAML_SYNTAX');
  });

  it.each([
    ['hstore', 'map: {key: {logicalType: string}, value: {logicalType: string, required: true}}', true],
    ['hstore', 'map: {key: {logicalType: string}, value: {logicalType: string}}', false],
    ['jsonb', 'map: {key: {logicalType: string}, value: {logicalType: string, required: true}}', false],
  ])('warns of conditions inside of what is kept as text: %s %s', (type, inside, warned) => {
    const text = `apiVersion: v3.2.0
kind: DataContract
id: x
version: 1.0.0
schema:
  - name: t
    properties:
      - {name: a, logicalType: map, physicalType: ${type}, ${inside}}
`;
    const codes = lintContract(text, 'c.odcs.yaml').findings.map(({ code, level }) => `${level} ${code}`);
    expect(codes.includes('warning INSIDE_NOT_ENFORCED')).toBe(warned);
  });

  it.each([
    ['apiVersion: v3.3.0', 'apiVersion: v3.1.0', /known here: .*v3\.1\.0.*v3\.2\.0/],
    ['logicalType: string, ', '', /no key 'logicalTypeOptions' without a logicalType/],
  ])('says why, and not the nearest word, of %s', (written, usual, expected) => {
    const text = `apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: t
    properties:
      - {name: a, logicalType: string, logicalTypeOptions: {maxLength: 3}, physicalType: text}
`;
    const changed = usual === '' ? text.replace(written, '') : text.replace(usual, written);
    const said = parseContract(changed, 'c.odcs.yaml').findings.map(({ message, hint }) => `${message} ${hint ?? ''}`);
    expect(said).toContainEqual(expect.stringMatching(expected));
  });

  it('does not let aliases blow up', () => {
    const bomb = [
      'a: &a [x,x,x,x,x,x,x,x,x,x]',
      ...'bcdefgh'
        .split('')
        .map(
          (letter, n) => `${letter}: &${letter} [${Array.from({ length: 10 }, () => `*${'abcdefg'[n]}`).join(',')}]`,
        ),
    ].join('\n');
    expect(readYaml(bomb).problems.map((problem) => problem.code)).toContain('TOO_LARGE');
  });

  it('reads the rules of 3.0', () => {
    const old = TEXT.replace('v3.1.0', 'v3.0.2').replace(
      '    properties:\n',
      '    quality:\n      - {rule: duplicateCount, mustBeLessThan: 1}\n    properties:\n',
    );
    expect(parseContract(old, 'x').contract?.tables[0]?.rules[0]).toMatchObject({
      metric: 'duplicateValues',
      id: 'table.duplicateCount',
    });
  });
});

describe('nearest', () => {
  it('finds swaps, omissions and case, and gives up on strangers', () => {
    expect(nearest('mustBeGreatreThan', ['mustBe', 'mustBeGreaterThan'])).toBe('mustBeGreaterThan');
    expect(nearest('PhysicalType', ['physicalType'])).toBe('physicalType');
    expect(nearest('zebra', ['name', 'id'])).toBeNull();
    expect(didYouMean('zebra', ['name', 'id'])).toBe('known here: name, id');
  });
});

describe('type names', () => {
  it.each([
    ['VARCHAR( 20 )', 'character varying(20)', 'varchar(20)'],
    ['int4', 'INTEGER', 'int4'],
    ['timestamp(3) with time zone', 'timestamptz(3)', 'timestamptz(3)'],
    ['numeric(12, 2)', 'decimal(12,2)', 'numeric(12,2)'],
    ['char', 'character(1)', 'bpchar(1)'],
    ['text[][]', 'text ARRAY', 'text[]'],
    ['pg_catalog.int8', 'bigint', 'int8'],
    ['public.citext', 'citext', 'citext'],
  ])('%s and %s are %s', (a, b, canonical) => {
    expect([canonicalPgType(a), canonicalPgType(b)]).toEqual([canonical, canonical]);
  });

  it('keeps "char" apart from char, and names of others as they are', () => {
    expect(parsePgType('"char"')).toMatchObject({ name: 'char', known: true });
    expect(parsePgType('public.order_status')).toMatchObject({ name: 'public.order_status', known: false });
  });

  it.each([
    ['smallint', 'short'],
    ['oid', 'long'],
    ['real', 'float'],
    ['numeric(12,2)', 'decimal(12,2)'],
    ['numeric(5,-2)', 'decimal(7,0)'],
    ['numeric(2,5)', 'decimal(5,5)'],
    ['numeric(39,2)', 'string'],
    ['numeric', 'string'],
    ['money', 'string'],
    ['timestamp', 'timestamp_ntz'],
    ['timestamptz', 'timestamp'],
    ['timestamptz[]', 'array<timestamp>'],
    ['jsonb', 'string'],
    ['bytea', 'binary'],
    ['tstzrange', 'string'],
    ['interval day to second', 'string'],
  ])('%s is kept as %s', (type, delta) => {
    expect(deltaTypeText(mapPgText(type).delta)).toBe(delta);
  });

  it('takes domains and arrays from the catalog, and wider Delta types by contract', () => {
    const column = { name: 'v', notNull: false, keyPosition: 0, enumLabels: null } as const;
    expect(mapColumn({ ...column, pgType: 'public.price', baseType: 'numeric(10,2)', kind: 'domain' }).delta).toBe(
      'decimal(10,2)',
    );
    expect(
      mapColumn({ ...column, pgType: 'public.mood[]', baseType: 'public.mood', kind: 'array' }).delta,
    ).toMatchObject({ elementType: 'string' });
    expect(
      mapColumn({ ...column, pgType: 'numeric', baseType: null, kind: 'base' }, { delta: 'decimal(38,9)' }).delta,
    ).toBe('decimal(38,9)');
    expect(() =>
      mapColumn({ ...column, pgType: 'bigint', baseType: null, kind: 'base' }, { delta: 'integer' }),
    ).toThrow(/possible: string, long/);
  });
});

describe('writeYaml', () => {
  it('keeps digits, and quotes what YAML 1.1 readers would take for something else', () => {
    expect(
      writeYaml({
        a: exactNumber('0.10'),
        b: 'yes',
        c: '2024-01-01',
        d: 'x: y',
        e: [],
        f: 12_345_678_901_234_567_890n,
      }),
    ).toBe("a: 0.10\nb: 'yes'\nc: '2024-01-01'\nd: 'x: y'\nf: 12345678901234567890\n");
  });
});

describe('text that is no YAML', () => {
  it.each([
    ['a syntax error', 'a: [1\nb: }', 'YAML_SYNTAX'],
    ['tabs', 'schema:\n\t- name: t\n', 'YAML_SYNTAX'],
    ['bytes that are no UTF-8', Buffer.from('id: caf\xe9\n', 'latin1').toString('utf8'), 'YAML_SYNTAX'],
    ['nothing', '', 'YAML_SYNTAX'],
  ])('%s has one cause, and findings of no other kind', (_name, text, code) => {
    const { findings, contract } = lintContract(text, 'x');
    expect(contract).toBeNull();
    expect([...new Set(findings.map((finding) => finding.code))]).toEqual([code]);
  });

  it('says where the first foreign byte stands', () => {
    const text = Buffer.from('id: x\nname: caf\xe9\n', 'latin1').toString('utf8');
    expect(lintContract(text, 'x').findings[0]).toMatchObject({ line: 2, column: 10 });
  });
});
