/** Changes of one table's columns, nested ones by the same rows. Renames are found by the stable `id`. */
import { isClassified, type Column, type TableContract } from '../model.ts';
import { canonicalPgType } from '../pg-type.ts';
import type { Change } from './change.ts';
import { compareOptions } from './compare-options.ts';
import { compareTypes, typeText } from './compare-types.ts';
import type { TypeChange } from './compare-types.ts';
import { compareValueLists } from './value-lists.ts';

export function compareColumns(
  subject: string,
  before: readonly Column[],
  after: readonly Column[],
  at: Column['path'],
  inKey: boolean,
): Change[] {
  const changes: Change[] = [];
  const pairs = pairColumns(before, after);
  for (const { old, now } of pairs) {
    const name = `${subject}.${(now ?? old)?.name ?? ''}`;
    if (old === null && now !== null) changes.push(...columnAdded(name, now));
    else if (old !== null && now === null) {
      changes.push({
        code: 'COLUMN_REMOVED',
        subject: name,
        message: removedText(old),
        path: at,
        announced: old.deprecated,
      });
    } else if (old !== null && now !== null) changes.push(...compareColumn(name, old, now, inKey));
  }
  return changes;
}

function removedText(column: Column): string {
  return column.deprecated
    ? 'removed, as announced in an earlier release'
    : 'readers of released versions select it; mark it deprecated in a release first';
}

function columnAdded(subject: string, column: Column): Change[] {
  if (!column.required || column.default !== undefined) {
    return [{ code: 'COLUMN_ADDED', subject, message: `added as ${typeText(column)}`, path: column.path }];
  }
  return [
    {
      code: 'REQUIRED_ADDED',
      subject,
      message: `added as required ${typeText(column)} without a default: replay has no value for older rows`,
      path: column.path,
    },
  ];
}

interface Pair {
  readonly old: Column | null;
  readonly now: Column | null;
}

/** By id where both have one (a rename keeps its id), else by name. */
function pairColumns(before: readonly Column[], after: readonly Column[]): Pair[] {
  const byId = new Map(after.flatMap((column) => (column.id === null ? [] : [[column.id, column] as const])));
  const byName = new Map(after.map((column) => [column.name, column]));
  const taken = new Set<Column>();
  const pairs: Pair[] = [];
  for (const old of before) {
    const sameId = old.id === null ? undefined : byId.get(old.id);
    const sameName = byName.get(old.name);
    const now =
      sameId ??
      (sameName !== undefined &&
      (sameName.id === null || old.id === null || !before.some((other) => other.id === sameName.id))
        ? sameName
        : undefined);
    if (now !== undefined && !taken.has(now)) {
      taken.add(now);
      pairs.push({ old, now });
    } else pairs.push({ old, now: null });
  }
  for (const now of after) if (!taken.has(now)) pairs.push({ old: null, now });
  return pairs;
}

export function compareColumn(subject: string, old: Column, now: Column, inKey: boolean): Change[] {
  const changes: Change[] = [];
  const push = (code: Change['code'], message: string): void =>
    void changes.push({ code, subject, message, path: now.path });
  if (old.name !== now.name)
    push('COLUMN_RENAMED', `renamed from '${old.name}': a reader of the old name finds nothing`);
  else if ((old.physicalName ?? old.name) !== (now.physicalName ?? now.name))
    push('COLUMN_RENAMED', `physicalName ${old.physicalName ?? old.name} -> ${now.physicalName ?? now.name}`);
  const type = typeChange(old, now);
  const shown = `${typeText(old)} -> ${typeText(now)}`;
  if (type === 'widened')
    push('TYPE_WIDENED', `${shown}: the table needs type widening or a rewrite, typed readers an update`);
  if (type === 'narrowed') push('TYPE_NARROWED', `${shown}: rows already written do not fit`);
  if (type === 'changed') push('TYPE_CHANGED', `${shown}: another type, the table must be rewritten`);
  if (old.required && !now.required) push('NULLABLE', 'no longer required: readers that rely on a value meet NULL');
  if (!old.required && now.required) push('REQUIRED', 'now required: rows with NULL would be quarantined on replay');
  if (old.unique !== now.unique && !inKey) {
    if (now.unique) push('UNIQUE_ADDED', 'now unique: rows already written may repeat a value');
    else push('UNIQUE_REMOVED', 'no longer unique: readers that join on it meet repeated rows');
  }
  changes.push(...compareAllowed(subject, old, now));
  changes.push(...compareOptions(subject, old, now, type));
  changes.push(...comparePrivacy(subject, old, now));
  changes.push(...compareActions(subject, old, now));
  changes.push(...compareNested(subject, old, now));
  if (changes.length === 0 && docsOf(old) !== docsOf(now)) push('DOCS', 'documentation changed');
  return changes;
}

