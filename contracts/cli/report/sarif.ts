/** SARIF 2.1.0 (OASIS), for code scanning: every finding with its file, line and column. */
import { pathToFileURL } from 'node:url';
import { isAbsolute } from 'node:path';
import type { FindingLevel } from '../../engine/finding.ts';
import type { Report } from './report.ts';
import { reportedFindings } from './reported-findings.ts';

const LEVELS: Readonly<Record<FindingLevel, string>> = { error: 'error', warning: 'warning', info: 'note' };

export function sarifReport(report: Report): string {
  const findings = reportedFindings(report.suites);
  const codes = [...new Set(findings.map(({ code }) => code))].toSorted();
  const value = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'contracts', rules: codes.map((id) => ({ id, shortDescription: { text: id } })) } },
        columnKind: 'unicodeCodePoints',
        invocations: [
          {
            executionSuccessful: report.problems.length === 0,
            exitCode: report.exit,
            toolExecutionNotifications: report.problems.map(({ code, number, message, remedy }) => ({
              level: 'error',
              descriptor: { id: code },
              ...(number === null ? {} : { properties: { number } }),
              message: { text: remedy === '' ? message : `${message}; ${remedy}` },
            })),
          },
        ],
        results: findings.map((finding) => ({
          ruleId: finding.code,
          ruleIndex: codes.indexOf(finding.code),
          level: LEVELS[finding.level],
          message: { text: [finding.subject, finding.message].filter((part) => part !== '').join(': ') },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: uriOf(finding.file) },
                region: { startLine: finding.line, startColumn: finding.column },
              },
            },
          ],
          // Lines move; what a result is about does not.
          partialFingerprints: { subject: `${finding.file}|${finding.code}|${finding.subject}` },
        })),
      },
    ],
  };
  return `${JSON.stringify(value, null, 2)}\n`;
}

const uriOf = (file: string): string =>
  isAbsolute(file) ? pathToFileURL(file).href : file.split('/').map(encodeURIComponent).join('/');
