import type { Finding, FindingLevel } from '../engine/finding.ts';
import type { Contract } from '../engine/model.ts';
import type { TreePath } from '../engine/yaml-tree.ts';

/** A finding at an element of a contract. */
export function findingAt(
  contract: Contract,
  level: FindingLevel,
  code: string,
  subject: string,
  message: string,
  path: TreePath,
  hint: string | null = null,
): Finding {
  const { line, column } = contract.source.locate(path);
  return { level, code, subject, message, hint, file: contract.source.file, line, column };
}
