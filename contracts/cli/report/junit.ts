/**
 * JUnit XML: a suite a contract, a case a rule or finding. Errors are failures, warnings passed cases with their text in
 * `<system-out>` (failures under `--strict`), and what could not run is an error.
 */
import type { Finding } from '../../engine/finding.ts';
import type { Outcome, Report, Suite } from './report.ts';

interface TestCase {
  readonly name: string;
  readonly kind: 'passed' | 'failure' | 'error' | 'skipped';
  readonly type: string;
  readonly message: string;
  readonly file: string;
  readonly line: number;
  /** Column of the line. */
  readonly position: number;
}

export function junitReport(report: Report): string {
  const suites = report.suites.map((suite) => ({ name: suite.name, cases: namedApart(casesOf(suite, report)) }));
  if (report.problems.length > 0)
    suites.push({
      name: `contracts ${report.command}`,
      cases: report.problems.map(({ code, message, remedy }) => ({
        name: code,
        kind: 'error',
        type: code,
        message: remedy === '' ? message : `${message}; ${remedy}`,
        file: '',
        line: 0,
        position: 0,
      })),
    });
  const seconds = (report.elapsedMs / 1000).toFixed(3);
  const all = suites.flatMap(({ cases }) => cases);
  const body = suites.map(
    ({ name, cases }) =>
      `  <testsuite name="${escape(name)}" ${totals(cases)} time="${seconds}">\n${cases.map((item) => caseXml(name, item)).join('')}  </testsuite>\n`,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="contracts ${report.command}" ${totals(all)} time="${seconds}">\n${body.join('')}</testsuites>\n`;
}

function totals(cases: readonly TestCase[]): string {
  const count = (kind: TestCase['kind']): number => cases.filter((item) => item.kind === kind).length;
  return `tests="${cases.length}" failures="${count('failure')}" errors="${count('error')}" skipped="${count('skipped')}"`;
}

function casesOf(suite: Suite, report: Report): TestCase[] {
  const cases =
    report.command === 'test'
      ? suite.outcomes.map((outcome) => ruleCase(suite, outcome, report.strict))
      : suite.findings.map((finding) => findingCase(finding, report.strict));
  return cases.length > 0
    ? cases
    : [{ name: 'contract', kind: 'passed', type: '', message: '', file: suite.file, line: 1, position: 1 }];
}

function findingCase(finding: Finding, strict: boolean): TestCase {
  const { code, subject, level, message, hint, file, line, column: position } = finding;
  const failed = level === 'error' || (strict && level === 'warning');
  const text = hint === null || hint === '' ? message : `${message} (${hint})`;
  const name = subject === '' ? code : `${code} ${subject}`;
  return failed
    ? { name, kind: 'failure', type: code, message: text, file, line, position }
    : { name, kind: 'passed', type: `${level} ${code}`, message: text, file, line, position };
}

function ruleCase(suite: Suite, outcome: Outcome, strict: boolean): TestCase {
  const { ruleId, status, severity, detail, line, position } = outcome;
  const failed = status === 'failed' && (severity === 'error' || (strict && severity === 'warning'));
  const kind = status === 'not-run' ? 'error' : status === 'noted' ? 'skipped' : failed ? 'failure' : 'passed';
  const warned = status === 'failed' && !failed ? `${severity} RULE_FAILED` : '';
  const type = status === 'not-run' ? 'NOT_RUN' : failed ? 'RULE_FAILED' : warned;
  const rows =
    outcome.sample === undefined || outcome.sample.length === 0 ? '' : `; keys: ${outcome.sample.join(', ')}`;
  return { name: ruleId, kind, type, message: `${detail}${rows}`, file: suite.file, line, position };
}

/** Readers take two cases of one name for one: the second says where it stands. */
function namedApart(cases: readonly TestCase[]): TestCase[] {
  const taken = new Set<string>();
  return cases.map((item) => {
    const place = `${item.name} (${item.line}:${item.position})`;
    let name = taken.has(item.name) ? place : item.name;
    for (let again = 2; taken.has(name); again++) name = `${place} ${again}`;
    taken.add(name);
    return { ...item, name };
  });
}

function caseXml(suite: string, item: TestCase): string {
  const open = `    <testcase classname="${escape(suite)}" name="${escape(item.name)}" time="0"${item.file === '' ? '' : ` file="${escape(item.file)}" line="${item.line}"`}`;
  if (item.kind === 'skipped') return `${open}>\n      <skipped message="${escape(item.message)}"/>\n    </testcase>\n`;
  if (item.kind !== 'passed') {
    // Some readers show the attribute, some the text.
    const place = item.file === '' ? '' : `${item.file}:${item.line}:${item.position} `;
    return `${open}>\n      <${item.kind} type="${escape(item.type)}" message="${escape(item.message)}">${escape(`${place}${item.message}`)}</${item.kind}>\n    </testcase>\n`;
  }
  if (item.message === '') return `${open}/>\n`;
  return `${open}>\n      <system-out>${escape(`${item.type === '' ? '' : `${item.type}: `}${item.message}`)}</system-out>\n    </testcase>\n`;
}

function escape(text: string): string {
  return (
    text
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
      // oxlint-disable-next-line no-control-regex -- XML 1.0 has no place for control characters, escaped or not
      .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
  );
}
