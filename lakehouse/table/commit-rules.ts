/** What one commit may hold (PROTOCOL.md, "Action Reconciliation" and the sections of each action). Pure. */
import { vectorId } from './actions.ts';
import type { CommitActions, MetadataAction, ProtocolAction } from './actions.ts';
import { canonicalPath } from './file-path.ts';
import { writerFeatures } from './protocol.ts';
import { TableError } from './table-error.ts';

/** @throws TableError COMMIT_INVALID */
export function assertCommit(
  actions: CommitActions,
  protocol: ProtocolAction,
  metadata: MetadataAction,
  table: string,
): void {
  const broken = brokenRule(actions, writerFeatures(protocol), metadata);
  if (broken !== null) throw new TableError('COMMIT_INVALID', { table }, `the commit was not written: ${broken}`);
}

function brokenRule(actions: CommitActions, features: readonly string[], metadata: MetadataAction): string | null {
  const needs = (feature: string, used: boolean): string | null =>
    used && !features.includes(feature) ? `it uses ${feature}, which the table's protocol does not list` : null;
  const appendOnly = metadata.configuration['delta.appendOnly'] === 'true';
  const unmappable = actions.adds.find(({ partitionValues }) => {
    const names = Object.keys(partitionValues);
    return names.length !== metadata.partitionColumns.length;
  });
  return (
    repeated(
      'txn of appId',
      actions.txns.map(({ appId }) => appId),
    ) ??
    repeated(
      'domainMetadata of',
      actions.domains.map(({ domain }) => domain),
    ) ??
    repeatedFile(actions) ??
    needs(
      'deletionVectors',
      actions.adds.some(({ deletionVector }) => deletionVector !== null),
    ) ??
    needs('domainMetadata', actions.domains.length > 0) ??
    needs('changeDataFeed', actions.cdcs.length > 0) ??
    (appendOnly && actions.removes.some(({ dataChange }) => dataChange)
      ? 'it removes rows, and the table is append-only (delta.appendOnly)'
      : null) ??
    (unmappable === undefined ? null : `file ${unmappable.path} has no value for each partition column`)
  );
}

function repeated(what: string, names: readonly string[]): string | null {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) return `more than one ${what} "${name}"`;
    seen.add(name);
  }
  return null;
}

function repeatedFile(actions: CommitActions): string | null {
  const removed = new Map<string, string>();
  for (const remove of actions.removes) {
    const key = canonicalPath(remove.path);
    if (removed.has(key)) return `file ${remove.path} is removed twice`;
    removed.set(key, vectorId(remove.deletionVector));
  }
  const added = new Set<string>();
  for (const add of actions.adds) {
    const key = canonicalPath(add.path);
    if (added.has(key)) return `file ${add.path} is added twice`;
    added.add(key);
    if (removed.get(key) === vectorId(add.deletionVector)) {
      return `file ${add.path} is added and removed with the same deletion vector`;
    }
  }
  return null;
}
