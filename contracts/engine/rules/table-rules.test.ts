import { describe, expect, it } from 'vitest';

import type { GateRow } from '../gate.ts';
import type { Contract } from '../model.ts';
import { ContractError, parseContract } from '../parse.ts';
import { countRows } from './count-rows.ts';
import { plannedRules } from './planned-rules.ts';
import { checkSelectOnly } from './sql-guard.ts';
import { countSql } from './table-probe.ts';
import type { TableProbe, TableStatistics } from './table-probe.ts';
import { runTableRules } from './table-rules.ts';
import type { RuleResult } from './table-rules.ts';

function contract(quality: string, sla = ''): Contract {
  const { contract: parsed, findings } = parseContract(
    `apiVersion: v3.1.0
kind: DataContract
id: x
version: 1.0.0
status: active
schema:
  - name: t
    quality:
${quality}
    properties:
      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, required: true}
      - {name: email, logicalType: string, physicalType: text, quality: [{id: email_missing, metric: missingValues, arguments: {missingValues: [null, '']}, mustBeLessThan: 40, unit: percent}]}
      - {name: at, logicalType: timestamp, logicalTypeOptions: {timezone: true}, physicalType: timestamptz}
${sla}`,
    't.odcs.yaml',
  );
  if (parsed === null) throw new ContractError(findings);
  return parsed;
}

const ROWS: GateRow[] = [
  { id: 1, email: 'a@x', at: 1 },
  { id: 2, email: '', at: 2 },
  { id: 3, email: null, at: 3 },
  { id: 3, email: 'a@x', at: 4 },
];
const NOW = 1_000_000_000_000n;

function probe(
  statistics: TableStatistics | null = null,
  sql: TableProbe['sql'] = null,
): TableProbe & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    statistics: () => Promise.resolve(statistics),
    count(request) {
      asked.push(request.kind);
      return Promise.resolve(countRows(request, ROWS));
    },
    extremes: () => Promise.resolve({ minMicros: NOW - 1_000_000_000n, maxMicros: NOW - 41_000_000n }),
    sql,
    async *rows() {
      await Promise.resolve();
      yield* ROWS;
    },
    relation: 'lake_t',
    nowMicros: NOW,
  };
}

async function run(quality: string, given: TableProbe, sla = ''): Promise<RuleResult[]> {
  const parsed = contract(quality, sla);
  const [table] = parsed.tables;
  return table === undefined ? [] : runTableRules(parsed, table, given);
}
const ROWCOUNT = '      - {id: rows, metric: rowCount, mustBeGreaterThan: 0}';

