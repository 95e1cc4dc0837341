/** SARIF 2.1.0 (OASIS), for code scanning: every finding with its file, line and column. */
import { pathToFileURL } from 'node:url';
import { isAbsolute } from 'node:path';
import type { Finding, FindingLevel } from '../../engine/finding.ts';
import type { Report } from './report.ts';
import { reportedFindings } from './reported-findings.ts';
import { rootedPath } from './rooted-path.ts';
import type { Repository } from './rooted-path.ts';

const LEVELS: Readonly<Record<FindingLevel, string>> = { error: 'error', warning: 'warning', info: 'note' };

export function sarifReport(report: Report, repository: Repository | null = null): string {
  const findings = reportedFindings(report.suites).map((finding) => ({
    ...finding,
    file: rootedPath(repository, finding.file),
  }));
  const fingerprint = fingerprints();
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
          message: { text: messageOf(finding) },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: uriOf(finding.file) },
                region: { startLine: finding.line, startColumn: finding.column },
              },
            },
          ],
          partialFingerprints: { subject: fingerprint(finding) },
        })),
      },
    ],
  };
  return `${JSON.stringify(value, null, 2)}\n`;
}

function messageOf({ subject, message, hint }: Finding): string {
  const note = hint === null || hint === '' ? '' : ` (${hint})`;
  return `${subject === '' ? '' : `${subject}: `}${message}${note}`;
}

/** Lines move; what a result is about does not. Of several results about one thing each has a number. */
function fingerprints(): (finding: Finding) => string {
  const seen = new Map<string, number>();
  return ({ file, code, subject }) => {
    const about = `${file}|${code}|${subject}`;
    const count = (seen.get(about) ?? 0) + 1;
    seen.set(about, count);
    return count === 1 ? about : `${about}|${count}`;
  };
}

const uriOf = (file: string): string =>
  isAbsolute(file) ? pathToFileURL(file).href : file.split('/').map(encodeURIComponent).join('/');
