/** The public reports of the notes' section 6 that concern the engine; the others are the command's and the stream's. */
import { describe, expect, it } from 'vitest';

import { compileGate } from './compile.ts';
import type { Gate } from './gate.ts';
import { exportContract } from './export/export-contract.ts';
import { formatFinding } from './finding.ts';
import { inferContract } from './infer.ts';
import { lintContract } from './lint.ts';
import { ContractError } from './parse.ts';

const HEAD = 'apiVersion: v3.1.0\nkind: DataContract\nid: x\nversion: 1.0.0\nstatus: active\nschema:\n  - name: t\n';
const ID =
  '      - {name: id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, required: true}\n';
const text = (columns: string, table = ''): string => `${HEAD}${table}    properties:\n${ID}${columns}`;

function gate(columns: string, table = ''): Gate {
  const { contract, findings } = lintContract(text(columns, table), 't.odcs.yaml');
  if (contract === null) throw new ContractError(findings);
  return compileGate(contract, null);
}
const errors = (source: string): string[] =>
  lintContract(source, 't.odcs.yaml')
    .findings.filter((finding) => finding.level === 'error')
    .map(formatFinding);

describe('public reports', () => {
  it('1 soda-core #2810: a misspelt operator is one error with line, column and the right word', () => {
    expect(errors(text('', '    quality:\n      - {id: rows, metric: rowCount, mustBeGreaterThen: 1000}\n'))).toEqual([
      "t.odcs.yaml:9:38: error UNKNOWN_KEY: t.rows.mustBeGreaterThen: a rule has no key 'mustBeGreaterThen' (did you mean 'mustBeGreaterThan'?)",
    ]);
  });

  it('2 dqx #1424, datacontract-cli #659: a rule of an unknown engine is an error, never nothing', () => {
    const source = text('', '    quality: [{id: r, type: custom, engine: dqx, implementation: x}]\n');
    expect(errors(source)).toEqual([
      "t.odcs.yaml:8:37: error UNKNOWN_ENGINE: t: rule r: engine 'dqx' is not built in (use cel)",
    ]);
  });

  it('3 ODCS #322, #349: a column without logicalType is valid, and lint advises one', () => {
    const { contract, findings } = lintContract(text('      - {name: a, physicalType: text}\n'), 'x');
    expect(contract).not.toBeNull();
    expect(findings.map((finding) => [finding.level, finding.code, finding.hint])).toEqual([
      ['info', 'LOGICAL_TYPE_MISSING', 'logicalType: string'],
    ]);
  });

  it('4 datacontract-cli #1190: severity warning never parks a row', () => {
    const subject = gate(
      '      - {name: a, logicalType: string, physicalType: text, quality: [{id: w, metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0, severity: warning}]}\n',
    );
    expect(subject.check('insert', { id: 1, a: 'y' })?.map((v) => v.action)).toEqual(['warn']);
  });

  it('5 datacontract-cli #403: a column that the contract lacks is noticed under every policy', () => {
    for (const policy of ['evolve', 'ignore', 'quarantine', 'fail']) {
      const subject = gate('', `    customProperties: [{property: unknownColumns, value: ${policy}}]\n`);
      const found = subject.check('insert', { id: 1, x: 'new' });
      expect([policy, found?.map((v) => v.action) ?? []]).toEqual([
        policy,
        policy === 'evolve' || policy === 'ignore' ? [] : [policy],
      ]);
      expect(subject.unknownColumns.get('x')).toBe(1);
    }
  });

  it('7 airbyte #8557: a delete with the key only passes, though other columns are required', () => {
    const subject = gate('      - {name: a, logicalType: string, physicalType: text, required: true}\n');
    expect(subject.check('delete', { id: 1 })).toBeNull();
    expect(subject.check('delete', { id: 1, a: null })).toBeNull();
  });

  it('8 artie #100: unchanged TOAST is absent, not null, and its rules are skipped and counted', () => {
    const subject = gate(
      '      - {name: body, logicalType: string, physicalType: text, required: true}\n      - {name: n, logicalType: integer, physicalType: integer}\n',
      '    quality: [{id: body_ok, type: custom, engine: cel, implementation: \'row.body != ""\'}]\n',
    );
    expect(subject.check('update', { id: 1, n: 2 })).toBeNull();
    expect(subject.check('update', { id: 1, n: 2, body: '' })?.map((v) => v.ruleId)).toEqual(['body_ok']);
    expect([...subject.skipped]).toEqual([['body_ok', 1]]);
  });

  it('9 debezium #7668: an unknown enum label is named as ENUM, so that the catalog can be read again', () => {
    const subject = gate(
      '      - {name: a, logicalType: string, physicalType: mood, quality: [{id: mood_ok, metric: invalidValues, arguments: {validValues: [happy]}, mustBe: 0}]}\n',
    );
    expect(subject.check('insert', { id: 1, a: 'new label' })?.[0]).toMatchObject({
      code: 'ENUM',
      ruleId: 'mood_ok',
      column: 'a',
      action: 'quarantine',
    });
  });

  it('10 delta-rs #4183: a CHECK that is NULL passes here, and the export says so to Delta', () => {
    const source = text(
      "      - {name: total, logicalType: number, logicalTypeOptions: {minimum: 0}, physicalType: 'numeric(12,2)'}\n",
    );
    const { contract } = lintContract(source, 'x');
    const table = contract?.tables[0];
    if (contract === null || table === undefined) throw new Error('the contract is invalid');
    expect(compileGate(contract, null).check('insert', { id: 1, total: null })).toBeNull();
    expect(exportContract(contract, table, 'delta-constraints').text).toContain('`total` IS NULL OR `total` >= 0');
    const inferred = inferContract(
      {
        schema: 's',
        table: 't',
        columns: [
          {
            name: 'total',
            pgType: 'numeric(12,2)',
            baseType: null,
            kind: 'base',
            enumLabels: null,
            notNull: false,
            keyPosition: 0,
          },
        ],
        checks: [{ name: 'odd', expression: 'abs(total) >= 0' }],
      },
      { name: 'p' },
    );
    expect(inferred.text).toContain('WHERE NOT (abs(total) >= 0)');
  });

  it('11 mack #68: one bad row in 500 is one violation', () => {
    const subject = gate(
      '      - {name: a, logicalType: integer, logicalTypeOptions: {minimum: 0}, physicalType: integer}\n',
    );
    const bad = Array.from({ length: 500 }, (_, n) => subject.check('insert', { id: n, a: n === 250 ? -1 : n })).filter(
      (found) => found !== null,
    );
    expect(bad.map((found) => found.map((v) => [v.ruleId, v.value]))).toEqual([[['minimum:a', '-1']]]);
  });

  it('14 ajv #2329: 143.48 is a multiple of 0.01', () => {
    const subject = gate(
      "      - {name: v, logicalType: number, logicalTypeOptions: {multipleOf: 0.01}, physicalType: 'numeric(12,2)'}\n",
    );
    expect(subject.check('insert', { id: 1, v: '143.48' })).toBeNull();
  });

  it('15 confluent-kafka-javascript #416: a failed row rule keeps its id and says what was expected', () => {
    const subject = gate(
      '',
      "    quality: [{id: positive_id, type: custom, engine: cel, description: ids are positive, implementation: 'row.id > 0'}]\n",
    );
    expect(subject.check('insert', { id: -1 })).toEqual([
      {
        ruleId: 'positive_id',
        code: 'RULE',
        column: null,
        action: 'quarantine',
        message: 'ids are positive',
        value: null,
      },
    ]);
    expect(subject.contractHash).toMatch(/^[0-9a-f]{64}$/);
  });

  it('17 airbyte #17987: name and Name are refused before data flows, with a hint', () => {
    const found = errors(
      text(
        '      - {name: name, logicalType: string, physicalType: text}\n      - {name: Name, logicalType: string, physicalType: text}\n',
      ),
    );
    expect(found).toHaveLength(1);
    expect(found[0]).toMatch(/NAME_CLASH.*rename one at the source/);
  });
});
