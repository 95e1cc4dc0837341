/** Changes of a column's bounds, lengths and patterns. */
import { compareDecimals, isMultipleOf, parseDecimal } from '../decimal-text.ts';
import type { Column, ColumnOptions } from '../model.ts';
import type { Change } from './change.ts';
import type { TypeChange } from './compare-types.ts';

type Direction = 'tightened' | 'loosened' | 'same' | 'changed';
type Shown = string | number | boolean | undefined;

/** @param type what became of the column's type: a length that only restates it says nothing of its own */
export function compareOptions(subject: string, old: Column, now: Column, type: TypeChange): Change[] {
  const changes: Change[] = [];
  const report = (what: string, direction: Direction, before: Shown, after: Shown): void => {
    if (direction === 'same') return;
    const message = `${what} ${before ?? 'none'} -> ${after ?? 'none'}`;
    if (direction === 'tightened')
      changes.push({ code: 'RULE_TIGHTENED', subject, message, path: now.path, ruleId: what });
    else
      changes.push({
        code: direction === 'loosened' ? 'RULE_LOOSENED' : 'RULE_CHANGED',
        subject,
        message,
        path: now.path,
      });
  };
  const [a, b] = [old.options, now.options];
  // Bounds and formats of another type are no bounds on the same values.
  if (type === 'changed' && old.logicalType !== now.logicalType) return changes;
  for (const side of SIDES) {
    const [before, after] = [limitOf(a, side), limitOf(b, side)];
    report(side.name, compareLimits(before, after, side.tightening), before?.shown, after?.shown);
  }
  for (const [name, tightening] of COUNTS) {
    if (name === 'maxLength' && type !== 'same') continue;
    const [before, after] = [a[name], b[name]];
    report(name, compareLimits(countLimit(before), countLimit(after), tightening), before, after);
  }
  report('pattern', presence(a.pattern, b.pattern), a.pattern, b.pattern);
  report('multipleOf', multiples(a.multipleOf, b.multipleOf), a.multipleOf, b.multipleOf);
  if (type === 'same' && now.logicalType === 'string')
    report('format', presence(a.format, b.format), a.format, b.format);
  const [unique, uniqueNow] = [a.uniqueItems ?? false, b.uniqueItems ?? false];
  report('uniqueItems', unique === uniqueNow ? 'same' : uniqueNow ? 'tightened' : 'loosened', unique, uniqueNow);
  const [needs, needsNow] = [a.requiredProperties ?? [], b.requiredProperties ?? []];
  const added = needsNow.filter((name) => !needs.includes(name));
  const removed = needs.filter((name) => !needsNow.includes(name));
  report('required', setDirection(added, removed), needs.join('+') || undefined, needsNow.join('+') || undefined);
  return changes;
}

/** `tightening` = 1: a greater bound is tighter; -1: a smaller one is. */
const SIDES = [
  { name: 'minimum', closed: 'minimum', open: 'exclusiveMinimum', tightening: 1 },
  { name: 'maximum', closed: 'maximum', open: 'exclusiveMaximum', tightening: -1 },
] as const;
type Side = (typeof SIDES)[number];

const COUNTS = [
  ['minLength', 1],
  ['maxLength', -1],
  ['minItems', 1],
  ['maxItems', -1],
  ['minProperties', 1],
  ['maxProperties', -1],
] as const;

interface Limit {
  readonly at: string;
  /** The bound itself is not let in. */
  readonly open: boolean;
  readonly shown: string;
}

const countLimit = (value: number | undefined): Limit | null =>
  value === undefined ? null : { at: String(value), open: false, shown: String(value) };

/** The one that decides, where a column has both. */
function limitOf(options: ColumnOptions, side: Side): Limit | null {
  const [closed, open] = [options[side.closed], options[side.open]];
  const closedLimit = closed === undefined ? null : { at: closed, open: false, shown: closed };
  const openLimit = open === undefined ? null : { at: open, open: true, shown: `${open} (exclusive)` };
  if (closedLimit === null || openLimit === null) return closedLimit ?? openLimit;
  return compareLimits(closedLimit, openLimit, side.tightening) === 'tightened' ? openLimit : closedLimit;
}

function compareLimits(before: Limit | null, after: Limit | null, tightening: 1 | -1): Direction {
  if (before === null || after === null) return before === after ? 'same' : before === null ? 'tightened' : 'loosened';
  const [left, right] = [parseDecimal(before.at), parseDecimal(after.at)];
  // Dates and times order as text.
  const order =
    left !== null && right !== null
      ? compareDecimals(right, left)
      : after.at === before.at
        ? 0
        : after.at < before.at
          ? -1
          : 1;
  if (order !== 0) return order === tightening ? 'tightened' : 'loosened';
  return before.open === after.open ? 'same' : after.open ? 'tightened' : 'loosened';
}

function presence(before: string | undefined, after: string | undefined): Direction {
  if (before === after) return 'same';
  return before === undefined ? 'tightened' : after === undefined ? 'loosened' : 'changed';
}

/** Multiples of 4 are multiples of 2: a multiple of the step lets less in. */
function multiples(before: string | undefined, after: string | undefined): Direction {
  const found = presence(before, after);
  const [left, right] = [parseDecimal(before ?? ''), parseDecimal(after ?? '')];
  if (found !== 'changed' || left === null || right === null) return found;
  return isMultipleOf(right, left) ? 'tightened' : isMultipleOf(left, right) ? 'loosened' : 'changed';
}

function setDirection(added: readonly string[], removed: readonly string[]): Direction {
  if (added.length === 0) return removed.length === 0 ? 'same' : 'loosened';
  return removed.length === 0 ? 'tightened' : 'changed';
}
