/** All findings as one list: those of rules that failed or did not run, too. */
import type { Finding } from '../../engine/finding.ts';
import type { Suite } from './report.ts';

export function reportedFindings(suites: readonly Suite[]): Finding[] {
  return suites.flatMap((suite) => [
    ...suite.findings,
    ...suite.outcomes.flatMap((outcome): Finding[] =>
      outcome.status === 'passed' || outcome.status === 'noted'
        ? []
        : [
            {
              level: outcome.status === 'not-run' ? 'error' : outcome.severity,
              code: outcome.status === 'not-run' ? 'NOT_RUN' : 'RULE_FAILED',
              subject: `${suite.name}.${outcome.ruleId}`,
              message: outcome.detail,
              hint: null,
              file: suite.file,
              line: outcome.line,
              column: outcome.position,
            },
          ],
    ),
  ]);
}
