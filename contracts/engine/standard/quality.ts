/** Quality rules (ODCS 3.1.0, "Data quality"): library metrics, SQL, custom engines and prose. */
import { nearest } from '../nearest.ts';
import type { MapNode, TreePath } from '../yaml-tree.ts';
import type { Minor } from './servers.ts';
import { customProperties, definitions, object, optionalTexts, stableIdField, tags, text } from './shape-parts.ts';
import type { Field, Fields, Shape } from './shape-parts.ts';
import { textAt } from './shape.ts';
import type { Report } from './shape.ts';

export const OPERATORS = [
  'mustBe',
  'mustNotBe',
  'mustBeGreaterThan',
  'mustBeGreaterOrEqualTo',
  'mustBeLessThan',
  'mustBeLessOrEqualTo',
  'mustBeBetween',
  'mustNotBeBetween',
] as const;
export type OperatorName = (typeof OPERATORS)[number];

export const METRICS = ['nullValues', 'missingValues', 'invalidValues', 'duplicateValues', 'rowCount'] as const;
export type MetricName = (typeof METRICS)[number];

/** The rule names of 3.0.x, which had no `metric`, and what they are called since 3.1. */
export const RULES_30: Readonly<Record<string, MetricName>> = {
  nullCheck: 'nullValues',
  nullValues: 'nullValues',
  missingValues: 'missingValues',
  validValues: 'invalidValues',
  invalidValues: 'invalidValues',
  uniqueCheck: 'duplicateValues',
  duplicateCount: 'duplicateValues',
  duplicateValues: 'duplicateValues',
  rowCount: 'rowCount',
};
export const DIMENSIONS = [
  'accuracy',
  'completeness',
  'conformity',
  'consistency',
  'coverage',
  'timeliness',
  'uniqueness',
] as const;
export const RULE_KINDS = ['text', 'library', 'sql', 'custom'] as const;

const numberField: Field = { shape: { kind: 'number' } };
const between: Field = { shape: { kind: 'list', item: { kind: 'number' }, min: 2, max: 2, unique: true } };
const operatorFields: Fields = {
  mustBe: { shape: { kind: 'any' } },
  mustNotBe: { shape: { kind: 'any' } },
  mustBeGreaterThan: numberField,
  mustBeGreaterOrEqualTo: numberField,
  mustBeLessThan: numberField,
  mustBeLessOrEqualTo: numberField,
  mustBeBetween: between,
  mustNotBeBetween: between,
};

export function qualityShape(minor: Minor): Shape {
  const common: Fields = {
    ...stableIdField,
    ...optionalTexts('businessImpact', 'description', 'method', 'name', 'schedule', 'scheduler', 'severity', 'unit'),
    type: { shape: { kind: 'text', words: RULE_KINDS } },
    dimension: { shape: { kind: 'text', words: DIMENSIONS } },
    tags: { shape: tags },
    authoritativeDefinitions: { shape: definitions },
    customProperties: { shape: customProperties(minor) },
  };
  return object(
    'a rule',
    common,
    (node) => kindFields(node, minor),
    (node, report, path) => checkRule(node, minor, report, path),
  );
}

/** `library` is the default kind; a rule with `metric` is one whatever else it says. */
export function ruleKind(node: MapNode): string {
  return textAt(node, 'type') ?? 'library';
}

function kindFields(node: MapNode, minor: Minor): Fields {
  switch (ruleKind(node)) {
    case 'sql':
      return { query: { shape: text, required: true }, ...operatorFields };
    case 'custom':
      return {
        engine: { shape: text, required: true },
        implementation: { shape: { kind: 'either', options: [text, { kind: 'map' }] }, required: true },
      };
    case 'text':
      return {};
    default:
      return libraryFields(node, minor);
  }
}

function libraryFields(node: MapNode, minor: Minor): Fields {
  const argumentsField: Fields = { arguments: { shape: { kind: 'map' } } };
  if (minor === '3.0' && node.entries.has('rule'))
    return {
      rule: { shape: { kind: 'text', words: Object.keys(RULES_30) }, required: true },
      validValues: { shape: { kind: 'list', item: { kind: 'scalar' } } },
      ...argumentsField,
      ...operatorFields,
    };
  return { metric: { shape: { kind: 'text', words: METRICS }, required: true }, ...argumentsField, ...operatorFields };
}

/** Exactly one operator for library and sql rules: one finding where a JSON Schema gives ten errors. */
function checkRule(node: MapNode, minor: Minor, report: Report, path: TreePath): void {
  const kind = ruleKind(node);
  if (kind !== 'sql' && kind !== 'library') return;
  const name = textAt(node, 'id') ?? textAt(node, 'name') ?? textAt(node, 'metric') ?? 'this one';
  const present = OPERATORS.filter((operator) => node.entries.has(operator));
  if (present.length > 1) {
    const message = `rule ${name} has ${present.length} operators (${present.join(', ')}); it needs exactly one`;
    report({
      code: 'SEVERAL_OPERATORS',
      message,
      at: node.entries.get(present[1] ?? '')?.keyAt ?? node.at,
      path,
      hint: 'use mustBeBetween, or two rules',
    });
  }
  if (present.length === 1) return;
  // 3.0.x wrote `rule: validValues` with no operator and meant zero.
  if (minor === '3.0' && node.entries.has('rule')) return;
  // One cause, one finding: a misspelt operator, or a rule without its metric, has been reported already.
  const reported = [...node.entries.keys()].some((key) => key.startsWith('must') || nearest(key, OPERATORS) !== null);
  const complete = node.entries.has(kind === 'sql' ? 'query' : 'metric');
  if (reported || !complete) return;
  report({
    code: 'NO_OPERATOR',
    message: `rule ${name} needs one operator`,
    at: node.at,
    path,
    hint: `one of ${OPERATORS.join(', ')}`,
  });
}
