/**
 * A small schema language for closed YAML trees, and its walker. Unlike JSON Schema it reports one finding per cause, with
 * the place and the nearest right word.
 */
import type { FindingLevel, TextPosition } from '../finding.ts';
import { normaliseNumber } from '../decimal-text.ts';
import { didYouMean, knownHere, nearest } from '../nearest.ts';
import type { MapNode, ScalarNode, TreeNode, TreePath } from '../yaml-tree.ts';

export interface Text {
  readonly kind: 'text';
  readonly words?: readonly string[];
  readonly pattern?: { readonly regex: RegExp; readonly expected: string };
}
export interface Numeric {
  readonly kind: 'integer' | 'number';
  readonly min?: number;
  readonly above?: number;
}
export interface Plain {
  readonly kind: 'boolean' | 'any' | 'scalar' | 'map';
}
export interface ListOf {
  readonly kind: 'list';
  readonly item: Shape;
  readonly min?: number;
  readonly max?: number;
  readonly unique?: boolean;
}
export interface Either {
  readonly kind: 'either';
  readonly options: readonly Shape[];
}
export interface Lazy {
  readonly kind: 'lazy';
  readonly shape: () => Shape;
}
export interface ObjectOf {
  readonly kind: 'object';
  /** What it is called in a message: `a column`, `a rule`. */
  readonly name: string;
  readonly fields: Fields;
  /** More fields that depend on the node itself, for instance on `type`. */
  readonly refine?: (node: MapNode) => Fields;
  /** When keys that are right elsewhere are right here, for the message where they are not. */
  readonly elsewhere?: Readonly<Record<string, string>>;
  /** What fields alone cannot say. */
  readonly check?: (node: MapNode, report: Report, path: TreePath) => void;
}
export type Shape = Text | Numeric | Plain | ListOf | Either | Lazy | ObjectOf;
export interface Field {
  readonly shape: Shape;
  readonly required?: boolean;
}
export type Fields = Readonly<Record<string, Field>>;

export interface ShapeProblem {
  readonly level: FindingLevel;
  readonly code: ShapeCode;
  readonly message: string;
  readonly at: TextPosition;
  readonly path: TreePath;
  readonly hint: string | null;
}
export type ShapeCode =
  | 'UNKNOWN_KEY'
  | 'MISSING_KEY'
  | 'WRONG_TYPE'
  | 'UNKNOWN_VALUE'
  | 'BAD_FORMAT'
  | 'OUT_OF_RANGE'
  | 'NO_OPERATOR'
  | 'SEVERAL_OPERATORS'
  | 'REFERENCE';
export type Report = (problem: Omit<ShapeProblem, 'level'> & { readonly level?: FindingLevel }) => void;

export function checkShape(node: TreeNode, shape: Shape): ShapeProblem[] {
  const problems: ShapeProblem[] = [];
  walk(node, shape, [], (problem) => problems.push({ level: 'error', ...problem }));
  return problems;
}

function walk(node: TreeNode, shape: Shape, path: TreePath, report: Report): void {
  switch (shape.kind) {
    case 'any':
      return;
    case 'lazy':
      return walk(node, shape.shape(), path, report);
    case 'either':
      return walkEither(node, shape, path, report);
    case 'list':
      return walkList(node, shape, path, report);
    case 'object':
      return walkObject(node, shape, path, report);
    case 'map':
      if (node.kind !== 'map') wrongType(node, 'a map of keys and values', path, report);
      return;
    default:
      return walkScalar(node, shape, path, report);
  }
}

function walkScalar(node: TreeNode, shape: Text | Numeric | Plain, path: TreePath, report: Report): void {
  if (node.kind !== 'scalar') return wrongType(node, EXPECTED[shape.kind], path, report);
  const { value } = node;
  switch (shape.kind) {
    case 'text':
      if (typeof value !== 'string') return wrongType(node, EXPECTED.text, path, report, quoteHint(node));
      if (shape.words !== undefined && !shape.words.includes(value))
        return report({
          code: 'UNKNOWN_VALUE',
          message: `'${value}' is not allowed here`,
          at: node.at,
          path,
          hint: otherDigits(value, shape.words) ? knownHere(shape.words) : didYouMean(value, shape.words),
        });
      if (shape.pattern !== undefined && !shape.pattern.regex.test(value))
        report({
          code: 'BAD_FORMAT',
          message: `'${value}' is not ${shape.pattern.expected}`,
          at: node.at,
          path,
          hint: null,
        });
      return;
    case 'boolean':
      if (typeof value !== 'boolean') wrongType(node, EXPECTED.boolean, path, report);
      return;
    case 'integer':
    case 'number': {
      const whole = typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value));
      if ((typeof value !== 'bigint' && typeof value !== 'number') || normaliseNumber(node.text) === null)
        return wrongType(node, EXPECTED[shape.kind], path, report);
      if (shape.kind === 'integer' && !whole) return wrongType(node, EXPECTED.integer, path, report);
      if ((shape.min !== undefined && value < shape.min) || (shape.above !== undefined && value <= shape.above)) {
        const bound = shape.min === undefined ? `above ${shape.above}` : `at least ${shape.min}`;
        report({ code: 'OUT_OF_RANGE', message: `${node.text} must be ${bound}`, at: node.at, path, hint: null });
      }
      return;
    }
    default:
      return;
  }
}

