/** `value` and `unit` of an SLA → microseconds. The standard's units are words (`minutes`) and letters (`d`, `m`, `y`). */
const DAY = 86_400_000_000n;
const YEAR = 365n * DAY;
/** Twelve are a year. */
const MONTH = YEAR / 12n;
const UNITS: Readonly<Record<string, bigint>> = {
  ms: 1000n,
  millisecond: 1000n,
  s: 1_000_000n,
  sec: 1_000_000n,
  second: 1_000_000n,
  min: 60_000_000n,
  minute: 60_000_000n,
  h: 3_600_000_000n,
  hr: 3_600_000_000n,
  hour: 3_600_000_000n,
  d: DAY,
  day: DAY,
  w: 7n * DAY,
  week: 7n * DAY,
  // A single m is a month in the standard's own examples (d, m, y).
  m: MONTH,
  month: MONTH,
  y: YEAR,
  yr: YEAR,
  year: YEAR,
};

/** Null when it is no duration. A value may carry its unit: `5 minutes`, `PT5M` is not read. Without any unit: days. */
export function parseDuration(value: unknown, unit: string | null): bigint | null {
  const text =
    typeof value === 'number' || typeof value === 'bigint' ? `${value}` : typeof value === 'string' ? value.trim() : '';
  const match = /^(\d{1,12})(?:\.(\d{1,6}))?\s*([A-Za-z]*)$/.exec(text);
  if (match === null) return null;
  const word = ((match[3] ?? '') || unit || 'd').toLowerCase();
  const singular = Object.hasOwn(UNITS, word) ? word : word.replace(/s$/, '');
  const size = Object.hasOwn(UNITS, singular) ? UNITS[singular] : undefined;
  if (size === undefined) return null;
  const millionths = BigInt((match[2] ?? '').padEnd(6, '0'));
  return BigInt(match[1] ?? '0') * size + (millionths * size) / 1_000_000n;
}
