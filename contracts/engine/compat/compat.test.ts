import { describe, expect, it } from 'vitest';
import type { CompatibilityMode, Contract } from '../model.ts';
import { parseContract } from '../parse.ts';
import { assess, tableRemoved, type AssessOptions } from './assess.ts';
import { CHANGES, levelOf } from './change.ts';
import { compareContracts } from './compare-contracts.ts';
import { bumpBetween, requiredVersion } from './version.ts';

const OPTIONS: AssessOptions = { mode: null, strict: false, today: '2026-01-15' };

interface Parts {
  version?: string;
  columns?: string;
  tableExtra?: string;
  rootExtra?: string;
  quality?: string;
  physicalName?: string;
}

function contract(parts: Parts = {}): Contract {
  const text = `apiVersion: v3.1.0
kind: DataContract
id: shop.public.t
version: ${parts.version ?? '1.0.0'}
status: active
${parts.rootExtra ?? ''}
schema:
  - name: t
    id: t
    physicalName: ${parts.physicalName ?? 't'}
    logicalType: object
${parts.tableExtra ?? ''}
${parts.quality === undefined ? '' : `    quality:\n${parts.quality}`}
    properties:
      - {id: k, name: k, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
${parts.columns ?? ''}
`;
  const result = parseContract(text, 't.odcs.yaml');
  if (result.contract === null) throw new Error(JSON.stringify(result.findings, null, 1));
  return result.contract;
}

const column = (body: string): Parts => ({ columns: `      - {id: a, name: a, ${body}}` });
const custom = (name: string, value: string): string => `customProperties: [{property: ${name}, value: ${value}}]`;

/** [what, before, after, code, level by default (FORWARD_TRANSITIVE), level BACKWARD, level FULL] */
type Row = readonly [string, Parts, Parts, string, string, string, string];
const int = 'logicalType: integer, logicalTypeOptions: {format: i32}, physicalType: integer';
const status = (values: string): string =>
  `logicalType: string, physicalType: text, quality: [{id: s, metric: invalidValues, arguments: {validValues: [${values}]}, mustBe: 0, severity: error}]`;
const numeric = (type: string): string => `logicalType: number, physicalType: '${type}'`;
const latency = (value: string): Parts => ({
  rootExtra: `slaProperties: [{property: latency, value: ${value}, unit: minutes, element: t.k}]`,
});

