/**
 * A contract's YAML as a small tree in which every node knows its place. Numbers keep their text, because a bound such as
 * 9007199254740993 or 0.10 must not pass through a double.
 */
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments } from 'yaml';
import type { Document, Node as YamlNode, ParsedNode } from 'yaml';

import type { TextPosition } from './finding.ts';

export type ScalarValue = string | number | bigint | boolean | null;
export interface ScalarNode {
  readonly kind: 'scalar';
  readonly value: ScalarValue;
  /** As written, without quotes. */
  readonly text: string;
  readonly at: TextPosition;
}
export interface ListNode {
  readonly kind: 'list';
  readonly items: readonly TreeNode[];
  readonly at: TextPosition;
}
export interface MapEntry {
  readonly key: string;
  readonly keyAt: TextPosition;
  readonly value: TreeNode;
}
export interface MapNode {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, MapEntry>;
  readonly at: TextPosition;
}
export type TreeNode = ScalarNode | ListNode | MapNode;
/** `['schema', 0, 'properties', 3, 'logicalType']` */
export type TreePath = readonly (string | number)[];

export interface YamlProblem {
  readonly code: 'YAML_SYNTAX' | 'YAML_DUPLICATE_KEY' | 'YAML_UNSUPPORTED' | 'TOO_LARGE';
  readonly message: string;
  readonly at: TextPosition;
}
export interface YamlTree {
  /** Null when the text cannot be read at all. */
  readonly root: TreeNode | null;
  readonly problems: readonly YamlProblem[];
}

/** Limits against a file that is no contract: bytes of text, and nodes after aliases are expanded. */
export const CONTRACT_TEXT_BYTES_MAX = 4 * 1024 * 1024;
const NODES_MAX = 200_000;
const START: TextPosition = { line: 1, column: 1 };

export function readYaml(text: string): YamlTree {
  if (Buffer.byteLength(text) > CONTRACT_TEXT_BYTES_MAX)
    return failed('TOO_LARGE', `the file is larger than ${CONTRACT_TEXT_BYTES_MAX} bytes`, START);
  const foreign = text.indexOf('\ufffd');
  if (foreign >= 0)
    return failed('YAML_SYNTAX', 'the file is not UTF-8: a byte here is no character', placeOf(text, foreign));
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, {
    lineCounter: lines,
    intAsBigInt: true,
    prettyErrors: false,
    version: '1.2',
  });
  if (!Array.isArray(documents) || documents.length === 0) return failed('YAML_SYNTAX', 'the file is empty', START);
  const [document, second] = documents as Document.Parsed[];
  if (document === undefined) return failed('YAML_SYNTAX', 'the file is empty', START);
  const position = (offset: number): TextPosition => {
    const at = lines.linePos(offset);
    return { line: Math.max(1, at.line), column: Math.max(1, at.col) };
  };
  const problems: YamlProblem[] = document.errors.map((error) => ({
    code: error.code === 'DUPLICATE_KEY' ? 'YAML_DUPLICATE_KEY' : 'YAML_SYNTAX',
    message: /call stack/i.test(error.message)
      ? 'maps and lists stand too deep in each other'
      : firstLine(error.message),
    at: position(error.pos[0]),
  }));
  if (second !== undefined)
    problems.push({
      code: 'YAML_UNSUPPORTED',
      message: 'one file holds one contract; this one has a second YAML document',
      at: position(second.range[0]),
    });
  for (const warning of document.warnings)
    if (warning.code === 'TAG_RESOLVE_FAILED')
      problems.push({
        code: 'YAML_UNSUPPORTED',
        message: 'a tag of its own (!…) gives this value a meaning that no reader of contracts knows',
        at: position(warning.pos[0]),
      });
  if (document.contents === null) {
    if (problems.length === 0) problems.push({ code: 'YAML_SYNTAX', message: 'the file is empty', at: START });
    return { root: null, problems };
  }
  // What a parser makes of broken text is guesswork: its findings would only follow from the first.
  if (problems.some(({ code }) => code === 'YAML_SYNTAX')) return { root: null, problems };
  const builder = createBuilder(document, position, problems);
  const root = builder(document.contents);
  const unusable = problems.some(({ code }) => code === 'TOO_LARGE' || code === 'YAML_SYNTAX');
  return { root: unusable ? null : root, problems };
}

function placeOf(text: string, offset: number): TextPosition {
  const before = text.slice(0, offset);
  return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') };
}

function createBuilder(
  document: Document.Parsed,
  position: (offset: number) => TextPosition,
  problems: YamlProblem[],
): (node: ParsedNode) => TreeNode {
  let nodes = 0;
  const open = new Set<YamlNode>();
  const build = (node: YamlNode | null | undefined, fallback: TextPosition): TreeNode => {
    const at = node?.range == null ? fallback : position(node.range[0]);
    nodes++;
    if (nodes === NODES_MAX + 1) problems.push({ code: 'TOO_LARGE', message: `more than ${NODES_MAX} nodes`, at });
    if (node == null || nodes > NODES_MAX) return { kind: 'scalar', value: null, text: '', at };
    if (isAlias(node)) {
      const target = node.resolve(document);
      if (target === undefined || open.has(target)) {
        problems.push({ code: 'YAML_SYNTAX', message: `alias *${node.source} cannot be resolved`, at });
        return { kind: 'scalar', value: null, text: '', at };
      }
      return { ...build(target as YamlNode, at), at };
    }
    if (isScalar(node)) {
      if (typeof node.value === 'object' && node.value !== null)
        problems.push({
          code: 'YAML_UNSUPPORTED',
          message: `a value of type ${node.tag ?? 'unknown'} is not read`,
          at,
        });
      return scalar(node.value, node.source, at);
    }
    open.add(node);
    const built = isMap(node)
      ? buildMap(node.items, at, build, problems)
      : isSeq(node)
        ? buildList(node.items, at, build)
        : null;
    open.delete(node);
    return built ?? { kind: 'scalar', value: null, text: '', at };
  };
  return (node) => build(node, START);
}

