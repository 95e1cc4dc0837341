/**
 * Events whose unchanged column has no base row: neither quarantined nor NULL, they wait for the snapshot row while their table
 * is SNAPSHOTTING, and afterwards for the row that the source is asked for (base-requests.ts). Kept in memory as raw records; what survives a crash is the oldest awaiting offset of each
 * partition, committed with the table: a restart reads from there again, and the per-row fence makes the rest harmless.
 */
import type { RawRecord } from './ingest-batch.ts';
import type { KeyCell } from './key-cell.ts';
import { StreamError } from '../stream/stream-error.ts';

export interface Awaiting {
  readonly events: number;
  readonly bytes: number;
  /** Takes the records of a key out, in log order. */
  take(key: KeyCell): readonly RawRecord[];
  /** All, or those whose key `wanted` says. */
  takeAll(wanted?: (key: KeyCell) => boolean): readonly RawRecord[];
  /** One record of each key. */
  firsts(): Iterable<readonly [KeyCell, RawRecord]>;
  has(key: KeyCell): boolean;
  put(key: KeyCell, record: RawRecord): void;
  /** Oldest offset of each partition that still holds an awaiting event. */
  holdBack(): ReadonlyMap<number, bigint>;
  clone(): Awaiting;
}

export function createAwaiting(
  bytesMax: number,
  initial: ReadonlyMap<KeyCell, readonly RawRecord[]> = new Map(),
): Awaiting {
  const byKey = new Map(initial);
  let events = 0;
  let bytes = 0;
  for (const records of byKey.values()) {
    events += records.length;
    for (const record of records) bytes += sizeOf(record);
  }
  const forget = (records: readonly RawRecord[]): void => {
    events -= records.length;
    for (const record of records) bytes -= sizeOf(record);
  };
  return {
    get events() {
      return events;
    },
    get bytes() {
      return bytes;
    },
    take(key) {
      const records = byKey.get(key);
      if (records === undefined) return [];
      byKey.delete(key);
      forget(records);
      return records;
    },
    takeAll(wanted) {
      const all: RawRecord[] = [];
      for (const [key, records] of byKey) {
        if (wanted !== undefined && !wanted(key)) continue;
        all.push(...records);
        byKey.delete(key);
      }
      forget(all);
      return all;
    },
    *firsts() {
      for (const [key, [first]] of byKey) if (first !== undefined) yield [key, first] as const;
    },
    has: (key) => byKey.has(key),
    put(key, record) {
      byKey.set(key, [...(byKey.get(key) ?? []), record]);
      events++;
      bytes += sizeOf(record);
      if (bytes > bytesMax)
        throw new StreamError(
          'AWAITING_LIMIT',
          `${events} events (${bytes} bytes) wait for the snapshot of their row`,
          'raise the limit of awaiting events, or let the snapshot run at a quieter time; nothing is lost meanwhile',
        );
    },
    holdBack() {
      const oldest = new Map<number, bigint>();
      for (const records of byKey.values())
        for (const { partition, offset } of records) {
          const known = oldest.get(partition);
          if (known === undefined || offset < known) oldest.set(partition, offset);
        }
      return oldest;
    },
    clone: () => createAwaiting(bytesMax, byKey),
  };
}

function sizeOf(record: RawRecord): number {
  return 128 + (record.key?.length ?? 0) + (record.value?.length ?? 0);
}
