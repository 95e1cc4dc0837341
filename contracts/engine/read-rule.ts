/** Tree node → Rule. A rule that the shape check refused may read as null. */
import { customValues, wordOf } from './custom-properties.ts';
import { normaliseNumber } from './decimal-text.ts';
import type { Operator, Rule } from './model.ts';
import { ACTIONS, RULE_SCOPES } from './model.ts';
import { child, mapAt, scalarAt, scalarsAt, textOrNull, textsAt } from './read-node.ts';
import type { Minor } from './standard/servers.ts';
import { METRICS, OPERATORS, ruleKind, RULES_30 } from './standard/quality.ts';
import { plain } from './yaml-tree.ts';
import type { MapNode, TreeNode, TreePath } from './yaml-tree.ts';

export function readRule(node: TreeNode, path: TreePath, column: string | null, minor: Minor): Rule | null {
  if (node.kind !== 'map') return null;
  const custom = customValues(child(node, 'customProperties'));
  const kind = ruleKind(node);
  const givenId = textOrNull(node, 'id');
  const base = {
    path,
    id: givenId ?? derivedId(node, kind, column, path),
    givenId,
    name: textOrNull(node, 'name'),
    description: textOrNull(node, 'description'),
    column,
    severity: textOrNull(node, 'severity') ?? 'error',
    dimension: textOrNull(node, 'dimension'),
    onViolation: wordOf(custom, 'onViolation', ACTIONS),
    scope: wordOf(custom, 'scope', RULE_SCOPES),
    schedule: textOrNull(node, 'schedule'),
  };
  const unit = textOrNull(node, 'unit') === 'percent' ? 'percent' : 'rows';
  if (kind === 'text') return { ...base, kind };
  if (kind === 'custom') {
    const engine = textOrNull(node, 'engine');
    const implementation = child(node, 'implementation');
    if (engine === null || implementation === undefined) return null;
    const text =
      implementation.kind === 'scalar' ? implementation.text : JSON.stringify(plain(implementation), bigintText);
    return { ...base, kind, engine, implementation: text };
  }
  const operator = readOperator(node);
  if (kind === 'sql') {
    const query = textOrNull(node, 'query');
    return query === null || operator === null ? null : { ...base, kind, query, operator, unit };
  }
  return kind === 'library' ? readLibrary(node, base, operator, unit, minor) : null;
}

type Base = Omit<Extract<Rule, { kind: 'text' }>, 'kind'>;

function readLibrary(
  node: MapNode,
  base: Base,
  operator: Operator | null,
  unit: 'rows' | 'percent',
  minor: Minor,
): Rule | null {
  const old = minor === '3.0' ? RULES_30[textOrNull(node, 'rule') ?? ''] : undefined;
  const metric = METRICS.find((name) => name === textOrNull(node, 'metric')) ?? old;
  const effective = operator ?? (old === undefined ? null : { name: 'mustBe' as const, value: 0, text: '0' });
  if (metric === undefined || effective === null) return null;
  const args = mapAt(node, 'arguments');
  const properties = args === null ? [] : textsAt(args, 'properties');
  return {
    ...base,
    kind: 'library',
    metric,
    validValues: (args === null ? null : scalarsAt(args, 'validValues')) ?? scalarsAt(node, 'validValues'),
    pattern: args === null ? null : textOrNull(args, 'pattern'),
    missingValues: args === null ? null : scalarsAt(args, 'missingValues'),
    properties: properties.length === 0 ? null : properties,
    operator: effective,
    unit,
  };
}

function readOperator(node: MapNode): Operator | null {
  for (const name of OPERATORS) {
    const value = child(node, name);
    if (value === undefined) continue;
    const text =
      value.kind === 'scalar' ? (normaliseNumber(value.text) ?? value.text) : JSON.stringify(plain(value), bigintText);
    return { name, value: plain(value), text };
  }
  return null;
}

/** Stable as long as the rule keeps its kind and place: `status.invalidValues`, `orders.sql.2`. */
function derivedId(node: MapNode, kind: string, column: string | null, path: TreePath): string {
  const index = path.at(-1);
  const what = kind === 'library' ? (scalarAt(node, 'metric')?.text ?? scalarAt(node, 'rule')?.text ?? 'rule') : kind;
  return `${column ?? 'table'}.${what}${index === 0 ? '' : `.${index}`}`;
}

function bigintText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}
