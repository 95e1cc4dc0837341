/** What `check` and `test` found, before it is written in one of the formats. */
import type { Finding, FindingLevel } from '../../engine/finding.ts';
import { EXIT } from '../exit-code.ts';
import type { CommandError, ExitCode } from '../exit-code.ts';
import type { Ports } from '../ports.ts';
import { reportedFindings } from './reported-findings.ts';

export type OutcomeStatus = 'passed' | 'failed' | 'not-run' | 'noted';

/** One rule's end in `contracts test`. */
export interface Outcome {
  readonly ruleId: string;
  readonly status: OutcomeStatus;
  readonly severity: 'info' | 'warning' | 'error';
  readonly column: string | null;
  readonly detail: string;
  /** `delta stats`, `scan`, `sql`; null when not run. */
  readonly from: string | null;
  readonly line: number;
  readonly position: number;
  /** Failing rows by their keys, where some were asked for. */
  readonly sample?: readonly string[];
}

/** One contract. */
export interface Suite {
  readonly file: string;
  /** The tables, `orders`. */
  readonly name: string;
  /** What stands behind the name in text: `1.2.0 -> 1.2.1  mode FORWARD_TRANSITIVE, base 3f2c9d1`. */
  readonly heading: string;
  readonly facts: Readonly<Record<string, string | null>>;
  readonly findings: readonly Finding[];
  readonly outcomes: readonly Outcome[];
}

export interface Problem {
  readonly code: string;
  /** `SLU-7006`; null: the code has no page. */
  readonly number: string | null;
  readonly message: string;
  readonly remedy: string;
  readonly exit: ExitCode;
}

export interface Report {
  readonly command: 'check' | 'test';
  readonly suites: readonly Suite[];
  /** What kept a part from running: one cause, one problem. */
  readonly problems: readonly Problem[];
  readonly tables: number;
  readonly elapsedMs: number;
  readonly strict: boolean;
  readonly quiet: boolean;
  readonly exit: ExitCode;
}

export type FailOn = 'error' | 'warning' | 'never';
export const FAIL_ON = ['error', 'warning', 'never'] as const satisfies readonly FailOn[];

export interface Counts {
  readonly errors: number;
  readonly warnings: number;
  readonly infos: number;
}

export function countFindings(suites: readonly Suite[]): Counts {
  const levels = reportedFindings(suites).map(({ level }) => level);
  const count = (wanted: FindingLevel): number => levels.filter((level) => level === wanted).length;
  return { errors: count('error'), warnings: count('warning'), infos: count('info') };
}

export function problemOf(error: CommandError, ports: Pick<Ports, 'numberOf'>): Problem {
  const number = ports.numberOf?.(error.code) ?? null;
  return { code: error.code, number, message: error.message, remedy: error.remedy, exit: error.exit };
}

/** An invalid contract goes before an environment that failed, and that before findings: the first is to be mended first. */
export function exitOf(
  suites: readonly Suite[],
  problems: readonly Problem[],
  options: { readonly failOn: FailOn; readonly invalid: boolean },
): ExitCode {
  if (options.invalid || problems.some(({ exit }) => exit === EXIT.usage)) return EXIT.usage;
  if (problems.some(({ exit }) => exit === EXIT.environment)) return EXIT.environment;
  const { errors, warnings } = countFindings(suites);
  const failing = options.failOn === 'never' ? 0 : options.failOn === 'error' ? errors : errors + warnings;
  return failing > 0 ? EXIT.findings : EXIT.clean;
}