const TABLE: readonly Row[] = [
  ['add a nullable column', {}, column(int), 'COLUMN_ADDED', 'info', 'info', 'info'],
  [
    'add a required column with a default',
    {},
    column(`${int}, required: true, ${custom('default', '0')}`),
    'COLUMN_ADDED',
    'info',
    'info',
    'info',
  ],
  ['add a required column', {}, column(`${int}, required: true`), 'REQUIRED_ADDED', 'warning', 'error', 'error'],
  ['drop a column', column(int), {}, 'COLUMN_REMOVED', 'error', 'warning', 'error'],
  [
    'drop a deprecated column',
    column(`${int}, ${custom('deprecated', 'true')}`),
    {},
    'COLUMN_REMOVED',
    'warning',
    'warning',
    'warning',
  ],
  [
    'rename by id',
    column(int),
    { columns: `      - {id: a, name: b, ${int}}` },
    'COLUMN_RENAMED',
    'error',
    'error',
    'error',
  ],
  [
    'widen int4 to int8',
    column(int),
    column('logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint'),
    'TYPE_WIDENED',
    'warning',
    'warning',
    'warning',
  ],
  [
    'widen a numeric',
    column(numeric('numeric(10,2)')),
    column(numeric('numeric(12,2)')),
    'TYPE_WIDENED',
    'warning',
    'warning',
    'warning',
  ],
  [
    'widen a varchar',
    column('logicalType: string, physicalType: varchar(10)'),
    column('logicalType: string, physicalType: varchar(20)'),
    'TYPE_WIDENED',
    'warning',
    'warning',
    'warning',
  ],
  [
    'narrow a numeric',
    column(numeric('numeric(12,2)')),
    column(numeric('numeric(10,2)')),
    'TYPE_NARROWED',
    'error',
    'error',
    'error',
  ],
  [
    'fewer integer digits',
    column(numeric('numeric(12,2)')),
    column(numeric('numeric(12,4)')),
    'TYPE_CHANGED',
    'error',
    'error',
    'error',
  ],
  [
    'text to jsonb',
    column('logicalType: string, physicalType: text'),
    column('logicalType: object, physicalType: jsonb'),
    'TYPE_CHANGED',
    'error',
    'error',
    'error',
  ],
  [
    'timestamp to timestamptz',
    column('logicalType: timestamp, physicalType: timestamp'),
    column('logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz'),
    'TYPE_CHANGED',
    'error',
    'error',
    'error',
  ],
  ['required to optional', column(`${int}, required: true`), column(int), 'NULLABLE', 'error', 'warning', 'error'],
  ['optional to required', column(int), column(`${int}, required: true`), 'REQUIRED', 'warning', 'error', 'error'],
  [
    'enum value added',
    column(status('new, paid')),
    column(status('new, paid, back')),
    'ENUM_ADDED',
    'error',
    'warning',
    'error',
  ],
  [
    'enum value removed',
    column(status('new, paid')),
    column(status('new')),
    'ENUM_REMOVED',
    'warning',
    'error',
    'error',
  ],
  [
    'enum added to a free text',
    column('logicalType: string, physicalType: text'),
    column(status('new')),
    'ENUM_REMOVED',
    'warning',
    'error',
    'error',
  ],
  [
    'bound tightened',
    column('logicalType: integer, physicalType: integer, logicalTypeOptions: {format: i32, minimum: 0}'),
    column('logicalType: integer, physicalType: integer, logicalTypeOptions: {format: i32, minimum: 10}'),
    'RULE_TIGHTENED',
    'warning',
    'error',
    'error',
  ],
  [
    'bound loosened',
    column('logicalType: integer, physicalType: integer, logicalTypeOptions: {format: i32, maximum: 9}'),
    column('logicalType: integer, physicalType: integer, logicalTypeOptions: {format: i32, maximum: 10}'),
    'RULE_LOOSENED',
    'error',
    'warning',
    'error',
  ],
  [
    'pattern changed',
    column("logicalType: string, physicalType: text, logicalTypeOptions: {pattern: 'a+'}"),
    column("logicalType: string, physicalType: text, logicalTypeOptions: {pattern: 'b+'}"),
    'RULE_CHANGED',
    'warning',
    'warning',
    'warning',
  ],
  [
    'a rule removed',
    { quality: '      - {id: r, metric: rowCount, mustBeGreaterThan: 0}' },
    {},
    'RULE_LOOSENED',
    'error',
    'warning',
    'error',
  ],
  [
    'cel text changed',
    { quality: '      - {id: r, type: custom, engine: cel, implementation: row.k > 0}' },
    { quality: '      - {id: r, type: custom, engine: cel, implementation: row.k > 1}' },
    'RULE_CHANGED',
    'warning',
    'warning',
    'warning',
  ],
  ['unique removed', column(`${int}, unique: true`), column(int), 'UNIQUE_REMOVED', 'error', 'warning', 'error'],
  ['unique added', column(int), column(`${int}, unique: true`), 'UNIQUE_ADDED', 'warning', 'error', 'error'],
  [
    'key widened by a column',
    column(`${int}, required: true`),
    column(`${int}, required: true, primaryKey: true, primaryKeyPosition: 2`),
    'KEY_CHANGED',
    'error',
    'error',
    'error',
  ],
  ['physical name changed', {}, { physicalName: 't2' }, 'LOCATION_CHANGED', 'error', 'error', 'error'],
  [
    'partition changed',
    column(int),
    column(`${int}, partitioned: true, partitionKeyPosition: 1`),
    'REWRITE',
    'warning',
    'warning',
    'warning',
  ],
  ['latency 5 to 15 minutes', latency('5'), latency('15'), 'SLA_WORSE', 'error', 'error', 'error'],
  ['latency promise removed', latency('5'), {}, 'SLA_WORSE', 'error', 'error', 'error'],
  [
    'classification lowered',
    column(`${int}, classification: restricted`),
    column(`${int}, classification: internal`),
    'PII_DOWNGRADE',
    'error',
    'error',
    'error',
  ],
  [
    'pii action removed',
    column(`${int}, ${custom('piiAction', 'hash')}`),
    column(int),
    'PII_DOWNGRADE',
    'error',
    'error',
    'error',
  ],
  ['pii added', column(int), column(`${int}, ${custom('pii', 'email')}`), 'PII_ADDED', 'warning', 'warning', 'warning'],
  [
    'before-images lost',
    { tableExtra: `    ${custom('replicaIdentity', 'full')}` },
    { tableExtra: `    ${custom('replicaIdentity', 'default')}` },
    'BEFORE_LOST',
    'error',
    'error',
    'error',
  ],
  [
    'quarantine to drop',
    { tableExtra: `    ${custom('onViolation', 'quarantine')}` },
    { tableExtra: '    customProperties: [{property: onViolation, value: drop}, {property: allowDrop, value: true}]' },
    'ACTION_LOSSY',
    'error',
    'error',
    'error',
  ],
  ['documentation', column(int), column(`${int}, description: more words`), 'DOCS', 'info', 'info', 'info'],
  [
    'a nested field retyped',
    column(
      'logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: qty, logicalType: integer}]}',
    ),
    column(
      'logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: qty, logicalType: string}]}',
    ),
    'TYPE_CHANGED',
    'error',
    'error',
    'error',
  ],
];

