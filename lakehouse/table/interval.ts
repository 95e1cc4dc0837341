/** Durations in table properties: Spark's interval text, e.g. `interval 7 days`, `interval 1 week 12 hours`. */
const UNIT_MS: Readonly<Record<string, number>> = {
  millisecond: 1,
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 604_800_000,
};
const TERM = /^(\d+)\s+([a-z]+?)s?(?=\s|$)\s*/;

/** Milliseconds; null when it is no such text (months and years have no fixed length and are refused, as Spark refuses them). */
export function parseInterval(text: string): number | null {
  let rest = text
    .trim()
    .toLowerCase()
    .replace(/^interval\s+/, '');
  if (rest === '') return null;
  let total = 0;
  while (rest !== '') {
    const found = TERM.exec(rest);
    const unit = found?.[2] === undefined ? undefined : UNIT_MS[found[2]];
    if (found === null || unit === undefined) return null;
    total += Number(found[1]) * unit;
    rest = rest.slice(found[0].length);
  }
  return total;
}

/** A table property as milliseconds, `fallbackMs` when it is absent or not understood. */
export function intervalProperty(
  configuration: Readonly<Record<string, string>>,
  name: string,
  fallbackMs: number,
): number {
  const text = configuration[name];
  return text === undefined ? fallbackMs : (parseInterval(text) ?? fallbackMs);
}

export const DAY_MS = 86_400_000;
/** `delta.deletedFileRetentionDuration`, when the table does not set it. */
export const FILE_RETENTION_MS = 7 * DAY_MS;
/** `delta.logRetentionDuration`, when the table does not set it. */
export const LOG_RETENTION_MS = 30 * DAY_MS;
