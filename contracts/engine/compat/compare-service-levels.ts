/** Changes of service levels: a promise is the same one when it is of the same property and element, else when its id is. */
import { compareDecimals, parseDecimal } from '../decimal-text.ts';
import type { Decimal } from '../decimal-text.ts';
import type { Contract, SlaProperty } from '../model.ts';
import { parseDuration } from '../rules/sla-duration.ts';
import { parseInstant } from '../rules/temporal.ts';
import type { Change } from './change.ts';

/** For these a smaller value is the better service; for every other named property a greater one is. */
const SMALLER_IS_BETTER: ReadonlySet<string> = new Set([
  'latency',
  'freshness',
  'frequency',
  'errorrate',
  'timetodetect',
  'timetonotify',
  'timetorepair',
]);

export function compareServiceLevels(before: Contract, after: Contract): Change[] {
  const key = (sla: SlaProperty): string => `${measured(sla)}|${sla.element ?? ''}`;
  const left = new Set(after.sla);
  const changes: Change[] = [];
  const gone: SlaProperty[] = [];
  for (const old of before.sla) {
    const now = [...left].find((sla) => key(sla) === key(old));
    if (now === undefined) gone.push(old);
    else {
      left.delete(now);
      changes.push(...compareServiceLevel(old, now));
    }
  }
  for (const old of gone) {
    const now = [...left].find(({ id }) => id !== null && id === old.id);
    if (now !== undefined) left.delete(now);
    const of = (sla: SlaProperty): string => `${sla.property}${sla.element === null ? '' : ` of ${sla.element}`}`;
    const message = now === undefined ? 'promise removed' : `${of(old)} -> ${of(now)}: the old promise is gone`;
    changes.push({ code: 'SLA_WORSE', subject: `sla.${old.property}`, message, path: now?.path ?? [] });
  }
  for (const added of left)
    changes.push({ code: 'SLA_ADDED', subject: `sla.${added.property}`, message: 'promise added', path: added.path });
  return changes;
}

/** `freshness` and `latency` are one check. */
const measured = ({ property }: SlaProperty): string => (property === 'freshness' ? 'latency' : property);

function compareServiceLevel(old: SlaProperty, now: SlaProperty): Change[] {
  const subject = `sla.${old.property}`;
  const shown = `${String(old.value)} ${old.unit ?? ''} -> ${String(now.value)} ${now.unit ?? ''}`
    .replaceAll(/ +/g, ' ')
    .trim();
  const [a, b] = [amount(old), amount(now)];
  if (a === null || b === null || a.of !== b.of) {
    const same = String(old.value) === String(now.value) && old.unit === now.unit;
    return same ? [] : [{ code: 'POLICY_CHANGED', subject, message: shown, path: now.path }];
  }
  const order = compareDecimals(b.value, a.value);
  if (order === 0) return [];
  const worse = SMALLER_IS_BETTER.has(old.property.toLowerCase()) ? order > 0 : order < 0;
  return [{ code: worse ? 'SLA_WORSE' : 'POLICY_CHANGED', subject, message: shown, path: now.path }];
}

/** A span, a day (`endOfSupport: 2030-01-01`), or a bare number in a unit that is none of time. */
function amount({ value, unit }: SlaProperty): { readonly value: Decimal; readonly of: string } | null {
  const whole = (micros: bigint | null, of: string): { value: Decimal; of: string } | null =>
    micros === null ? null : { value: { unscaled: micros, scale: 0 }, of };
  const number = parseDecimal(String(value));
  if (number !== null && unit === null) return { value: number, of: '' };
  const span = whole(parseDuration(value, unit), 'time');
  if (span !== null) return span;
  if (number !== null) return { value: number, of: unit?.toLowerCase() ?? '' };
  return typeof value === 'string' ? whole(parseInstant(value), 'instant') : null;
}