describe('the compatibility table', () => {
  it.each(TABLE)('%s', (_what, before, after, code, forward, backward, full) => {
    const changes = compareContracts(contract(before), contract(after));
    const found = changes.filter((change) => change.code === code);
    expect(changes.map((change) => change.code)).toContain(code);
    for (const [mode, level] of [
      ['FORWARD_TRANSITIVE', forward],
      ['BACKWARD', backward],
      ['FULL', full],
    ] as const) {
      expect([mode, ...found.map((change) => levelOf(change, mode, false))]).toEqual([mode, ...found.map(() => level)]);
    }
  });

  it('reports one cause once', () => {
    for (const [what, before, after] of TABLE) {
      const codes = compareContracts(contract(before), contract(after)).map(
        (change) => `${change.code} ${change.subject}`,
      );
      expect([what, new Set(codes).size]).toEqual([what, codes.length]);
      expect([what, codes.length]).toEqual([what, what === 'quarantine to drop' ? codes.length : 1]);
    }
  });

  it('names nested fields by their path', () => {
    const [change] = compareContracts(
      contract(
        column(
          'logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: qty, logicalType: integer}]}',
        ),
      ),
      contract(
        column(
          'logicalType: array, physicalType: jsonb, items: {logicalType: object, properties: [{name: qty, logicalType: string}]}',
        ),
      ),
    );
    expect(change?.subject).toBe('t.a[].qty');
  });

  it.each([
    ['int4', 'integer'],
    ['VARCHAR(20)', 'character varying(20)'],
    ['timestamp with time zone', 'timestamptz'],
  ])('does not call %s and %s different', (a, b) => {
    expect(
      compareContracts(
        contract(column(`logicalType: string, physicalType: '${a}'`)),
        contract(column(`logicalType: string, physicalType: '${b}'`)),
      ),
    ).toEqual([]);
  });

  it('lets an open list grow', () => {
    const open = (values: string): Parts => column(`${status(values)}, ${custom('enumOpen', 'true')}`);
    const codes = compareContracts(contract(open('new')), contract(open('new, paid'))).map((change) => change.code);
    expect(codes).toEqual(['POLICY_CHANGED']);
  });

  it('sees a rename plus a column under the old name as one rename and one addition', () => {
    const before = contract({ columns: `      - {id: a, name: resultType, ${int}}` });
    const after = contract({
      columns: `      - {id: a, name: testResultType, ${int}}\n      - {id: b, name: test, ${int}}`,
    });
    expect(compareContracts(before, after).map((change) => change.code)).toEqual(['COLUMN_RENAMED', 'COLUMN_ADDED']);
  });

  it('widened types are errors under strict only', () => {
    const [change] = compareContracts(
      contract(column(numeric('numeric(10,2)'))),
      contract(column(numeric('numeric(12,2)'))),
    );
    expect(change && levelOf(change, 'FORWARD', true)).toBe('error');
  });

  it('a downgrade of privacy is an error in every mode, NONE included', () => {
    const [, before, after] = TABLE.find(([what]) => what === 'classification lowered') ?? TABLE[0]!;
    const [change] = compareContracts(contract(before), contract(after));
    for (const mode of ['NONE', 'BACKWARD', 'FORWARD', 'FULL', 'FULL_TRANSITIVE'] as CompatibilityMode[]) {
      expect(change && levelOf(change, mode, false)).toBe('error');
    }
  });

  it('every code has a test above or is named here', () => {
    const tested = new Set(TABLE.map(([, , , code]) => code));
    const others = ['TABLE_ADDED', 'RULE_ADDED', 'KEY_REORDERED', 'TABLE_REMOVED', 'SLA_ADDED', 'POLICY_CHANGED'];
    expect(
      Object.keys(CHANGES)
        .filter((code) => !tested.has(code))
        .toSorted(),
    ).toEqual(others.toSorted());
  });
});

