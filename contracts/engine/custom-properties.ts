/**
 * Sluice's vocabulary of custom properties: the standard's only legal extension point. One table says which names exist on
 * which element and what they may hold; reading and lint both use it.
 */
import {
  ACTIONS,
  COMPATIBILITY_MODES,
  PII_ACTIONS,
  PII_STAGES,
  REPLICA_IDENTITIES,
  RULE_SCOPES,
  UNKNOWN_COLUMN_POLICIES,
  UNREPRESENTABLE_POLICIES,
} from './model.ts';
import type { CustomValues } from './model.ts';
import { plain } from './yaml-tree.ts';
import type { TreeNode, TreePath } from './yaml-tree.ts';

export type CustomOwner = 'contract' | 'server' | 'table' | 'column' | 'rule';

type Allowed =
  | { readonly kind: 'words'; readonly words: readonly string[] }
  | { readonly kind: 'boolean' | 'ratio' | 'scalar' | 'text' | 'pii' | 'physicalTypes' | 'breaking' };

const words = (...list: readonly string[]): Allowed => ({ kind: 'words', words: list });

/** Where one name has several meanings (onViolation), its words are the same everywhere. */
export const VOCABULARY: Readonly<Record<CustomOwner, Readonly<Record<string, Allowed>>>> = {
  contract: { breaking: { kind: 'breaking' }, owner: { kind: 'text' } },
  server: {
    topic: { kind: 'text' },
    topicPrefix: { kind: 'text' },
    deadLetterTopic: { kind: 'text' },
  },
  table: {
    compatibility: words(...COMPATIBILITY_MODES),
    unknownColumns: words(...UNKNOWN_COLUMN_POLICIES),
    maxQuarantineRatio: { kind: 'ratio' },
    onViolation: words(...ACTIONS),
    onUnrepresentable: words(...UNREPRESENTABLE_POLICIES),
    allowDrop: { kind: 'boolean' },
    replicaIdentity: words(...REPLICA_IDENTITIES),
  },
  column: {
    onViolation: words(...ACTIONS),
    onUnrepresentable: words(...UNREPRESENTABLE_POLICIES),
    physicalTypes: { kind: 'physicalTypes' },
    enumOpen: { kind: 'boolean' },
    default: { kind: 'scalar' },
    pii: { kind: 'pii' },
    piiAction: words(...PII_ACTIONS),
    piiStage: words(...PII_STAGES),
    deprecated: { kind: 'boolean' },
  },
  rule: { onViolation: words(...ACTIONS), scope: words(...RULE_SCOPES), allowDrop: { kind: 'boolean' } },
};

/** Stages that `physicalTypes` may name. */
export const STAGES = ['postgres', 'kafka', 'delta'] as const;

/** Null when the value is right, else what was expected. */
export function customValueProblem(allowed: Allowed, value: unknown): string | null {
  switch (allowed.kind) {
    case 'words':
      return typeof value === 'string' && allowed.words.includes(value) ? null : `one of ${allowed.words.join(', ')}`;
    case 'boolean':
      return typeof value === 'boolean' ? null : 'true or false';
    case 'ratio':
      return typeof value === 'number' && value >= 0 && value <= 1 ? null : 'a number from 0 to 1';
    case 'text':
      return typeof value === 'string' && value !== '' ? null : 'text';
    case 'scalar':
      return typeof value === 'object' && value !== null ? 'a single value' : null;
    case 'pii':
      return typeof value === 'string' || typeof value === 'boolean'
        ? null
        : 'true, or what kind of personal data it is';
    case 'physicalTypes': {
      const stages: readonly string[] = STAGES;
      const good =
        isRecord(value) &&
        Object.entries(value).every(([stage, type]) => stages.includes(stage) && typeof type === 'string');
      return good ? null : `a map of ${STAGES.join(', ')} to type names`;
    }
    case 'breaking': {
      const notes = Array.isArray(value) ? value : [value];
      const good = notes.every(
        (note) =>
          isRecord(note) &&
          ['code', 'reason', 'approver'].every((key) => typeof note[key] === 'string' && note[key] !== ''),
      );
      return good ? null : 'a list of notes with code, reason and approver (and subject, until)';
    }
  }
}

export interface CustomEntry {
  readonly property: string;
  readonly value: unknown;
  readonly path: TreePath;
}

/** The list under `customProperties`, skipping entries that have no name. */
export function customEntries(node: TreeNode | undefined, path: TreePath): CustomEntry[] {
  if (node?.kind !== 'list') return [];
  const entries: CustomEntry[] = [];
  for (const [index, item] of node.items.entries()) {
    if (item.kind !== 'map') continue;
    const property = item.entries.get('property')?.value;
    const value = item.entries.get('value')?.value;
    if (property?.kind !== 'scalar' || typeof property.value !== 'string' || value === undefined) continue;
    entries.push({ property: property.value, value: plain(value), path: [...path, index] });
  }
  return entries;
}

export function customValues(node: TreeNode | undefined): CustomValues {
  return new Map(customEntries(node, []).map((entry) => [entry.property, entry.value]));
}

/** The value when it is one of the words, else null: lint reports the rest. */
export function wordOf<T extends string>(values: CustomValues, name: string, allowed: readonly T[]): T | null {
  const value = values.get(name);
  return allowed.find((word) => word === value) ?? null;
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
