/** A report in the format asked for, to stdout or to a file. */
import { resolve } from 'node:path';
import type { Ports } from '../ports.ts';
import { githubReport } from './github.ts';
import { jsonReport } from './json.ts';
import { junitReport } from './junit.ts';
import type { Report } from './report.ts';
import type { Repository } from './rooted-path.ts';
import { sarifReport } from './sarif.ts';
import { textReport } from './text.ts';

export const FORMATS = ['text', 'json', 'junit', 'sarif', 'github'] as const;
export type Format = (typeof FORMATS)[number];

/** @param repository what reads SARIF and annotations counts from its root; null: there is none */
export function formatReport(report: Report, format: Format, repository: Repository | null): string {
  switch (format) {
    case 'text':
      return textReport(report);
    case 'json':
      return jsonReport(report);
    case 'junit':
      return junitReport(report);
    case 'sarif':
      return sarifReport(report, repository);
    case 'github':
      return githubReport(report, repository);
  }
}

export async function writeReport(ports: Ports, report: Report, format: Format, output: string | null): Promise<void> {
  const rooted = format === 'sarif' || format === 'github';
  const text = formatReport(report, format, rooted ? await repositoryOf(ports) : null);
  if (output === null) ports.out(text);
  else ports.files.write(resolve(ports.cwd, output), text);
}

async function repositoryOf({ git, cwd }: Ports): Promise<Repository | null> {
  const { code, stdout } = await git(['rev-parse', '--show-toplevel', '--show-prefix'], cwd);
  const [root = '', prefix = ''] = stdout.split('\n');
  return code === 0 && root !== '' ? { root, prefix } : null;
}