describe('the version gate', () => {
  const codes = (head: Contract, base: Contract, options = OPTIONS): string[] =>
    assess(head, [{ label: 'main', contract: base }], options).findings.map(
      (finding) => `${finding.level} ${finding.code}`,
    );

  it('wants a patch for words, a minor for additions, a major for breaks', () => {
    const base = contract(column(int));
    expect(codes(contract({ ...column(`${int}, description: x`) }), base)).toEqual([
      'error VERSION_TOO_SMALL',
      'info DOCS',
    ]);
    expect(codes(contract({ ...column(`${int}, description: x`), version: '1.0.1' }), base)).toEqual(['info DOCS']);
    const added = `${column(int).columns}\n      - {id: b, name: b, ${int}}`;
    expect(codes(contract({ columns: added, version: '1.0.1' }), base)).toEqual([
      'error VERSION_TOO_SMALL',
      'info COLUMN_ADDED',
    ]);
    expect(codes(contract({ columns: added, version: '1.1.0' }), base)).toEqual(['info COLUMN_ADDED']);
    expect(codes(contract({ version: '1.1.0' }), base)).toContain('error VERSION_TOO_SMALL');
  });

  it('lets a break pass only with a major version and a note that has not ended', () => {
    const base = contract(column(int));
    const note = (until: string): string =>
      `customProperties: [{property: breaking, value: [{code: COLUMN_REMOVED, reason: nobody reads it, approver: ana, until: '${until}'}]}]`;
    expect(codes(contract({ version: '2.0.0' }), base)).toEqual(['error COLUMN_REMOVED']);
    expect(codes(contract({ version: '2.0.0', rootExtra: note('2026-12-31') }), base)).toEqual([
      'warning COLUMN_REMOVED',
    ]);
    expect(codes(contract({ version: '2.0.0', rootExtra: note('2025-12-31') }), base)).toEqual([
      'error COLUMN_REMOVED',
    ]);
    expect(codes(contract({ version: '1.1.0', rootExtra: note('2026-12-31') }), base)).toContain(
      'error COLUMN_REMOVED',
    );
  });

  it('looks at every released version of the same major under a transitive mode', () => {
    const old = { label: 'v1.0.0', contract: contract({ ...column(int), version: '1.0.0' }) };
    const main = { label: 'main', contract: contract({ version: '1.1.0' }) };
    const head = contract({ version: '1.1.0' });
    const found = (mode: CompatibilityMode): string[] =>
      assess(head, [main, old], { ...OPTIONS, mode }).findings.map((finding) => finding.code);
    expect(found('FORWARD')).toEqual([]);
    expect(found('FORWARD_TRANSITIVE')).toContain('COLUMN_REMOVED');
    const other = { label: 'v0', contract: contract({ ...column(int), version: '0.9.0' }) };
    expect(assess(head, [main, other], OPTIONS).findings).toEqual([]);
  });

  it('reports a deleted contract', () => {
    expect(tableRemoved({ label: 'main', contract: contract() }, 't.odcs.yaml', OPTIONS)).toMatchObject({
      level: 'error',
      code: 'TABLE_REMOVED',
    });
  });

  it('reads versions', () => {
    expect(bumpBetween('1.2.3', '1.2.4')).toBe('patch');
    expect(bumpBetween('1.2.3', '1.1.9')).toBe('none');
    expect(bumpBetween('1', '2')).toBe('major');
    expect(requiredVersion('1.2.3', 'minor')).toBe('1.3.0');
  });
});
