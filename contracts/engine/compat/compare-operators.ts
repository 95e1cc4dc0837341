/** Which results of a rule pass, before and after: its operators as sets of numbers, so that any two can be compared. */
import { compareDecimals, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import type { Operator, Rule } from '../model.ts';

export type OperatorChange = 'same' | 'tightened' | 'loosened' | 'undecided';

type Counted = Extract<Rule, { kind: 'library' | 'sql' }>;

/** One end of a span of numbers; null = without end. */
export interface End {
  readonly at: Decimal;
  readonly closed: boolean;
}
interface Span {
  readonly low: End | null;
  readonly high: End | null;
}

/** @param old and `now` count the same thing in the same unit */
export function compareOperators(old: Counted, now: Counted): OperatorChange {
  if (old.operator.name === now.operator.name && old.operator.text === now.operator.text) return 'same';
  const [before, after] = [passing(old), passing(now)];
  if (before === null || after === null) return 'undecided';
  const [kept, widened] = [within(after, before), within(before, after)];
  return kept && widened ? 'same' : kept ? 'tightened' : widened ? 'loosened' : 'undecided';
}

/** Null: the operator compares with what is no number. */
function passing(rule: Counted): Span[] | null {
  const spans = spansOf(rule.operator);
  if (spans === null || rule.kind === 'sql') return spans;
  // A metric is a count, or a share of rows.
  const whole = rule.unit === 'rows';
  return spans.flatMap((span) => {
    const low = tighter(whole ? wholeEnd(span.low, 1n) : span.low, { at: ZERO, closed: true }, 1);
    const high = whole ? wholeEnd(span.high, -1n) : tighter(span.high, { at: HUNDRED, closed: true }, -1);
    return isEmpty({ low, high }) ? [] : [{ low, high }];
  });
}

const ZERO: Decimal = { unscaled: 0n, scale: 0 };
const HUNDRED: Decimal = { unscaled: 100n, scale: 0 };

function spansOf(operator: Operator): Span[] | null {
  const values = (Array.isArray(operator.value) ? operator.value : [operator.text]).map((value) =>
    parseDecimal(String(value)),
  );
  const [a = null, b = null] = values;
  if (a === null) return null;
  const [closed, open]: [End, End] = [
    { at: a, closed: true },
    { at: a, closed: false },
  ];
  switch (operator.name) {
    case 'mustBe':
      return [{ low: closed, high: closed }];
    case 'mustNotBe':
      return [
        { low: null, high: open },
        { low: open, high: null },
      ];
    case 'mustBeGreaterThan':
      return [{ low: open, high: null }];
    case 'mustBeGreaterOrEqualTo':
      return [{ low: closed, high: null }];
    case 'mustBeLessThan':
      return [{ low: null, high: open }];
    case 'mustBeLessOrEqualTo':
      return [{ low: null, high: closed }];
    case 'mustBeBetween':
      return b === null ? null : [{ low: closed, high: { at: b, closed: true } }];
    case 'mustNotBeBetween':
      return b === null
        ? null
        : [
            { low: null, high: open },
            { low: { at: b, closed: false }, high: null },
          ];
  }
}

/** The nearest whole number that is inside: more than 4 is 5 or more. `inward` is 1 for a low end, -1 for a high one. */
export function wholeEnd<E extends End | null>(end: E, inward: 1n | -1n): E;
export function wholeEnd(end: End | null, inward: 1n | -1n): End | null {
  if (end === null) return null;
  const { unscaled, scale } = end.at;
  const unit = 10n ** BigInt(scale);
  const floor = unscaled / unit - (unscaled < 0n && unscaled % unit !== 0n ? 1n : 0n);
  const exact = unscaled % unit === 0n;
  const inside = exact ? (end.closed ? floor : floor + inward) : inward === 1n ? floor + 1n : floor;
  return { at: { unscaled: inside, scale: 0 }, closed: true };
}

const isEmpty = ({ low, high }: Span): boolean => {
  if (low === null || high === null) return false;
  const order = compareDecimals(low.at, high.at);
  return order > 0 || (order === 0 && !(low.closed && high.closed));
};

/** Every span of `inner` lies in one of `outer`, whose spans do not touch. */
const within = (inner: readonly Span[], outer: readonly Span[]): boolean =>
  inner.every((span) =>
    outer.some(
      (other) => tighter(span.low, other.low, 1) === span.low && tighter(span.high, other.high, -1) === span.high,
    ),
  );

/** The end that lets less in; `a` where both let in the same. `inward` is 1 for low ends, -1 for high ones. */
export function tighter(a: End | null, b: End | null, inward: 1 | -1): End | null {
  if (a === null || b === null) return a ?? b;
  const order = compareDecimals(a.at, b.at) * inward;
  return order > 0 || (order === 0 && (!a.closed || b.closed)) ? a : b;
}
