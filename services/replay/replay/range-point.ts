/** Where a replay begins or ends, as a person writes it. */
import { parseLsn, type Lsn } from '../../log/position.ts';
import { ConfigError } from '../../runtime/errors.ts';

export type RangePoint =
  /** What the table began with: the log's beginning, or the newest whole read of the table that the log holds. */
  | { readonly kind: 'beginning' }
  /** Whatever the log still holds. */
  | { readonly kind: 'earliest' }
  | { readonly kind: 'now' }
  /** By partition; the number alone where the topic has one. */
  | { readonly kind: 'offset'; readonly offsets: ReadonlyMap<number, bigint> | bigint }
  | { readonly kind: 'lsn'; readonly lsn: Lsn }
  /** Commit time at the source, µs since 1970. */
  | { readonly kind: 'time'; readonly micros: bigint }
  /** A batch of the table, as its history numbers them. */
  | { readonly kind: 'batch'; readonly batch: bigint };

const FORMS =
  'beginning, earliest, now, offset:N, offset:PARTITION=N,…, a time such as 2026-01-31T10:00:00Z, lsn:16/B374D848 or batch:N';
const LSN = /^[0-9a-f]{1,8}\/[0-9a-f]{1,8}$/i;
const TIME = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:\.(\d{1,6}))?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;
const INT64_MAX = 2n ** 63n - 1n;

/** @throws ConfigError */
export function parseRangePoint(flag: '--from' | '--to', text: string): RangePoint {
  const point = read(text.trim());
  if (point === null) throw new ConfigError(`${flag} cannot be '${text}'`, `expected: ${FORMS}`);
  if (flag === '--to' && (point.kind === 'beginning' || point.kind === 'earliest'))
    throw new ConfigError(`${flag} cannot be '${text}': nothing would be left to replay`, `expected: ${FORMS}`);
  if (flag === '--from' && point.kind === 'now')
    throw new ConfigError(`${flag} cannot be 'now': nothing would be left to replay`, `expected: ${FORMS}`);
  return point;
}

function read(text: string): RangePoint | null {
  if (text === 'beginning' || text === 'earliest' || text === 'now') return { kind: text };
  const [, prefix, rest = ''] = /^(offset|lsn|batch|timestamp|time):(.*)$/i.exec(text) ?? [];
  switch (prefix?.toLowerCase()) {
    case 'offset':
      return readOffsets(rest);
    case 'lsn':
      return readLsn(rest);
    case 'batch':
      return /^\d{1,18}$/.test(rest) ? { kind: 'batch', batch: BigInt(rest) } : null;
    case 'timestamp':
    case 'time':
      return readTime(rest);
    default:
      return readLsn(text) ?? readTime(text);
  }
}

function readOffsets(text: string): RangePoint | null {
  const one = offsetOf(text);
  if (one !== null) return { kind: 'offset', offsets: one };
  const offsets = new Map<number, bigint>();
  for (const pair of text.split(',')) {
    const [, partition, value] = /^\s*(\d{1,6})\s*=\s*(\d+)\s*$/.exec(pair) ?? [];
    const offset = offsetOf(value ?? '');
    if (partition === undefined || offset === null || offsets.has(Number(partition))) return null;
    offsets.set(Number(partition), offset);
  }
  return { kind: 'offset', offsets };
}

function offsetOf(text: string): bigint | null {
  if (!/^\d{1,19}$/.test(text)) return null;
  const offset = BigInt(text);
  return offset <= INT64_MAX ? offset : null;
}

function readLsn(text: string): RangePoint | null {
  return LSN.test(text) ? { kind: 'lsn', lsn: parseLsn(text) } : null;
}

/** Without a zone the time is UTC, as the source's marks are. */
function readTime(text: string): RangePoint | null {
  const [whole, date, minutes = '00:00', seconds = ':00', fraction = '', zone = 'Z'] = TIME.exec(text) ?? [];
  if (whole === undefined || date === undefined) return null;
  const ms = Date.parse(`${date}T${minutes}${seconds}${zone.toUpperCase()}`);
  // The calendar rolls over what it does not have: 31 April would become 1 May.
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(ms) || Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== date) return null;
  return { kind: 'time', micros: BigInt(ms) * 1000n + BigInt(fraction.padEnd(6, '0')) };
}