describe('table rules', () => {
  it('asks statistics first and reads data only where they are not exact', async () => {
    const statistics = { rowCount: 388_112n, nullCounts: new Map(), ranges: new Map() };
    const lake = probe(statistics);
    const [rows, email] = await run(ROWCOUNT, lake);
    expect(rows).toMatchObject({ status: 'passed', detail: 'rowCount 388112 > 0', from: 'statistics' });
    expect(lake.asked).toEqual(['missing']);
    expect(email?.from).toBe('scan');
  });

  it('compares percentages without rounding and names the figures', async () => {
    const [, email] = await run(ROWCOUNT, probe());
    expect(email).toMatchObject({ status: 'failed', detail: 'missingValues 50.00% >= 40%, 2 of 4 rows' });
  });

  it.each([
    ['mustBeBetween: [3, 4]', 'passed'],
    ['mustBeBetween: [4, 10]', 'passed'],
    ['mustNotBeBetween: [1, 4]', 'failed'],
    ['mustBe: 4', 'passed'],
    ['mustNotBe: 4', 'failed'],
    ['mustBeLessOrEqualTo: 3', 'failed'],
    ['mustBeGreaterOrEqualTo: 4.5', 'failed'],
  ])('rowCount 4 %s: %s (Between is inclusive)', async (operator, status) => {
    expect((await run(`      - {id: r, metric: rowCount, ${operator}}`, probe()))[0]?.status).toBe(status);
  });

  it('counts duplicates of a composite key', async () => {
    const [dup] = await run(
      '      - {id: d, metric: duplicateValues, arguments: {properties: [id]}, mustBe: 0}',
      probe(),
    );
    expect(dup).toMatchObject({ status: 'failed', detail: 'duplicateValues 1 ≠ 0' });
  });

  it('runs SQL with placeholders, and says NOT RUN where it cannot', async () => {
    const rule =
      "      - {id: s, type: sql, query: 'SELECT count(*) FROM {object} WHERE total < 0', mustBe: 0, severity: warning}";
    const seen: string[] = [];
    const runner = (query: string): Promise<bigint> => {
      seen.push(query);
      return Promise.resolve(0n);
    };
    expect((await run(rule, probe(null, runner)))[0]).toMatchObject({
      status: 'passed',
      from: 'sql',
      severity: 'warning',
    });
    expect(seen).toEqual(['SELECT count(*) FROM lake_t WHERE total < 0']);
    expect((await run(rule, probe()))[0]).toMatchObject({
      status: 'not-run',
      detail: 'no SQL runs on this stage of t',
    });
    const failing = probe(null, () => Promise.reject(new Error('no such column: total\nmore')));
    expect((await run(rule, failing))[0]).toMatchObject({
      status: 'not-run',
      detail: 'the query failed: no such column: total',
    });
  });

  it('reports a rule of an unknown engine as NOT RUN, never as nothing (dqx #1424, datacontract-cli #659)', async () => {
    const [rule] = await run('      - {id: dq, type: custom, engine: greatExpectations, implementation: x}', probe());
    expect(rule).toMatchObject({ ruleId: 'dq', status: 'not-run', detail: 'engine greatExpectations is not built in' });
  });

  it('runs cel rules over the rows of a stage', async () => {
    const [rule] = await run("      - {id: c, type: custom, engine: cel, implementation: 'row.id < 3'}", probe());
    expect(rule).toMatchObject({ status: 'failed', detail: 'cel 2 of 4 rows fail' });
  });

  it('measures latency, freshness and retention to the second', async () => {
    const sla = `slaProperties:
  - {id: lat, property: latency, value: 5, unit: minutes, element: t.at}
  - {id: fresh, property: freshness, value: 40, unit: s, element: t.at}
  - {id: ret, property: retention, value: 7, unit: y, element: t.at}
  - {id: own, property: latency, value: 5, unit: minutes}
`;
    const results = await run(ROWCOUNT, probe(), sla);
    expect(
      results.slice(2).map((result) => `${result.ruleId} ${result.column} ${result.status} ${result.detail}`),
    ).toEqual([
      'lat at passed latency 00:00:41 <= 5 minutes',
      'fresh at failed freshness 00:00:41 > 40 s',
      'ret at passed retention 00:16:40 <= 7 y',
      'own _sluice_committed_at passed latency 00:00:41 <= 5 minutes',
    ]);
  });
});

describe('unique: true', () => {
  const column = 'unique: true, quality';
  const withUnique = (rules: string): Contract => {
    const { source } = contract(ROWCOUNT);
    const text = source.text
      .replace('primaryKey: true, required: true', 'primaryKey: true, required: true, unique: true')
      .replace('mustBeLessThan: 40, unit: percent}]', `mustBeLessThan: 40, unit: percent}${rules}]`)
      .replace('physicalType: text, quality', `physicalType: text, ${column}`);
    const { contract: parsed, findings } = parseContract(text, 't.odcs.yaml');
    if (parsed === null) throw new ContractError(findings);
    return parsed;
  };
  const results = async (parsed: Contract): Promise<string[]> => {
    const [table] = parsed.tables;
    return table === undefined
      ? []
      : (await runTableRules(parsed, table, probe())).map(
          ({ ruleId, status, detail }) => `${ruleId} ${status} ${detail}`,
        );
  };

  it('is tested as the rule that says the same', async () => {
    expect(await results(withUnique(''))).toEqual(
      expect.arrayContaining(['unique:id failed duplicateValues 1 ≠ 0', 'unique:email failed duplicateValues 1 ≠ 0']),
    );
  });

  it('is not tested twice where such a rule stands beside it', async () => {
    const listed = await results(withUnique(', {id: once, metric: duplicateValues, mustBe: 0}'));
    expect(listed.filter((line) => line.includes('duplicateValues'))).toEqual([
      'once failed duplicateValues 1 ≠ 0',
      'unique:id failed duplicateValues 1 ≠ 0',
    ]);
  });
});

