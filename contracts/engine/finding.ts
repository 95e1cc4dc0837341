/** What lint, compatibility and drift report: one cause, one finding, with the place in the contract's text. */
export type FindingLevel = 'error' | 'warning' | 'info';

export interface Finding {
  readonly level: FindingLevel;
  /** Upper-case word, stable across releases: `UNKNOWN_KEY`, `COLUMN_REMOVED`. */
  readonly code: string;
  /** What is wrong and what was expected. Holds no row data. */
  readonly message: string;
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1, in characters. */
  readonly column: number;
  /** What it is about: `orders.total`, `servers.lake`. Empty for the whole file. */
  readonly subject: string;
  /** The nearest right word, or the next step. */
  readonly hint: string | null;
}

/** A place in a contract's text, both from 1. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}

/** `contracts/orders.odcs.yaml:12:5: error UNKNOWN_KEY: …` */
export function formatFinding(finding: Finding): string {
  const hint = finding.hint === null ? '' : ` (${finding.hint})`;
  const subject = finding.subject === '' ? '' : ` ${finding.subject}:`;
  return `${finding.file}:${finding.line}:${finding.column}: ${finding.level} ${finding.code}:${subject} ${finding.message}${hint}`;
}

export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some((finding) => finding.level === 'error');
}

/** By place, then by code, so that the same contract always gives the same list. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  return [...findings].toSorted(
    (a, b) => compareText(a.file, b.file) || a.line - b.line || a.column - b.column || compareText(a.code, b.code),
  );
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
