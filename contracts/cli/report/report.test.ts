/** What each format makes of every end that a finding, a rule or a run can have. */
import { describe, expect, it } from 'vitest';

import type { Finding } from '../../engine/finding.ts';
import { githubReport } from './github.ts';
import { jsonReport } from './json.ts';
import { junitReport } from './junit.ts';
import type { Outcome, Problem, Report, Suite } from './report.ts';
import { sarifReport } from './sarif.ts';
import { textReport } from './text.ts';

const finding = (level: Finding['level'], code: string, more: Partial<Finding> = {}): Finding => ({
  level,
  code,
  message: 'a < b & "c"',
  file: 'contracts/public.orders & co.odcs.yaml',
  line: 3,
  column: 5,
  subject: 'orders.total',
  hint: null,
  ...more,
});
const outcome = (ruleId: string, status: Outcome['status'], more: Partial<Outcome> = {}): Outcome => ({
  ruleId,
  status,
  severity: 'error',
  column: null,
  detail: `${ruleId} said`,
  from: status === 'not-run' || status === 'noted' ? null : 'scan',
  line: 7,
  position: 9,
  ...more,
});
const suite = (findings: readonly Finding[], outcomes: readonly Outcome[]): Suite => ({
  file: 'contracts/public.orders & co.odcs.yaml',
  name: 'orders',
  heading: '1.0.0',
  facts: { id: 'shop.orders', version: '1.0.0', versionBefore: null, mode: null, base: null },
  findings,
  outcomes,
});
const report = (command: Report['command'], suites: readonly Suite[], more: Partial<Report> = {}): Report => ({
  command,
  suites,
  problems: [],
  tables: 1,
  elapsedMs: 1234,
  strict: false,
  quiet: false,
  exit: 1,
  ...more,
});

const OUTCOMES: readonly Outcome[] = [
  outcome('fine', 'passed'),
  outcome('bad', 'failed', { sample: ['1/2 note=\u0007]]>'] }),
  outcome('poor', 'failed', { severity: 'warning' }),
  outcome('foreign', 'not-run', { detail: 'engine greatExpectations is not built in' }),
  outcome('prose', 'noted', { detail: 'prose: nothing to run' }),
];
const TESTED = report('test', [suite([], OUTCOMES)]);
const PROBLEM: Problem = {
  code: 'LAKE_UNREADABLE',
  number: 'SLU-7010',
  message: 'no answer',
  remedy: 'start it',
  exit: 3,
};

interface Sarif {
  readonly runs: readonly {
    readonly tool: { readonly driver: { readonly rules: readonly { readonly id: string }[] } };
    readonly invocations: readonly {
      readonly executionSuccessful: boolean;
      readonly toolExecutionNotifications: readonly { readonly message: { readonly text: string } }[];
    }[];
    readonly results: readonly {
      readonly ruleId: string;
      readonly ruleIndex: number;
      readonly level: string;
      readonly message: { readonly text: string };
      readonly locations: readonly [
        {
          readonly physicalLocation: { readonly artifactLocation: { readonly uri: string }; readonly region: object };
        },
      ];
      readonly partialFingerprints: Readonly<Record<string, string>>;
    }[];
  }[];
}
const sarif = (of: Report): Sarif['runs'][number] => {
  const [run] = (JSON.parse(sarifReport(of)) as Sarif).runs;
  if (run === undefined) throw new Error('a log without a run');
  return run;
};

/** The cases of a JUnit file: name → its element's inside. */
function cases(xml: string): ReadonlyMap<string, string> {
  const found = [...xml.matchAll(/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)].map(
    ([, attributes = '', inside = '']) => [/\bname="([^"]*)"/.exec(attributes)?.[1] ?? '', inside.trim()] as const,
  );
  expect(new Set(found.map(([name]) => name)).size).toBe(found.length);
  return new Map(found);
}

