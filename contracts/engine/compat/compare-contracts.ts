/** All changes from one version of a contract to the next, in the order of the new text. */
import type { Contract, Server, TableContract } from '../model.ts';
import { sourceName } from '../source-name.ts';
import { alikeUniqueness } from '../unique-columns.ts';
import type { Change } from './change.ts';
import { actionChange, compareColumns, keyOf, unrepresentableChange } from './compare-columns.ts';
import { compareRules } from './compare-rules.ts';
import { compareServiceLevels } from './compare-service-levels.ts';
import { documentationOf } from './documentation.ts';

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
    const [from, to] = [sourceName(before, old), sourceName(after, now)].map(
      ({ schema, table }) => `${schema}.${table}`,
    );
    if (from !== to)
      changes.push({
        code: 'LOCATION_CHANGED',
        subject: now.name,
        message: `physicalName ${from} -> ${to}`,
        path: now.path,
      });
    changes.push(...compareTables(old, now));
  }
  for (const table of after.tables) {
    if (!matched.has(table))
      changes.push({ code: 'TABLE_ADDED', subject: table.name, message: 'table added', path: table.path });
  }
  changes.push(...compareServiceLevels(before, after));
  if (changes.length === 0 && documentationOf(before) !== documentationOf(after)) {
    changes.push({ code: 'DOCS', subject: '', message: 'documentation changed', path: [] });
  }
  return changes;
}

export function compareTables(old: TableContract, now: TableContract): Change[] {
  const changes: Change[] = [];
  const push = (code: Change['code'], message: string): void =>
    void changes.push({ code, subject: now.name, message, path: now.path });
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
  const [unlike, like] = alikeUniqueness(old, now);
  changes.push(...compareColumns(now.name, unlike.columns, like.columns, now.path, false));
  changes.push(...compareRules(unlike, like));
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

/** Where a server entry says that rows are, and in which form readers meet them. */
interface Place {
  readonly topic: string;
  readonly location: string;
  readonly format: string;
}

function placeOf({ custom, settings }: Server): Place {
  const text = (value: unknown): string => (value === undefined || value === null ? '' : JSON.stringify(value));
  return {
    topic: text(custom.get('topic')),
    location: normalise(settings.get('location') ?? settings.get('path')),
    format: String(settings.get('format') ?? '').toLowerCase(),
  };
}

function compareServers(before: Contract, after: Contract): Change[] {
  const changes: Change[] = [];
  const at = (server: Server): string => `${placeOf(server).topic} ${placeOf(server).location}`.trim();
  const push = (server: Server, message: string, path: Change['path']): void =>
    void changes.push({ code: 'LOCATION_CHANGED', subject: `servers.${server.server}`, message, path });
  for (const old of before.servers) {
    const now = after.servers.find((server) => server.server === old.server);
    if (now === undefined) {
      if (at(old) !== '' && !after.servers.some((server) => at(server) === at(old)))
        push(old, 'topic or location is no longer named: readers do not know where the rows are', []);
      continue;
    }
    const [from, to] = [placeOf(old).format, placeOf(now).format];
    if (at(now) !== at(old)) push(old, 'topic or location changed: readers look in the old place', now.path);
    else if (from !== to && from !== '')
      push(old, `format ${from} -> ${to || 'none'}: readers of the old one fail`, now.path);
  }
  return changes;
}

/** A trailing slash and the s3a spelling name the same place. */
function normalise(location: unknown): string {
  return typeof location === 'string' ? location.replace(/\/+$/, '').replace(/^s3a:/, 's3:') : '';
}