type Build = (node: YamlNode | null | undefined, fallback: TextPosition) => TreeNode;

function buildMap(
  pairs: readonly { key: unknown; value: unknown }[],
  at: TextPosition,
  build: Build,
  problems: YamlProblem[],
): MapNode {
  const entries = new Map<string, MapEntry>();
  const merged: MapEntry[] = [];
  for (const pair of pairs) {
    if (isMergeKey(pair.key)) {
      merged.push(...mergedEntries(build(pair.value as YamlNode | null, at), problems));
      continue;
    }
    const key = build(pair.key as YamlNode, at);
    if (key.kind !== 'scalar') {
      problems.push({ code: 'YAML_UNSUPPORTED', message: 'a key must be a plain word', at: key.at });
      continue;
    }
    const name = key.text;
    entries.set(name, { key: name, keyAt: key.at, value: build(pair.value as YamlNode | null, key.at) });
  }
  for (const entry of merged) if (!entries.has(entry.key)) entries.set(entry.key, entry);
  return { kind: 'map', entries, at };
}

/** `<<: *defaults`: no part of YAML 1.2, but every other reader of contracts takes it. In quotes it is a key like any other. */
const isMergeKey = (key: unknown): boolean => isScalar(key) && key.source === '<<' && key.type === 'PLAIN';

/** Of one map, or of several, where the first that has a key gives its value. */
function mergedEntries(from: TreeNode, problems: YamlProblem[]): MapEntry[] {
  const maps = from.kind === 'list' ? from.items : [from];
  return maps.flatMap((map) => {
    if (map.kind === 'map') return [...map.entries.values()];
    problems.push({ code: 'YAML_SYNTAX', message: "'<<' takes a map, or a list of maps", at: map.at });
    return [];
  });
}

function buildList(items: readonly unknown[], at: TextPosition, build: Build): ListNode {
  return { kind: 'list', items: items.map((item) => build(item as YamlNode, at)), at };
}

function scalar(value: unknown, source: string | undefined, at: TextPosition): ScalarNode {
  const text = source ?? (typeof value === 'object' || value === undefined ? '' : `${value as ScalarValue}`);
  if (typeof value === 'bigint') {
    const small = Number(value);
    return { kind: 'scalar', value: Number.isSafeInteger(small) ? small : value, text, at };
  }
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return { kind: 'scalar', value, text, at };
  return { kind: 'scalar', value: null, text, at };
}

function failed(code: YamlProblem['code'], message: string, at: TextPosition): YamlTree {
  return { root: null, problems: [{ code, message, at }] };
}

function firstLine(message: string): string {
  return (message.split('\n', 1)[0] ?? message).trim();
}

/** The node at a path, or null. */
export function nodeAt(root: TreeNode | null, path: TreePath): TreeNode | null {
  let node: TreeNode | null = root;
  for (const step of path) {
    if (node === null) return null;
    if (node.kind === 'map') node = node.entries.get(String(step))?.value ?? null;
    else if (node.kind === 'list' && typeof step === 'number') node = node.items[step] ?? null;
    else return null;
  }
  return node;
}

/** The place of the deepest part of the path that exists: of the key where the last step is one, else of the node. */
export function locate(root: TreeNode | null, path: TreePath): TextPosition {
  let at = root?.at ?? START;
  let node: TreeNode | null = root;
  for (const step of path) {
    if (node?.kind === 'map') {
      const entry: MapEntry | undefined = node.entries.get(String(step));
      if (entry === undefined) return at;
      at = entry.keyAt;
      node = entry.value;
    } else if (node?.kind === 'list' && typeof step === 'number') {
      const item: TreeNode | undefined = node.items[step];
      if (item === undefined) return at;
      at = item.at;
      node = item;
    } else return at;
  }
  return at;
}

/** The tree as plain values; integers beyond 2^53 stay bigint. */
export function plain(node: TreeNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(plain);
  return Object.fromEntries([...node.entries.values()].map((entry) => [entry.key, plain(entry.value)]));
}

/** As `plain`, with every number that a double would change as `{exactNumber: text}`, for writing it back. */
export function plainExact(node: TreeNode): unknown {
  if (node.kind === 'list') return node.items.map(plainExact);
  if (node.kind === 'map')
    return Object.fromEntries([...node.entries.values()].map((entry) => [entry.key, plainExact(entry.value)]));
  return typeof node.value === 'number' && String(node.value) !== node.text ? { exactNumber: node.text } : node.value;
}
