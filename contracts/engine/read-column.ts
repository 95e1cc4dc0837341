/** Tree node → Column. Tolerant: what the shape check has reported reads as absent. */
import { customValues, isRecord, STAGES, wordOf } from './custom-properties.ts';
import { normaliseNumber } from './decimal-text.ts';
import type { Column, ColumnOptions, LogicalType, PhysicalTypes, Relationship, Rule } from './model.ts';
import { ACTIONS, PII_ACTIONS, PII_STAGES, UNREPRESENTABLE_POLICIES } from './model.ts';
import { countOrNull, flag, listAt, mapAt, positionOf, scalarAt, textOrNull, textsAt } from './read-node.ts';
import { readRule } from './read-rule.ts';
import { meansZero } from './rules/rule-meta.ts';
import type { Minor } from './standard/servers.ts';
import { LOGICAL_TYPES_32 } from './standard/elements.ts';
import type { MapNode, ScalarValue, TreeNode, TreePath } from './yaml-tree.ts';

/** `rules` are the column's own: a closed list of values may stand in one of them. */
export function readColumn(node: TreeNode, path: TreePath, rules: readonly Rule[], minor: Minor): Column {
  return readElement(node, path, rules, [], minor);
}

function readElement(
  node: TreeNode,
  path: TreePath,
  rules: readonly Rule[],
  nestedRules: readonly Rule[],
  minor: Minor,
): Column {
  const map: MapNode = node.kind === 'map' ? node : { kind: 'map', entries: new Map(), at: node.at };
  const custom = customValues(map.entries.get('customProperties')?.value);
  const logicalType = LOGICAL_TYPES_32.find((type) => type === textOrNull(map, 'logicalType')) ?? null;
  const pii = custom.get('pii');
  const nested = mapAt(map, 'map');
  return {
    path,
    id: textOrNull(map, 'id'),
    name: textOrNull(map, 'name') ?? '',
    physicalName: textOrNull(map, 'physicalName'),
    logicalType,
    options: readOptions(mapAt(map, 'logicalTypeOptions'), logicalType),
    physicalType: textOrNull(map, 'physicalType'),
    physicalTypes: readPhysicalTypes(custom.get('physicalTypes')),
    required: flag(map, 'required') || nestedRules.some((rule) => meansZero(rule) && forbidsNull(rule)),
    unique: flag(map, 'unique'),
    keyPosition: flag(map, 'primaryKey') ? positionOf(map, 'primaryKeyPosition') || 1 : 0,
    partitionPosition: flag(map, 'partitioned') ? positionOf(map, 'partitionKeyPosition') || 1 : 0,
    description: textOrNull(map, 'description'),
    classification: textOrNull(map, 'classification'),
    tags: textsAt(map, 'tags'),
    encryptedName: textOrNull(map, 'encryptedName'),
    allowedValues: readEnum(map) ?? rulesValues(rules),
    enumOpen: custom.get('enumOpen') === true,
    default: readDefault(custom.get('default')),
    pii: typeof pii === 'string' ? pii : pii === true ? 'true' : null,
    piiAction: wordOf(custom, 'piiAction', PII_ACTIONS),
    piiStage: wordOf(custom, 'piiStage', PII_STAGES) ?? 'before-lake',
    onViolation: wordOf(custom, 'onViolation', ACTIONS),
    onUnrepresentable: wordOf(custom, 'onUnrepresentable', UNREPRESENTABLE_POLICIES),
    deprecated: flag(map, 'deprecated') || custom.get('deprecated') === true,
    items: nestedColumn(map, path, 'items', minor),
    properties: (listAt(map, 'properties')?.items ?? []).map((item, index) =>
      readNested(item, [...path, 'properties', index], minor),
    ),
    mapKey: nested === null ? null : nestedColumn(nested, [...path, 'map'], 'key', minor),
    mapValue: nested === null ? null : nestedColumn(nested, [...path, 'map'], 'value', minor),
    relationships: readRelationships(map, path),
    nestedRules,
    custom,
  };
}

