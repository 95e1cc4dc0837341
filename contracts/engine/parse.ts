/** Contract text → model and findings: YAML, then the standard's closed shape, then the model. `lint.ts` adds what no shape can say. */
import type { Finding } from './finding.ts';
import { hasErrors } from './finding.ts';
import type { Contract } from './model.ts';
import { readContract } from './read-contract.ts';
import { textOrNull } from './read-node.ts';
import { API_VERSIONS, contractShape } from './standard/elements.ts';
import type { ApiVersion } from './standard/elements.ts';
import { checkShape } from './standard/shape.ts';
import { nodeAt, plain, readYaml } from './yaml-tree.ts';
import type { TreeNode, TreePath } from './yaml-tree.ts';

export interface ParseResult {
  /** Null when a finding is an error. */
  readonly contract: Contract | null;
  readonly findings: readonly Finding[];
}

/** What lint works on: the model of a text that may be at fault. */
export interface Draft {
  readonly root: TreeNode | null;
  readonly contract: Contract | null;
  readonly findings: Finding[];
  /** Where the shape is wrong already: lint says no more there. */
  readonly faults: readonly TreePath[];
}

export type ContractErrorCode = 'CONTRACT_INVALID';

/** The contract cannot be used: `findings` say where and why. */
export class ContractError extends Error {
  readonly code: ContractErrorCode = 'CONTRACT_INVALID';
  readonly findings: readonly Finding[];
  constructor(findings: readonly Finding[]) {
    const errors = findings.filter((finding) => finding.level === 'error');
    const first = errors[0];
    const place = first === undefined ? '' : `${first.file}:${first.line}:${first.column}: ${first.message}`;
    super(`contract is not valid: ${place}${errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''}`);
    this.name = 'ContractError';
    this.findings = findings;
  }
}

/** YAML and shape only. The gate and the command use `lintContract`, which includes this. */
export function parseContract(text: string, file: string): ParseResult {
  const draft = readDraft(text, file);
  return { contract: hasErrors(draft.findings) ? null : draft.contract, findings: draft.findings };
}

export function readDraft(text: string, file: string): Draft {
  const tree = readYaml(text);
  const findings: Finding[] = tree.problems.map((problem) => ({
    level: 'error',
    code: problem.code,
    message: problem.message,
    file,
    line: problem.at.line,
    column: problem.at.column,
    subject: '',
    hint: null,
  }));
  const { root } = tree;
  if (root === null) return { root, contract: null, findings, faults: [] };
  const written = root.kind === 'map' ? (textOrNull(root, 'apiVersion') ?? '') : '';
  // A file with a missing or wrong apiVersion is still checked against 3.1, so that one run shows all its faults.
  const apiVersion: ApiVersion = API_VERSIONS.find((version) => version === written) ?? 'v3.1.0';
  const problems = checkShape(root, contractShape(apiVersion));
  for (const problem of problems)
    findings.push({
      level: problem.level,
      code: problem.code,
      message: problem.message,
      file,
      line: problem.at.line,
      column: problem.at.column,
      subject: subjectOf(root, problem.path),
      hint: problem.hint,
    });
  const contract = root.kind === 'map' ? readContract(root, text, file, apiVersion) : null;
  return { root, contract, findings, faults: problems.map((problem) => problem.path) };
}

/** `schema[0].properties[2].logicalType` → `orders.total.logicalType`: names where elements have them, else the index. */
export function subjectOf(root: TreeNode | null, path: TreePath): string {
  const parts: string[] = [];
  for (const [depth, step] of path.entries()) {
    if (typeof step === 'number') {
      const node = nodeAt(root, path.slice(0, depth + 1));
      const values = node?.kind === 'map' ? plain(node) : null;
      const named = values as Readonly<Record<string, unknown>> | null;
      const name = named?.['name'] ?? named?.['id'] ?? named?.['server'] ?? named?.['property'] ?? named?.['metric'];
      parts.push(typeof name === 'string' ? name : String(step));
    } else if (!CONTAINERS.has(step)) parts.push(step);
  }
  return parts.join('.');
}

const CONTAINERS: ReadonlySet<string> = new Set(['schema', 'properties', 'quality']);
