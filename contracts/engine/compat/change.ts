/**
 * What differs between two versions of a contract, and which promise it breaks. B (backward): the new contract accepts
 * rows written under the old one. F (forward): readers of the old contract can use rows written under the new one.
 */
import type { FindingLevel } from '../finding.ts';
import type { CompatibilityMode } from '../model.ts';
import type { TreePath } from '../yaml-tree.ts';

export type Effect = 'ok' | 'breaks' | 'undecided';

export interface ChangeKind {
  readonly backward: Effect;
  readonly forward: Effect;
  /** What the change asks of the contract's version number. */
  readonly bump: 'major-if-breaking' | 'minor' | 'patch';
  /** Never reported below this level, whatever the mode. */
  readonly atLeast?: FindingLevel;
  /** Never reported above this level (unless `--strict`), whatever the mode. */
  readonly atMost?: FindingLevel;
}

const change = (backward: Effect, forward: Effect, more: Partial<ChangeKind> = {}): ChangeKind => ({
  backward,
  forward,
  bump: 'major-if-breaking',
  ...more,
});

/** One row a kind of change: the compatibility table of a CDC table. */
export const CHANGES = {
  TABLE_ADDED: change('ok', 'ok', { bump: 'minor' }),
  COLUMN_ADDED: change('ok', 'ok', { bump: 'minor' }),
  REQUIRED_ADDED: change('breaks', 'ok'),
  COLUMN_REMOVED: change('ok', 'breaks'),
  COLUMN_RENAMED: change('breaks', 'breaks'),
  TYPE_WIDENED: change('ok', 'breaks', { bump: 'minor', atMost: 'warning' }),
  TYPE_NARROWED: change('breaks', 'ok', { atLeast: 'error' }),
  TYPE_CHANGED: change('breaks', 'breaks'),
  NULLABLE: change('ok', 'breaks'),
  REQUIRED: change('breaks', 'ok'),
  ENUM_ADDED: change('ok', 'breaks'),
  ENUM_REMOVED: change('breaks', 'ok'),
  RULE_TIGHTENED: change('breaks', 'ok'),
  RULE_LOOSENED: change('ok', 'breaks'),
  RULE_CHANGED: change('undecided', 'undecided', { bump: 'minor' }),
  RULE_ADDED: change('breaks', 'ok'),
  KEY_CHANGED: change('breaks', 'breaks', { atLeast: 'error' }),
  KEY_REORDERED: change('ok', 'ok', { bump: 'minor' }),
  UNIQUE_REMOVED: change('ok', 'breaks'),
  UNIQUE_ADDED: change('breaks', 'ok'),
  TABLE_REMOVED: change('ok', 'breaks', { atLeast: 'error' }),
  LOCATION_CHANGED: change('ok', 'breaks', { atLeast: 'error' }),
  REWRITE: change('ok', 'ok', { bump: 'minor', atLeast: 'warning' }),
  SLA_WORSE: change('ok', 'breaks', { atLeast: 'error' }),
  SLA_ADDED: change('ok', 'ok', { bump: 'minor' }),
  PII_DOWNGRADE: change('ok', 'breaks', { atLeast: 'error' }),
  PII_ADDED: change('ok', 'ok', { bump: 'minor', atLeast: 'warning' }),
  BEFORE_LOST: change('breaks', 'breaks', { atLeast: 'error' }),
  ACTION_LOSSY: change('ok', 'breaks', { atLeast: 'error' }),
  POLICY_CHANGED: change('ok', 'ok', { bump: 'minor' }),
  DOCS: change('ok', 'ok', { bump: 'patch' }),
} as const satisfies Readonly<Record<string, ChangeKind>>;

export type ChangeCode = keyof typeof CHANGES;

export interface Change {
  readonly code: ChangeCode;
  /** `orders.total`, `orders.items[].qty`, `orders.status_ok`; the table's name for the table itself. */
  readonly subject: string;
  /** From old to new, in one line; no row data. */
  readonly message: string;
  /** Where in the head's text; for removals the nearest element that still stands. */
  readonly path: TreePath;
  /** Id of the rule that got tighter, so that `--data` can count the rows. */
  readonly ruleId?: string;
  /** A removal that an earlier release announced (`deprecated: true`): a warning instead of an error. */
  readonly announced?: boolean;
}

/** The level of a change under a mode. `strict` lifts the cap on widened types. */
export function levelOf(item: Change, mode: CompatibilityMode, strict: boolean): FindingLevel {
  const kind: ChangeKind = CHANGES[item.code];
  let level = byMode(kind, mode);
  if (kind.atMost !== undefined && !strict) level = lower(level, kind.atMost);
  if (kind.atLeast !== undefined && (mode !== 'NONE' || item.code === 'PII_DOWNGRADE'))
    level = higher(level, kind.atLeast);
  return item.announced === true ? lower(level, 'warning') : level;
}

function byMode(kind: ChangeKind, mode: CompatibilityMode): FindingLevel {
  if (mode === 'NONE') return 'info';
  const wantsBackward = mode.startsWith('BACKWARD') || mode.startsWith('FULL');
  const wantsForward = mode.startsWith('FORWARD') || mode.startsWith('FULL');
  if ((wantsBackward && kind.backward === 'breaks') || (wantsForward && kind.forward === 'breaks')) return 'error';
  const touched = [kind.backward, kind.forward].some((effect) => effect !== 'ok');
  return touched ? 'warning' : 'info';
}

const ORDER: readonly FindingLevel[] = ['info', 'warning', 'error'];
const lower = (a: FindingLevel, b: FindingLevel): FindingLevel => (ORDER.indexOf(a) < ORDER.indexOf(b) ? a : b);
const higher = (a: FindingLevel, b: FindingLevel): FindingLevel => (ORDER.indexOf(a) > ORDER.indexOf(b) ? a : b);
