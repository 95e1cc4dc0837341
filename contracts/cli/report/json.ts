/** For programs. `schemaVersion` rises when a field changes its meaning or goes; new fields may come without that. */
import { countFindings } from './report.ts';
import type { Report } from './report.ts';

export const JSON_SCHEMA_VERSION = 1;

export function jsonReport(report: Report): string {
  const { errors, warnings, infos } = countFindings(report.suites);
  const outcomes = report.suites.flatMap((suite) => suite.outcomes);
  const value = {
    schemaVersion: JSON_SCHEMA_VERSION,
    command: report.command,
    exit: report.exit,
    summary: {
      errors: errors + report.problems.length,
      warnings,
      infos,
      tables: report.tables,
      elapsedMs: report.elapsedMs,
      ...(report.command === 'test'
        ? {
            passed: outcomes.filter(({ status }) => status === 'passed').length,
            failed: outcomes.filter(({ status }) => status === 'failed').length,
            notRun: outcomes.filter(({ status }) => status === 'not-run').length,
            noted: outcomes.filter(({ status }) => status === 'noted').length,
          }
        : {}),
    },
    problems: report.problems.map(({ code, number, message, remedy }) => ({ code, number, message, remedy })),
    contracts: report.suites.map((suite) => ({
      file: suite.file,
      table: suite.name,
      ...suite.facts,
      ...(report.command === 'test'
        ? { rules: suite.outcomes.map(({ position, ...rest }) => ({ ...rest, position })) }
        : {}),
      findings: suite.findings.map(({ level, code, subject, message, hint, line, column }) => ({
        level,
        code,
        subject,
        message,
        hint,
        line,
        column,
      })),
    })),
  };
  return `${JSON.stringify(value, null, 2)}\n`;
}
