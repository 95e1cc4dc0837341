/** All changes from one version of a contract to the next, in the order of the new text. */
import type { Contract, Server, TableContract } from '../model.ts';
import type { Change } from './change.ts';
import { actionChange, compareColumns, keyOf, unrepresentableChange } from './compare-columns.ts';
import { compareRules, compareServiceLevels } from './compare-rules.ts';

export function compareContracts(before: Contract, after: Contract): Change[] {
  const changes: Change[] = [...compareServers(before, after)];
  const tables = new Map(after.tables.map((table) => [table.id ?? table.name, table]));
  const byName = new Map(after.tables.map((table) => [table.name, table]));
  const matched = new Set<TableContract>();
  for (const old of before.tables) {
    const now = tables.get(old.id ?? old.name) ?? byName.get(old.name);
    if (now === undefined) {
      changes.push({
        code: 'TABLE_REMOVED',
        subject: old.name,
        message: 'the table is gone from the contract',
        path: [],
      });
      continue;
    }
    matched.add(now);
    changes.push(...compareTables(old, now));
  }
  for (const table of after.tables) {
    if (!matched.has(table))
      changes.push({ code: 'TABLE_ADDED', subject: table.name, message: 'table added', path: table.path });
  }
  changes.push(...compareServiceLevels(before, after));
  const documented = (contract: Contract): string =>
    JSON.stringify([
      contract.purpose,
      contract.limitations,
      contract.usage,
      contract.owner,
      contract.tags,
      contract.domain,
      contract.name,
      contract.status,
    ]);
  if (changes.length === 0 && documented(before) !== documented(after)) {
    changes.push({ code: 'DOCS', subject: '', message: 'documentation changed', path: [] });
  }
  return changes;
}

export function compareTables(old: TableContract, now: TableContract): Change[] {
  const changes: Change[] = [];
  const push = (code: Change['code'], message: string): void =>
    void changes.push({ code, subject: now.name, message, path: now.path });
  if (old.physicalName !== now.physicalName)
    push('LOCATION_CHANGED', `physicalName ${old.physicalName} -> ${now.physicalName}`);
  const [keyBefore, keyAfter] = [keyOf(old), keyOf(now)];
  if (keyBefore.join('\u0000') !== keyAfter.join('\u0000')) {
    const reordered = keyBefore.toSorted(byText).join('\u0000') === keyAfter.toSorted(byText).join('\u0000');
    if (reordered) push('KEY_REORDERED', 'the same key columns in another order');
    else push('KEY_CHANGED', `key (${keyNames(old)}) -> (${keyNames(now)}): needs a new snapshot`);
  }
  const partitions = (table: TableContract): string =>
    table.columns
      .filter((column) => column.partitionPosition > 0)
      .toSorted((a, b) => a.partitionPosition - b.partitionPosition)
      .map((column) => column.id ?? column.name)
      .join(', ');
  if (partitions(old) !== partitions(now))
    push('REWRITE', `partitioned by (${partitions(old)}) -> (${partitions(now)}): the table is rewritten`);
  if (old.replicaIdentity === 'full' && now.replicaIdentity !== 'full')
    push('BEFORE_LOST', 'replica identity full -> default: before-images are gone');
  if (old.onViolation !== now.onViolation)
    changes.push(actionChange(now.name, old.onViolation, now.onViolation, now.path));
  if (old.unknownColumns !== now.unknownColumns)
    push('POLICY_CHANGED', `unknownColumns ${old.unknownColumns ?? 'default'} -> ${now.unknownColumns ?? 'default'}`);
  if (old.onUnrepresentable !== now.onUnrepresentable) changes.push(unrepresentableChange(now.name, old, now));
  if (old.maxQuarantineRatio !== now.maxQuarantineRatio)
    push(
      'POLICY_CHANGED',
      `maxQuarantineRatio ${old.maxQuarantineRatio ?? 'none'} -> ${now.maxQuarantineRatio ?? 'none'}`,
    );
  if (old.allowDrop !== now.allowDrop) push('POLICY_CHANGED', `allowDrop ${old.allowDrop} -> ${now.allowDrop}`);
  if (old.compatibility !== now.compatibility)
    push('POLICY_CHANGED', `compatibility ${old.compatibility ?? 'default'} -> ${now.compatibility ?? 'default'}`);
  changes.push(...compareColumns(now.name, old.columns, now.columns, now.path, false));
  changes.push(...compareRules(old, now));
  if (
    changes.length === 0 &&
    JSON.stringify([old.description, old.tags]) !== JSON.stringify([now.description, now.tags])
  ) {
    push('DOCS', 'documentation changed');
  }
  if (
    changes.length === 0 &&
    old.columns.map((column) => column.name).join() !== now.columns.map((column) => column.name).join()
  ) {
    push('DOCS', 'columns in another order');
  }
  return changes;
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const keyNames = (table: TableContract): string =>
  table.columns
    .filter((column) => column.keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map((column) => column.name)
    .join(', ');

/** Topic and location of a server entry that readers use. */
function compareServers(before: Contract, after: Contract): Change[] {
  const changes: Change[] = [];
  const place = (server: Server): string =>
    JSON.stringify([
      server.custom.get('topic') ?? null,
      normalise(server.settings.get('location')),
      server.settings.get('path') ?? null,
    ]);
  for (const old of before.servers) {
    const now = after.servers.find((server) => server.server === old.server);
    if (now === undefined && place(old) !== NO_PLACE && !after.servers.some((server) => place(server) === place(old)))
      changes.push({
        code: 'LOCATION_CHANGED',
        subject: `servers.${old.server}`,
        message: 'topic or location is no longer named: readers do not know where the rows are',
        path: [],
      });
    if (now !== undefined && place(now) !== place(old)) {
      changes.push({
        code: 'LOCATION_CHANGED',
        subject: `servers.${old.server}`,
        message: 'topic or location changed: readers look in the old place',
        path: now.path,
      });
    }
  }
  return changes;
}

const NO_PLACE = JSON.stringify([null, null, null]);

/** A trailing slash and the s3a spelling name the same place. */
function normalise(location: unknown): string | null {
  return typeof location === 'string' ? location.replace(/\/+$/, '').replace(/^s3a:/, 's3:') : null;
}