describe('countSql', () => {
  it('quotes names and values', () => {
    expect(countSql({ kind: 'missing', column: 'a"b', values: [null, "it's"] }, 'r', 'duckdb')).toBe(
      `SELECT count(*) FROM r WHERE "a""b" IS NULL OR CAST("a""b" AS VARCHAR) IN ('it''s')`,
    );
    expect(countSql({ kind: 'invalid', column: 'a', validValues: [1, 2], pattern: null }, 'r', 'postgres')).toBe(
      'SELECT count(*) FROM r WHERE "a" IS NOT NULL AND ("a" NOT IN (1, 2))',
    );
    expect(countSql({ kind: 'duplicate', columns: ['a', 'b'] }, 'r', 'duckdb')).toContain('GROUP BY "a", "b"');
  });
});

describe('what is listed besides', () => {
  const text = `      - {id: prose, type: text, description: for people}
      - {id: words, metric: invalidValues, arguments: {validValues: [x]}, mustBe: 0}`;
  const sla = `slaProperties:
  - {id: up, property: availability, value: 99.9, unit: '%'}
  - {id: fresh, property: latency, value: 1, unit: h}
`;

  it('prose and service levels that no data can show, as notes', async () => {
    const parsed = contract(text.split('\n')[0] ?? '', sla);
    const [table] = parsed.tables;
    const results = table === undefined ? [] : await runTableRules(parsed, table, probe());
    const byId = new Map(results.map((result) => [result.ruleId, result.status]));
    expect([byId.get('prose'), byId.get('up'), byId.get('fresh')]).toEqual(['noted', 'noted', 'passed']);
  });

  it('without reading anything, what would run and what could not', () => {
    const parsed = contract(
      `      - {id: rows, metric: rowCount, mustBeGreaterThan: 0}
      - {id: gx, type: custom, engine: greatExpectations, implementation: x}
      - {id: files, type: sql, query: "SELECT count(*) FROM read_csv('/etc/passwd')", mustBe: 0}`,
      sla,
    );
    const [table] = parsed.tables;
    const planned = table === undefined ? [] : plannedRules(parsed, table, null);
    expect(planned.map(({ ruleId, status }) => [ruleId, status])).toEqual([
      ['rows', 'noted'],
      ['gx', 'not-run'],
      ['files', 'not-run'],
      ['email_missing', 'noted'],
      ['up', 'noted'],
      ['fresh', 'noted'],
    ]);
  });

  it('failing rows by their keys, classified values masked', async () => {
    const parsed = contract(`      - {id: small, type: custom, engine: cel, implementation: 'row.id < 3'}`);
    const [table] = parsed.tables;
    const column = table?.columns[1];
    if (table === undefined || column === undefined) throw new RangeError('no table');
    const sample = async (tested: typeof table, ruleId: string, limit: number): Promise<unknown> =>
      (await runTableRules(parsed, tested, probe(), { sample: limit })).find((each) => each.ruleId === ruleId)?.sample;
    expect(await sample(table, 'small', 5)).toEqual(['3', '3']);
    expect(await sample(table, 'email_missing', 1)).toEqual(['2 email=']);
    expect(await sample(table, 'email_missing', 5)).toEqual(['2 email=', '3 email=NULL']);
    const classified = { ...table, columns: table.columns.map((each) => ({ ...each, classification: 'restricted' })) };
    expect(await sample(classified, 'email_missing', 1)).toEqual(['*** email=***']);
  });
});

describe('SQL that reaches beyond its table', () => {
  it.each([
    "SELECT length(pg_read_file('/etc/passwd'))",
    "SELECT count(*) FROM pg_ls_dir('.')",
    'SELECT pg_sleep(3600)',
    "SELECT count(*) FROM dblink('host=x', 'select 1') AS t(a int)",
    "SELECT lo_import('/etc/passwd')",
    'SELECT pg_terminate_backend(1)',
    "SELECT set_config('a.b', 'c', false)",
    `SELECT "pg_read_file"('/etc/passwd')`,
    `SELECT "read_csv"('/etc/passwd')`,
    "SELECT nextval('s')",
  ])('%s is refused', (query) => {
    expect(checkSelectOnly(query)).not.toBeNull();
  });

  it.each([
    'SELECT count(*) FROM {object} WHERE "total" < 0',
    'SELECT max(length("a b")) FROM {object} AS "q" WHERE ("x") > 1',
  ])('%s may run', (query) => {
    expect(checkSelectOnly(query)).toBeNull();
  });
});
