/** GitHub Actions workflow commands: an annotation a finding, at its line of the diff. */
import type { Report } from './report.ts';
import { reportedFindings } from './reported-findings.ts';
import { rootedPath } from './rooted-path.ts';
import type { Repository } from './rooted-path.ts';

const WORDS = { error: 'error', warning: 'warning', info: 'notice' } as const;

export function githubReport(report: Report, repository: Repository | null = null): string {
  const lines = reportedFindings(report.suites)
    .filter(({ level }) => !report.quiet || level !== 'info')
    .map((finding) => {
      const place = `file=${property(rootedPath(repository, finding.file))},line=${finding.line},col=${finding.column}`;
      const hint = finding.hint === null || finding.hint === '' ? '' : ` (${finding.hint})`;
      const title = finding.subject === '' ? finding.code : `${finding.code} ${finding.subject}`;
      return `::${WORDS[finding.level]} ${place},title=${property(title)}::${message(`${finding.message}${hint}`)}\n`;
    });
  const problems = report.problems.map(
    ({ code, number, message: text, remedy }) =>
      `::error title=${property(number === null ? code : `${number} ${code}`)}::${message(remedy === '' ? text : `${text}; ${remedy}`)}\n`,
  );
  return [...lines, ...problems].join('');
}

const message = (text: string): string => text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
const property = (text: string): string => message(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
