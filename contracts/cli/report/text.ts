/** For a terminal: a heading a contract, a line a finding. */
import type { Finding } from '../../engine/finding.ts';
import { countFindings } from './report.ts';
import type { Outcome, Report, Suite } from './report.ts';

export function textReport(report: Report): string {
  const lines: string[] = [];
  for (const suite of report.suites) lines.push(...suiteLines(suite, report));
  for (const { code, number, message, remedy } of report.problems) {
    lines.push(`error ${number === null ? '' : `${number} `}${code}: ${message}`);
    if (remedy !== '') lines.push(`  ${remedy}`);
  }
  if (!report.quiet) lines.push(summary(report));
  return lines.length === 0 ? '' : `${lines.map(printable).join('\n')}\n`;
}

/** Names and keys come from files and databases: none of them steers the terminal or breaks a line. */
const printable = (line: string): string =>
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  line.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });

function suiteLines(suite: Suite, report: Report): string[] {
  const findings = suite.findings.filter(({ level }) => !report.quiet || level !== 'info');
  const outcomes = suite.outcomes.filter(({ status }) => !report.quiet || (status !== 'passed' && status !== 'noted'));
  const shown = report.command === 'test' ? outcomes.length > 0 : findings.length > 0;
  if (!shown) return [];
  const head = `${report.command === 'test' ? suite.name : suite.file}  ${suite.heading}`.trimEnd();
  return [head, ...(report.command === 'test' ? outcomeLines(outcomes) : findingLines(findings))];
}

function findingLines(findings: readonly Finding[]): string[] {
  const places = findings.map(({ line, column }) => `${line}:${column}`);
  const [place, code, subject] = [
    widest(places),
    widest(findings.map((finding) => finding.code)),
    widest(findings.map((finding) => finding.subject)),
  ];
  return findings.map((finding, index) => {
    const { level, message, hint } = finding;
    const note = hint === null || hint === '' ? '' : ` (${hint})`;
    return `  ${level.padEnd(8)} ${(places[index] ?? '').padStart(place)}  ${finding.code.padEnd(code)}  ${finding.subject.padEnd(subject)}  ${message}${note}`;
  });
}

function outcomeLines(outcomes: readonly Outcome[]): string[] {
  const id = widest(outcomes.map(({ ruleId }) => ruleId));
  return outcomes.map((outcome) => {
    const from = outcome.from === null ? '' : `  (${outcome.from})`;
    const sample =
      outcome.sample === undefined || outcome.sample.length === 0 ? '' : `  keys: ${outcome.sample.join(', ')}`;
    return `  ${WORDS[wordOf(outcome)].padEnd(8)} ${outcome.ruleId.padEnd(id)}  ${outcome.detail}${from}${sample}`;
  });
}

const WORDS = { passed: 'ok', failed: 'FAIL', warned: 'warning', 'not-run': 'NOT RUN', noted: 'note' } as const;
const wordOf = ({ status, severity }: Outcome): keyof typeof WORDS =>
  status === 'failed' && severity !== 'error' ? 'warned' : status;

function summary(report: Report): string {
  const seconds = (report.elapsedMs / 1000).toFixed(1);
  const tables = plural(report.tables, 'table');
  if (report.command === 'test') {
    const all = report.suites.flatMap((suite) => suite.outcomes);
    const count = (word: keyof typeof WORDS): number => all.filter((outcome) => wordOf(outcome) === word).length;
    const warned = count('warned') === 0 ? '' : ` ${plural(count('warned'), 'warning')},`;
    return `${count('passed')} passed, ${count('failed')} failed,${warned} ${count('not-run')} not run, ${tables} tested in ${seconds} s   exit ${report.exit}`;
  }
  const { errors, warnings } = countFindings(report.suites);
  const failed = errors + report.problems.length;
  return `${plural(failed, 'error')}, ${plural(warnings, 'warning')}, ${tables} checked in ${seconds} s   exit ${report.exit}`;
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
const widest = (texts: readonly string[]): number => texts.reduce((most, text) => Math.max(most, text.length), 0);
