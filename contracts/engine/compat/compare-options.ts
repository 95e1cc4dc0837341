/** Changes of a column's bounds, lengths and patterns. */
import { compareDecimals, isMultipleOf, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import type { Column, DecimalText } from '../model.ts';
import { parseInstant } from '../rules/temporal.ts';
import type { Change } from './change.ts';
import { wholeEnd } from './compare-operators.ts';
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
    const [before, after] = [limitOf(old, side), limitOf(now, side)];
    report(side.name, compareLimits(before, after, side.tightening), before?.shown, after?.shown);
  }
  for (const [name, tightening] of COUNTS) {
    if (name === 'maxLength' && type !== 'same') continue;
    const [before, after] = [a[name], b[name]];
    // Nothing has less than none.
    const [from, to] = tightening === 1 ? [before || undefined, after || undefined] : [before, after];
    report(name, compareLimits(countLimit(from), countLimit(to), tightening), before, after);
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
  /** Of dates and timestamps the instant; null where the text is neither that nor a number (`08:30:00`). */
  readonly at: Decimal | null;
  readonly text: string;
  /** The bound itself is let in. */
  readonly closed: boolean;
  readonly shown: string;
}

const countLimit = (value: number | undefined): Limit | null =>
  value === undefined ? null : limit(String(value), true);

function limit(text: DecimalText, closed: boolean, at: Decimal | null = parseDecimal(text)): Limit {
  return { at, text, closed, shown: closed ? text : `${text} (exclusive)` };
}

/** The one that decides, where a column has both. */
function limitOf({ logicalType, options }: Column, { closed, open, tightening }: Side): Limit | null {
  const read = (text: DecimalText, isClosed: boolean): Limit => {
    if (logicalType === 'date' || logicalType === 'timestamp') {
      const micros = parseInstant(text);
      return limit(text, isClosed, micros === null ? null : { unscaled: micros, scale: 0 });
    }
    const found = limit(text, isClosed);
    if (logicalType !== 'integer' || found.at === null) return found;
    // More than 0 is 1 or more.
    return { ...found, ...wholeEnd({ at: found.at, closed: isClosed }, tightening === 1 ? 1n : -1n) };
  };
  const closedLimit = options[closed] === undefined ? null : read(options[closed], true);
  const openLimit = options[open] === undefined ? null : read(options[open], false);
  if (closedLimit === null || openLimit === null) return closedLimit ?? openLimit;
  return compareLimits(closedLimit, openLimit, tightening) === 'tightened' ? openLimit : closedLimit;
}

function compareLimits(before: Limit | null, after: Limit | null, tightening: 1 | -1): Direction {
  if (before === null || after === null) return before === after ? 'same' : before === null ? 'tightened' : 'loosened';
  // Times of a day order as text.
  const order =
    before.at !== null && after.at !== null
      ? compareDecimals(after.at, before.at)
      : after.text === before.text
        ? 0
        : after.text < before.text
          ? -1
          : 1;
  if (order !== 0) return order > 0 === tightening > 0 ? 'tightened' : 'loosened';
  return before.closed === after.closed ? 'same' : after.closed ? 'loosened' : 'tightened';
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