/** An array whose entries say the same of themselves is reported with them, once. */
function typeChange(old: Column, now: Column): TypeChange {
  const type = compareTypes(old, now);
  const said = old.items !== null && now.items !== null && compareTypes(old.items, now.items) === type;
  return said && old.logicalType === now.logicalType ? 'same' : type;
}

function compareAllowed(subject: string, old: Column, now: Column): Change[] {
  if (old.allowedValues === null && now.allowedValues === null) return [];
  if (old.allowedValues === null) {
    return [
      {
        code: 'ENUM_REMOVED',
        subject,
        message: 'only listed values are allowed now',
        path: now.path,
        ruleId: `enum:${now.name}`,
      },
    ];
  }
  if (now.allowedValues === null) {
    return [
      {
        code: 'ENUM_ADDED',
        subject,
        message: 'any value is allowed now: readers of the list meet others',
        path: now.path,
      },
    ];
  }
  const { added, removed } = compareValueLists(old.allowedValues, now.allowedValues);
  const changes: Change[] = [];
  if (old.enumOpen !== now.enumOpen)
    changes.push({
      code: now.enumOpen ? 'RULE_LOOSENED' : 'RULE_TIGHTENED',
      subject,
      message: now.enumOpen
        ? 'the list is open now (enumOpen): readers of it meet other values'
        : 'the list is closed now (enumOpen): rows already written may hold other values',
      path: now.path,
      ...(now.enumOpen ? {} : { ruleId: `enum:${now.name}` }),
    });
  if (added.length > 0) {
    const open = old.enumOpen;
    changes.push({
      code: open ? 'POLICY_CHANGED' : 'ENUM_ADDED',
      subject,
      message: `+${added.join(', +')}${open ? ' (the list was declared open)' : ': readers of the old list do not know it'}`,
      path: now.path,
    });
  }
  if (removed.length > 0) {
    changes.push({
      code: 'ENUM_REMOVED',
      subject,
      message: `-${removed.join(', -')}: rows already written may hold it`,
      path: now.path,
      ruleId: `enum:${now.name}`,
    });
  }
  return changes;
}

const RANKS: readonly string[] = [
  'public',
  'open',
  'none',
  'unclassified',
  'general',
  'internal',
  'confidential',
  'restricted',
  'secret',
];

function comparePrivacy(subject: string, old: Column, now: Column): Change[] {
  const lost: string[] = [];
  const rank = (column: Column): number => {
    const word = column.classification?.toLowerCase() ?? 'public';
    const index = RANKS.indexOf(word);
    // A word of one's own counts as above internal, as masking does.
    return index < 0 ? RANKS.indexOf('confidential') : index <= RANKS.indexOf('general') ? 0 : index;
  };
  if (rank(now) < rank(old))
    lost.push(`classification ${old.classification ?? 'public'} -> ${now.classification ?? 'public'}`);
  const hasTag = (column: Column): boolean => column.tags.some((tag) => tag === 'pii' || tag.startsWith('pii:'));
  if (hasTag(old) && !hasTag(now)) lost.push('tag pii removed');
  if (old.pii !== null && now.pii === null) lost.push(`pii ${old.pii} removed`);
  if (old.piiAction !== null && now.piiAction !== old.piiAction && weaker(old.piiAction, now.piiAction)) {
    lost.push(`piiAction ${old.piiAction} -> ${now.piiAction ?? 'none'}`);
  }
  if (old.piiAction !== null && old.piiStage === 'before-log' && now.piiStage === 'before-lake')
    lost.push('piiStage before-log -> before-lake');
  if (lost.length > 0) {
    return [{ code: 'PII_DOWNGRADE', subject, message: `${lost.join('; ')}: needs an approval note`, path: now.path }];
  }
  if (isClassified(now) && !isClassified(old)) {
    return [
      { code: 'PII_ADDED', subject, message: 'now classified: history keeps the values in clear', path: now.path },
    ];
  }
  return [];
}

