/** A report in the format asked for, to stdout or to a file. */
import { resolve } from 'node:path';
import type { Ports } from '../ports.ts';
import { githubReport } from './github.ts';
import { jsonReport } from './json.ts';
import { junitReport } from './junit.ts';
import type { Report } from './report.ts';
import { sarifReport } from './sarif.ts';
import { textReport } from './text.ts';

export const FORMATS = ['text', 'json', 'junit', 'sarif', 'github'] as const;
export type Format = (typeof FORMATS)[number];

export function formatReport(report: Report, format: Format): string {
  switch (format) {
    case 'text':
      return textReport(report);
    case 'json':
      return jsonReport(report);
    case 'junit':
      return junitReport(report);
    case 'sarif':
      return sarifReport(report);
    case 'github':
      return githubReport(report);
  }
}

export function writeReport(ports: Ports, report: Report, format: Format, output: string | null): void {
  const text = formatReport(report, format);
  if (output === null) ports.out(text);
  else ports.files.write(resolve(ports.cwd, output), text);
}
