/** Does the log still continue where the table stopped? Anything else stops the table by name (DESIGN invariant 8). */
import type { PartitionBounds } from '../log/log.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { logFingerprint } from './txn-ids.ts';
import type { CommittedPosition } from './txn-ids.ts';

export interface ContinuityInput {
  readonly topic: string;
  readonly bounds: ReadonlyMap<number, PartitionBounds>;
  /** Null: the table has no batch yet, and begins where the log begins. */
  readonly committed: CommittedPosition | null;
  readonly logId: string;
  /** The topic's identity now; null = the log does not tell, undefined = there is no such topic. */
  readonly topicId: string | null | undefined;
}

/** What the log lost and the lake lacks is known to the source only. */
const REREAD = 'run `sluice repair` on the table: it is read again whole, and goes on behind that';

/** @throws StreamError TOPIC_RESET, OFFSETS_EXPIRED */
export function checkContinuity({ topic, bounds, committed, logId, topicId }: ContinuityInput): void {
  if (committed === null) {
    for (const [partition, { earliest }] of bounds) if (earliest > 0n) throw expired(topic, partition, 0n, earliest);
    return;
  }
  if (committed.logFingerprint !== logFingerprint(logId))
    throw reset(topic, 'another log stands where the table’s log stood');
  if (topicId === undefined) throw reset(topic, 'it is gone');
  if (topicId !== null && committed.topicFingerprint !== null && committed.topicFingerprint !== logFingerprint(topicId))
    throw reset(topic, 'it was deleted and made again');
  for (const [partition, next] of committed.nextOffsets) {
    const found = bounds.get(partition);
    if (found === undefined) throw reset(topic, `partition ${partition} is gone`);
    if (found.end < next) throw reset(topic, `partition ${partition} ends at ${found.end}, the table is at ${next}`);
    const from = committed.holdBack.get(partition) ?? next;
    if (found.earliest > from) throw expired(topic, partition, from, found.earliest);
  }
}

/**
 * A table with rows that this pipeline never wrote: merging into it would leave whatever the source does not have.
 * @throws StreamError LAKE_TABLE_FOREIGN
 */
export function refuseForeignTable(snapshot: Snapshot, table: string, name: string): void {
  if (snapshot.files.count === 0) return;
  throw new StreamError(
    'LAKE_TABLE_FOREIGN',
    `the lake has a table ${table} with ${snapshot.files.count} files that pipeline '${name}' did not write`,
    `\`sluice repair ${table}\` reads the table again whole in its place`,
  );
}

export function reset(topic: string, what: string): StreamError {
  return new StreamError('TOPIC_RESET', `topic ${topic}: ${what}`, REREAD);
}

function expired(topic: string, partition: number, from: bigint, earliest: bigint): StreamError {
  return new StreamError(
    'OFFSETS_EXPIRED',
    `topic ${topic}, partition ${partition}: offsets ${from} to ${earliest - 1n} were not read and are gone`,
    `${REREAD}; keep events longer than the longest pause (log.retention)`,
  );
}