const STRENGTH: readonly (string | null)[] = [null, 'mask', 'hash', 'null', 'drop'];
/** A mask says nothing of a value, a pseudonym which values are equal: neither stands for the other without a note. */
const weaker = (before: string, after: string | null): boolean =>
  STRENGTH.indexOf(after) < STRENGTH.indexOf(before) || (before === 'mask' && after === 'hash');

function compareActions(subject: string, old: Column, now: Column): Change[] {
  const changes: Change[] = [];
  if (old.onViolation !== now.onViolation)
    changes.push(actionChange(subject, old.onViolation, now.onViolation, now.path));
  if (old.onUnrepresentable !== now.onUnrepresentable) changes.push(unrepresentableChange(subject, old, now));
  if (old.default !== now.default)
    changes.push({
      code: 'POLICY_CHANGED',
      subject,
      message: 'another default: replay fills older rows with it from now on',
      path: now.path,
    });
  return changes;
}

type Unrepresentable = Pick<Column, 'onUnrepresentable' | 'path'>;

/** What the lake cannot hold was kept aside, and would now be NULL. */
export function unrepresentableChange(subject: string, old: Unrepresentable, now: Unrepresentable): Change {
  const lossy = now.onUnrepresentable === 'null';
  return {
    code: lossy ? 'ACTION_LOSSY' : 'POLICY_CHANGED',
    subject,
    message: `onUnrepresentable ${old.onUnrepresentable ?? 'default'} -> ${now.onUnrepresentable ?? 'default'}${lossy ? ': such values would be lost' : ''}`,
    path: now.path,
  };
}

/** Rows that were kept aside and now vanish are a loss. */
export function actionChange(
  subject: string,
  before: string | null,
  after: string | null,
  path: Column['path'],
): Change {
  const lossy = after === 'drop' && before !== 'drop';
  return {
    code: lossy ? 'ACTION_LOSSY' : 'POLICY_CHANGED',
    subject,
    message: `onViolation ${before ?? 'default'} -> ${after ?? 'default'}${lossy ? ': violating rows would be lost' : ''}`,
    path,
  };
}

function compareNested(subject: string, old: Column, now: Column): Change[] {
  const changes: Change[] = [];
  const below = (what: string, before: Column | null, after: Column | null): void => {
    if (before !== null && after !== null) changes.push(...compareColumn(what, before, after, false));
    // Of another type: that says it all.
    else if (old.logicalType !== now.logicalType) return;
    else if (after !== null)
      changes.push({
        code: 'RULE_TIGHTENED',
        subject: what,
        message: 'its entries are described now',
        path: after.path,
      });
    else if (before !== null)
      changes.push({
        code: 'RULE_LOOSENED',
        subject: what,
        message: 'its entries may be anything now',
        path: now.path,
      });
  };
  below(`${subject}[]`, old.items, now.items);
  below(`${subject}{key}`, old.mapKey, now.mapKey);
  below(`${subject}{}`, old.mapValue, now.mapValue);
  if (old.properties.length > 0 || now.properties.length > 0) {
    changes.push(...compareColumns(subject, old.properties, now.properties, now.path, false));
  }
  return changes;
}

function docsOf(column: Column): string {
  const physical = column.physicalType === null ? '' : canonicalPgType(column.physicalType);
  return JSON.stringify([column.description, column.tags, physical, column.deprecated, column.encryptedName]);
}

/** Key columns in order, by stable id where there is one. */
export function keyOf(table: TableContract): string[] {
  return table.columns
    .filter((column) => column.keyPosition > 0)
    .toSorted((a, b) => a.keyPosition - b.keyPosition)
    .map((column) => column.id ?? column.name);
}
