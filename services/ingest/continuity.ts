/** Does the log still continue where the table stopped? Anything else stops the table by name (DESIGN invariant 8). */
import type { PartitionBounds } from '../log/log.ts';
import { StreamError } from '../stream/stream-error.ts';
import { logFingerprint } from './txn-ids.ts';
import type { CommittedPosition } from './txn-ids.ts';

export interface ContinuityInput {
  readonly topic: string;
  readonly bounds: ReadonlyMap<number, PartitionBounds>;
  /** Null: the table has no batch yet, and begins where the log begins. */
  readonly committed: CommittedPosition | null;
  readonly logId: string;
}

/** @throws StreamError TOPIC_RESET, OFFSETS_EXPIRED */
export function checkContinuity({ topic, bounds, committed, logId }: ContinuityInput): void {
  if (committed === null) {
    for (const [partition, { earliest }] of bounds) if (earliest > 0n) throw expired(topic, partition, 0n, earliest);
    return;
  }
  if (committed.logFingerprint !== logFingerprint(logId))
    throw reset(topic, 'another log stands where the table’s log stood');
  for (const [partition, next] of committed.nextOffsets) {
    const found = bounds.get(partition);
    if (found === undefined) throw reset(topic, `partition ${partition} is gone`);
    if (found.end < next) throw reset(topic, `partition ${partition} ends at ${found.end}, the table is at ${next}`);
    const from = committed.holdBack.get(partition) ?? next;
    if (found.earliest > from) throw expired(topic, partition, from, found.earliest);
  }
}

function reset(topic: string, what: string): StreamError {
  return new StreamError(
    'TOPIC_RESET',
    `topic ${topic}: ${what}`,
    'backfill the table: what the old log held and the lake lacks is known to the source only',
  );
}

function expired(topic: string, partition: number, from: bigint, earliest: bigint): StreamError {
  return new StreamError(
    'OFFSETS_EXPIRED',
    `topic ${topic}, partition ${partition}: offsets ${from} to ${earliest - 1n} were not read and are gone`,
    'backfill the table, and keep events longer than the longest pause (log.retention)',
  );
}
