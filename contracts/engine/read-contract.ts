/** Tree → Contract. */
import { createHash } from 'node:crypto';

import { customValues, isRecord, wordOf } from './custom-properties.ts';
import type { BreakingNote, Contract, ContractSource, Rule, Server, SlaProperty, TableContract } from './model.ts';
import {
  ACTIONS,
  COMPATIBILITY_MODES,
  REPLICA_IDENTITIES,
  UNKNOWN_COLUMN_POLICIES,
  UNREPRESENTABLE_POLICIES,
} from './model.ts';
import { readColumn, readRelationships } from './read-column.ts';
import { child, listAt, mapAt, scalarAt, textOrNull, textsAt } from './read-node.ts';
import { readRule } from './read-rule.ts';
import { minorOf } from './standard/elements.ts';
import type { ApiVersion } from './standard/elements.ts';
import type { Minor } from './standard/servers.ts';
import { positionInScalar } from './scalar-position.ts';
import { locate, nodeAt } from './yaml-tree.ts';
import type { MapNode, ScalarValue, TreeNode, TreePath } from './yaml-tree.ts';

export function readContract(root: MapNode, text: string, file: string, apiVersion: ApiVersion): Contract {
  const minor = minorOf(apiVersion);
  const description = mapAt(root, 'description');
  const custom = customValues(child(root, 'customProperties'));
  const describe = (key: string): string | null => (description === null ? null : textOrNull(description, key));
  return {
    source: sourceOf(root, text, file),
    apiVersion,
    id: textOrNull(root, 'id') ?? '',
    version: textOrNull(root, 'version') ?? '',
    status: textOrNull(root, 'status') ?? 'active',
    name: textOrNull(root, 'name'),
    domain: textOrNull(root, 'domain'),
    owner: readOwner(root),
    tags: textsAt(root, 'tags'),
    purpose: describe('purpose'),
    limitations: describe('limitations'),
    usage: describe('usage'),
    servers: maps(root, 'servers').map(([node, path]) => readServer(node, path)),
    tables: maps(root, 'schema').map(([node, path]) => readTable(node, path, minor)),
    sla: maps(root, 'slaProperties').map(([node, path]) => readSla(node, path)),
    custom,
    breaking: readBreaking(custom.get('breaking')),
  };
}

export function sha256(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

function sourceOf(root: TreeNode, text: string, file: string): ContractSource {
  return {
    file,
    text,
    sha256: sha256(text),
    locate: (path) => locate(root, path),
    locateInValue(path, offset) {
      const node = nodeAt(root, path);
      return node === null ? locate(root, path) : positionInScalar(text, node.at, offset);
    },
  };
}

function maps(node: MapNode, key: string): [MapNode, TreePath][] {
  return (listAt(node, key)?.items ?? []).flatMap((item, index): [MapNode, TreePath][] =>
    item.kind === 'map' ? [[item, [key, index]]] : [],
  );
}

function readOwner(root: MapNode): string | null {
  const team = child(root, 'team');
  if (team?.kind === 'map') return textOrNull(team, 'name');
  const first = team?.kind === 'list' ? team.items[0] : undefined;
  return first?.kind === 'map' ? textOrNull(first, 'username') : null;
}

const SERVER_OWN = new Set(['server', 'type', 'id', 'description', 'environment', 'roles', 'customProperties']);

function readServer(node: MapNode, path: TreePath): Server {
  const settings = new Map<string, ScalarValue>();
  for (const entry of node.entries.values())
    if (!SERVER_OWN.has(entry.key) && entry.value.kind === 'scalar') settings.set(entry.key, entry.value.value);
  return {
    path,
    server: textOrNull(node, 'server') ?? '',
    type: textOrNull(node, 'type') ?? '',
    settings,
    custom: customValues(child(node, 'customProperties')),
  };
}

function readTable(node: MapNode, path: TreePath, minor: Minor): TableContract {
  const custom = customValues(child(node, 'customProperties'));
  const rules: Rule[] = readRules(node, path, null, minor);
  const columns = (listAt(node, 'properties')?.items ?? []).map((item, index) => {
    const below = [...path, 'properties', index];
    const own = item.kind === 'map' ? readRules(item, below, textOrNull(item, 'name') ?? '', minor) : [];
    rules.push(...own);
    return readColumn(item, below, own, minor);
  });
  const name = textOrNull(node, 'name') ?? '';
  const ratio = custom.get('maxQuarantineRatio');
  return {
    path,
    id: textOrNull(node, 'id'),
    name,
    physicalName: textOrNull(node, 'physicalName') ?? name,
    description: textOrNull(node, 'description'),
    tags: textsAt(node, 'tags'),
    columns,
    rules,
    relationships: readRelationships(node, path),
    compatibility: wordOf(custom, 'compatibility', COMPATIBILITY_MODES),
    unknownColumns: wordOf(custom, 'unknownColumns', UNKNOWN_COLUMN_POLICIES),
    maxQuarantineRatio: typeof ratio === 'number' ? ratio : null,
    onViolation: wordOf(custom, 'onViolation', ACTIONS),
    onUnrepresentable: wordOf(custom, 'onUnrepresentable', UNREPRESENTABLE_POLICIES),
    allowDrop: custom.get('allowDrop') === true,
    replicaIdentity: wordOf(custom, 'replicaIdentity', REPLICA_IDENTITIES),
    custom,
  };
}

function readRules(node: MapNode, path: TreePath, column: string | null, minor: Minor): Rule[] {
  return (listAt(node, 'quality')?.items ?? []).flatMap((item, index) => {
    const rule = readRule(item, [...path, 'quality', index], column, minor);
    return rule === null ? [] : [rule];
  });
}

function readSla(node: MapNode, path: TreePath): SlaProperty {
  return {
    path,
    id: textOrNull(node, 'id'),
    property: textOrNull(node, 'property') ?? '',
    value: scalarAt(node, 'value')?.value ?? null,
    valueExt: scalarAt(node, 'valueExt')?.value ?? null,
    unit: textOrNull(node, 'unit'),
    element: textOrNull(node, 'element'),
    driver: textOrNull(node, 'driver'),
  };
}

function readBreaking(value: unknown): BreakingNote[] {
  const notes = Array.isArray(value) ? value : value === undefined ? [] : [value];
  return notes.flatMap((note: unknown) => {
    if (!isRecord(note)) return [];
    const word = (key: string): string => (typeof note[key] === 'string' ? note[key] : '');
    if (word('code') === '') return [];
    return [
      {
        code: word('code'),
        subject: word('subject') === '' ? null : word('subject'),
        reason: word('reason'),
        approver: word('approver'),
        until: word('until') === '' ? null : word('until'),
      },
    ];
  });
}