/** v3.3.0 is no misspelt v3.0.0. */
function otherDigits(word: string, known: readonly string[]): boolean {
  const withoutDigits = (text: string): string => text.replaceAll(/\d+/g, '0');
  const best = nearest(word, known);
  return best !== null && withoutDigits(best) === withoutDigits(word);
}

const EXPECTED: Readonly<Record<string, string>> & {
  readonly text: string;
  readonly boolean: string;
  readonly integer: string;
} = {
  text: 'text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  scalar: 'a single value',
};

function walkEither(node: TreeNode, shape: Either, path: TreePath, report: Report): void {
  let fewest: ShapeProblem[] | null = null;
  for (const option of shape.options) {
    const problems: ShapeProblem[] = [];
    walk(node, option, path, (problem) => problems.push({ level: 'error', ...problem }));
    if (problems.length === 0) return;
    // An option whose outer kind fits explains the fault better than one that does not fit at all.
    const fits = kindFits(node, option);
    if (fewest === null || fits) fewest = problems;
    if (fits) break;
  }
  for (const problem of fewest ?? []) report(problem);
}

function kindFits(node: TreeNode, shape: Shape): boolean {
  if (shape.kind === 'lazy') return kindFits(node, shape.shape());
  if (node.kind === 'map') return shape.kind === 'object' || shape.kind === 'map';
  if (node.kind === 'list') return shape.kind === 'list';
  return shape.kind === 'text' && typeof node.value === 'string';
}

function walkList(node: TreeNode, shape: ListOf, path: TreePath, report: Report): void {
  if (node.kind !== 'list') return wrongType(node, 'a list', path, report);
  const { length } = node.items;
  if ((shape.min !== undefined && length < shape.min) || (shape.max !== undefined && length > shape.max)) {
    const wanted = shape.min === shape.max ? `exactly ${shape.min}` : `at least ${shape.min}`;
    report({
      code: 'OUT_OF_RANGE',
      message: `the list has ${length} entries; expected ${wanted}`,
      at: node.at,
      path,
      hint: null,
    });
  }
  const seen = new Set<string>();
  for (const [index, item] of node.items.entries()) {
    walk(item, shape.item, [...path, index], report);
    if (shape.unique !== true) continue;
    const key = identity(item);
    if (seen.has(key))
      report({
        code: 'UNKNOWN_VALUE',
        message: `${item.kind === 'scalar' ? `'${item.text}'` : 'an equal entry'} stands twice in the list`,
        at: item.at,
        path: [...path, index],
        hint: null,
      });
    seen.add(key);
  }
}

/** Equal for entries that JSON Schema's `uniqueItems` takes for the same: the order of keys says nothing. */
function identity(node: TreeNode): string {
  if (node.kind === 'scalar') return `${typeof node.value}:${JSON.stringify(String(node.value))}`;
  if (node.kind === 'list') return `[${node.items.map(identity).join()}]`;
  const entries = [...node.entries.values()].map((entry) => `${JSON.stringify(entry.key)}=${identity(entry.value)}`);
  return `{${entries.toSorted().join()}}`;
}

function walkObject(node: TreeNode, shape: ObjectOf, path: TreePath, report: Report): void {
  if (node.kind !== 'map') return wrongType(node, `${shape.name} (a map of keys and values)`, path, report);
  const fields: Fields = shape.refine === undefined ? shape.fields : { ...shape.fields, ...shape.refine(node) };
  const known = Object.keys(fields);
  for (const entry of node.entries.values()) {
    const field = Object.hasOwn(fields, entry.key) ? fields[entry.key] : undefined;
    const below = [...path, entry.key];
    if (field === undefined) {
      const elsewhere = shape.elsewhere?.[entry.key];
      const message = `${shape.name} has no key '${entry.key}'${elsewhere === undefined ? '' : ` ${elsewhere}`}`;
      const hint = elsewhere === undefined ? didYouMean(entry.key, known) : null;
      report({ code: 'UNKNOWN_KEY', message, at: entry.keyAt, path: below, hint });
    } else walk(entry.value, field.shape, below, report);
  }
  for (const [key, field] of Object.entries(fields)) {
    if (field.required === true && !node.entries.has(key))
      report({ code: 'MISSING_KEY', message: `${shape.name} needs '${key}'`, at: node.at, path, hint: null });
  }
  shape.check?.(node, report, path);
}

function wrongType(
  node: TreeNode,
  expected: string | undefined,
  path: TreePath,
  report: Report,
  hint: string | null = null,
): void {
  const found = node.kind === 'map' ? 'a map' : node.kind === 'list' ? 'a list' : describeScalar(node);
  report({
    code: 'WRONG_TYPE',
    message: `expected ${expected ?? 'another type'}, found ${found}`,
    at: node.at,
    path,
    hint,
  });
}

function describeScalar(node: ScalarNode): string {
  if (node.value === null) return 'nothing';
  if (typeof node.value === 'string') return `the text '${node.text.slice(0, 40)}'`;
  return typeof node.value === 'boolean' ? node.text : `the number ${node.text}`;
}

function quoteHint(node: ScalarNode): string | null {
  return node.value === null ? null : `put it in quotes: '${node.text}'`;
}

/** The text under a key, or null: what `refine` and `check` look at. */
export function textAt(node: MapNode, key: string): string | null {
  const value = node.entries.get(key)?.value;
  return value?.kind === 'scalar' && typeof value.value === 'string' ? value.value : null;
}
