/** `90s`, `15m`, `1h`, `7d`, `2w` → microseconds; null for anything else. */
const UNITS: Readonly<Record<string, bigint>> = { s: 1n, m: 60n, h: 3600n, d: 86_400n, w: 604_800n };

export function parseSpan(text: string): bigint | null {
  const match = /^(\d{1,6})([smhdw])$/.exec(text.trim());
  const unit = UNITS[match?.[2] ?? ''];
  return match === null || unit === undefined ? null : BigInt(match[1] ?? '0') * unit * 1_000_000n;
}

/** `last 7 days`, `last 1 hour`. */
export function spanWords(text: string): string {
  const match = /^(\d+)([smhdw])$/.exec(text.trim());
  const noun = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week' }[match?.[2] ?? ''] ?? '';
  return `last ${match?.[1] ?? ''} ${noun}${match?.[1] === '1' ? '' : 's'}`;
}