describe('the end of a rule', () => {
  it('in JUnit: passed and warned pass, failed fails, NOT RUN is an error, a note is skipped', () => {
    const xml = junitReport(TESTED);
    const found = cases(xml);
    expect(xml).toContain('<testsuite name="orders" tests="5" failures="1" errors="1" skipped="1" time="1.234">');
    expect(found.get('fine')).toBe('<system-out>fine said</system-out>');
    expect(found.get('bad')).toMatch(
      /^<failure type="RULE_FAILED" message="bad said; keys: 1\/2 note=\ufffd\]\]&gt;">/,
    );
    expect(found.get('poor')).toBe('<system-out>warning RULE_FAILED: poor said</system-out>');
    expect(found.get('foreign')).toMatch(/^<error type="NOT_RUN" message="engine greatExpectations is not built in">/);
    expect(found.get('prose')).toBe('<skipped message="prose: nothing to run"/>');
    const strict = cases(junitReport(report('test', [suite([], OUTCOMES)], { strict: true })));
    expect(strict.get('poor')).toMatch(/^<failure type="RULE_FAILED"/);
  });

  it('in SARIF: what failed or did not run is a result with its place; what passed, or is prose, is none', () => {
    const { results, tool, invocations } = sarif(TESTED);
    expect(results.map(({ ruleId, level, message }) => [ruleId, level, message.text])).toEqual([
      ['RULE_FAILED', 'error', 'orders.bad: bad said'],
      ['RULE_FAILED', 'warning', 'orders.poor: poor said'],
      ['NOT_RUN', 'error', 'orders.foreign: engine greatExpectations is not built in'],
    ]);
    for (const { ruleId, ruleIndex, locations } of results) {
      expect(tool.driver.rules[ruleIndex]?.id).toBe(ruleId);
      expect(locations[0].physicalLocation).toEqual({
        artifactLocation: { uri: 'contracts/public.orders%20%26%20co.odcs.yaml' },
        region: { startLine: 7, startColumn: 9 },
      });
    }
    expect(invocations[0]?.executionSuccessful).toBe(true);
  });

  it('in text, JSON and GitHub annotations', () => {
    expect(textReport(TESTED).split('\n')).toEqual([
      'orders  1.0.0',
      '  ok       fine     fine said  (scan)',
      '  FAIL     bad      bad said  (scan)  keys: 1/2 note=\\u0007]]>',
      '  warning  poor     poor said  (scan)',
      '  NOT RUN  foreign  engine greatExpectations is not built in',
      '  note     prose    prose: nothing to run',
      '1 passed, 1 failed, 1 warning, 1 not run, 1 table tested in 1.2 s   exit 1',
      '',
    ]);
    const shown = JSON.parse(jsonReport(TESTED)) as {
      readonly contracts: readonly [
        { readonly rules: readonly { readonly ruleId: string; readonly status: string }[] },
      ];
    };
    expect(shown.contracts[0].rules.map(({ ruleId, status }) => `${ruleId} ${status}`)).toEqual([
      'fine passed',
      'bad failed',
      'poor failed',
      'foreign not-run',
      'prose noted',
    ]);
    expect(githubReport(TESTED).match(/^::\w+/gm)).toEqual(['::error', '::warning', '::error']);
  });
});

describe('a finding of check', () => {
  const CHECKED = report('check', [
    suite(
      [
        finding('error', 'RULE_TIGHTENED', { hint: 'approved by nobody' }),
        finding('error', 'RULE_TIGHTENED', { message: 'the other end', line: 4 }),
        finding('warning', 'TYPE_WIDENED'),
        finding('info', 'COLUMN_ADDED', { subject: '', message: '100%\nof it' }),
      ],
      [],
    ),
  ]);

  it('in JUnit: one case each, errors fail, the hint stands with it', () => {
    const found = cases(junitReport(CHECKED));
    expect([...found.keys()]).toEqual([
      'RULE_TIGHTENED orders.total',
      'RULE_TIGHTENED orders.total (4:5)',
      'TYPE_WIDENED orders.total',
      'COLUMN_ADDED',
    ]);
    expect(found.get('RULE_TIGHTENED orders.total')).toBe(
      '<failure type="RULE_TIGHTENED" message="a &lt; b &amp; &quot;c&quot; (approved by nobody)">contracts/public.orders &amp; co.odcs.yaml:3:5 a &lt; b &amp; &quot;c&quot; (approved by nobody)</failure>',
    );
    expect(found.get('TYPE_WIDENED orders.total')).toMatch(/^<system-out>warning TYPE_WIDENED: /);
    expect(junitReport(report('check', [suite([], [])]))).toContain('tests="1" failures="0"');
  });

  it('in SARIF: levels, hints, and a fingerprint that no other result has', () => {
    const { results } = sarif(CHECKED);
    expect(results.map(({ level }) => level)).toEqual(['error', 'error', 'warning', 'note']);
    expect(results[0]?.message.text).toBe('orders.total: a < b & "c" (approved by nobody)');
    expect(new Set(results.map((result) => JSON.stringify(result.partialFingerprints))).size).toBe(4);
  });

  it('on one line for GitHub, whatever it says', () => {
    expect(githubReport(CHECKED)).toContain(
      '::notice file=contracts/public.orders & co.odcs.yaml,line=3,col=5,title=COLUMN_ADDED::100%25%0Aof it\n',
    );
  });
});

describe('a part that could not run', () => {
  const FAILED = report('check', [suite([], [])], { problems: [PROBLEM], exit: 3 });

  it('is one error of each format', () => {
    expect(cases(junitReport(FAILED)).get('LAKE_UNREADABLE')).toMatch(
      /^<error type="LAKE_UNREADABLE" message="no answer; start it">/,
    );
    const { invocations, results } = sarif(FAILED);
    expect(results).toEqual([]);
    expect(invocations[0]?.executionSuccessful).toBe(false);
    expect(invocations[0]?.toolExecutionNotifications[0]?.message.text).toBe('no answer; start it');
    expect(githubReport(FAILED)).toContain('::error title=SLU-7010 LAKE_UNREADABLE::no answer; start it');
    expect(textReport(FAILED)).toContain('error SLU-7010 LAKE_UNREADABLE: no answer\n  start it\n');
  });
});