function nestedColumn(map: MapNode, path: TreePath, key: string, minor: Minor): Column | null {
  const node = mapAt(map, key);
  return node === null ? null : readNested(node, [...path, key], minor);
}

/** An element with the rules that stand on it: those that a single element decides become part of its checks. */
function readNested(node: TreeNode, path: TreePath, minor: Minor): Column {
  const list = node.kind === 'map' ? listAt(node, 'quality') : null;
  const name = node.kind === 'map' ? (textOrNull(node, 'name') ?? '') : '';
  const rules = (list?.items ?? []).flatMap((item, index) => {
    const rule = readRule(item, [...path, 'quality', index], name, minor);
    return rule === null ? [] : [rule];
  });
  return readElement(node, path, rules, rules, minor);
}

/** On an element of an array or a document: only NULL is forbidden. */
export function forbidsNull(rule: Rule): boolean {
  if (rule.kind !== 'library') return false;
  if (rule.metric === 'nullValues') return true;
  return rule.metric === 'missingValues' && (rule.missingValues ?? [null]).every((value) => value === null);
}

export function readRelationships(map: MapNode, path: TreePath): Relationship[] {
  return (listAt(map, 'relationships')?.items ?? []).flatMap((item, index) =>
    item.kind === 'map'
      ? [{ path: [...path, 'relationships', index], from: oneOrMany(item, 'from'), to: oneOrMany(item, 'to') }]
      : [],
  );
}

function oneOrMany(map: MapNode, key: string): string[] {
  const one = scalarAt(map, key);
  return one === null ? textsAt(map, key) : [one.text];
}

function readPhysicalTypes(value: unknown): PhysicalTypes {
  if (!isRecord(value)) return {};
  return Object.fromEntries(
    STAGES.flatMap((stage) => (typeof value[stage] === 'string' ? [[stage, value[stage]]] : [])),
  );
}

function readDefault(value: unknown): ScalarValue | undefined {
  return typeof value === 'object' && value !== null ? undefined : (value as ScalarValue | undefined);
}

function readEnum(map: MapNode): ScalarValue[] | null {
  const list = listAt(map, 'enum');
  if (list === null) return null;
  return list.items.flatMap((item) => {
    const value = item.kind === 'map' ? item.entries.get('value')?.value : undefined;
    return value?.kind === 'scalar' ? [value.value] : [];
  });
}

function rulesValues(rules: readonly Rule[]): readonly ScalarValue[] | null {
  for (const rule of rules)
    if (rule.kind === 'library' && rule.metric === 'invalidValues' && rule.validValues !== null && meansZero(rule))
      return rule.validValues;
  return null;
}

const COUNTS = [
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'dimensions',
] as const;
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const;
const TEXTS = ['pattern', 'format', 'defaultTimezone'] as const;

function readOptions(map: MapNode | null, type: LogicalType | null): ColumnOptions {
  if (map === null) return {};
  const numeric = type === 'integer' || type === 'number';
  const options: { -readonly [K in keyof ColumnOptions]: ColumnOptions[K] } = {};
  for (const name of COUNTS) {
    const value = countOrNull(map, name);
    if (value !== null) options[name] = value;
  }
  for (const name of TEXTS) {
    const value = textOrNull(map, name);
    if (value !== null) options[name] = value;
  }
  for (const name of BOUNDS) {
    const node = scalarAt(map, name);
    const value = node === null || node.value === null ? null : numeric ? normaliseNumber(node.text) : node.text;
    if (value !== null) options[name] = value;
  }
  for (const name of ['timezone', 'uniqueItems'] as const) {
    const value = scalarAt(map, name)?.value;
    if (typeof value === 'boolean') options[name] = value;
  }
  const required = textsAt(map, 'required');
  if (required.length > 0) options.requiredProperties = required;
  return options;
}
