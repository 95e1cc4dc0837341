/** Days and microseconds since 1970-01-01 as ISO 8601 text, proleptic Gregorian, any year: `Date` ends at 275760 and loses micros. */

const MICROS_PER_DAY = 86_400_000_000n;

/** Year, month (1-12) and day (1-31) of a day number. */
export function civilOf(days: number): { year: number; month: number; day: number } {
  // Days are counted from 0000-03-01 in 400-year eras, so that the leap day ends a year.
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const monthIndex = Math.floor((5 * dayOfYear + 2) / 153);
  const day = dayOfYear - Math.floor((153 * monthIndex + 2) / 5) + 1;
  const month = monthIndex < 10 ? monthIndex + 3 : monthIndex - 9;
  return { year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day };
}

/** Day number of a civil date. */
export function daysOf(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

const pad = (value: number, width: number): string => String(value).padStart(width, '0');

function yearText(year: number): string {
  if (year >= 0 && year <= 9999) return pad(year, 4);
  return `${year < 0 ? '-' : '+'}${pad(Math.abs(year), 4)}`;
}

/** `2024-02-29`; years outside 0000..9999 carry a sign. */
export function dateText(days: number): string {
  const { year, month, day } = civilOf(days);
  return `${yearText(year)}-${pad(month, 2)}-${pad(day, 2)}`;
}

/** `2024-02-29T23:59:59.123456`, with a zone suffix that the caller names. */
export function timestampText(micros: bigint, suffix: 'Z' | ''): string {
  let days = micros / MICROS_PER_DAY;
  let rest = micros % MICROS_PER_DAY;
  if (rest < 0n) {
    days -= 1n;
    rest += MICROS_PER_DAY;
  }
  const ofDay = Number(rest);
  const seconds = Math.floor(ofDay / 1_000_000);
  const time = `${pad(Math.floor(seconds / 3600), 2)}:${pad(Math.floor(seconds / 60) % 60, 2)}:${pad(seconds % 60, 2)}`;
  return `${dateText(Number(days))}T${time}.${pad(ofDay % 1_000_000, 6)}${suffix}`;
}
