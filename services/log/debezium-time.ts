/** Debezium's numbers for dates and times to PostgreSQL's text, exactly: whole numbers only, no Date. */

const DAY_MICROS = 86_400_000_000n;
/** PostgreSQL's infinities as Debezium passes them on (PGStatement.DATE_POSITIVE_INFINITY and _NEGATIVE_). */
const POSITIVE_INFINITY = 9_223_372_036_825_200_000n;
const NEGATIVE_INFINITY = -9_223_372_036_832_400_000n;

/** Days since 1970-01-01, proleptic Gregorian: `2024-01-02`, `0044-03-15 BC`. */
export function dateText(days: bigint): string {
  const { date, era } = civil(Number(days));
  return date + era;
}

/** Microseconds since 1970-01-01T00:00:00: `2024-01-02T03:04:05.123456`, era behind the zone. */
export function timestampText(micros: bigint, zone: '' | 'Z'): string {
  if (micros === POSITIVE_INFINITY) return 'infinity';
  if (micros === NEGATIVE_INFINITY) return '-infinity';
  const ofDay = ((micros % DAY_MICROS) + DAY_MICROS) % DAY_MICROS;
  const { date, era } = civil(Number((micros - ofDay) / DAY_MICROS));
  return `${date}T${timeText(ofDay)}${zone}${era}`;
}

/** Microseconds since midnight, up to 24:00:00: `03:04:05.123456`. */
export function timeText(micros: bigint): string {
  const seconds = Number(micros / 1_000_000n);
  const two = (value: number): string => String(value).padStart(2, '0');
  const clock = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  const fraction = String(micros % 1_000_000n)
    .padStart(6, '0')
    .replace(/0+$/, '');
  return fraction === '' ? clock : `${clock}.${fraction}`;
}

/** Days to a calendar date (the usual 400-year cycle, years beginning in March). */
function civil(days: number): { readonly date: string; readonly era: '' | ' BC' } {
  const shifted = days + 719_468;
  const cycle = Math.floor(shifted / 146_097);
  const dayOfCycle = shifted - cycle * 146_097;
  const yearOfCycle = Math.floor(
    (dayOfCycle - Math.floor(dayOfCycle / 1460) + Math.floor(dayOfCycle / 36_524) - Math.floor(dayOfCycle / 146_096)) /
      365,
  );
  const dayOfYear = dayOfCycle - (365 * yearOfCycle + Math.floor(yearOfCycle / 4) - Math.floor(yearOfCycle / 100));
  const march = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * march + 2) / 5) + 1;
  const month = march < 10 ? march + 3 : march - 9;
  const year = yearOfCycle + cycle * 400 + (month <= 2 ? 1 : 0);
  const shown = year > 0 ? year : 1 - year;
  const pad = (value: number, width: number): string => String(value).padStart(width, '0');
  return { date: `${pad(shown, 4)}-${pad(month, 2)}-${pad(day, 2)}`, era: year > 0 ? '' : ' BC' };
}
