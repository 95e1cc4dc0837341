/** Which topic a table's offsets are of, and whether it is still that one. */
import type { LogAdmin, LogReader, PartitionBounds } from '../log/log.ts';
import { checkContinuity } from './continuity.ts';
import { logFingerprint } from './txn-ids.ts';
import type { CommittedPosition, StreamPosition, TopicIdentity } from './txn-ids.ts';

export interface TopicWatch {
  readonly bounds: () => Promise<ReadonlyMap<number, PartitionBounds>>;
  /** The topic that `take` found last. */
  readonly identity: () => TopicIdentity;
  /** Takes the topic as it is now. */
  take(): Promise<void>;
  /** Takes it if it continues what the table has. @throws StreamError TOPIC_RESET, OFFSETS_EXPIRED */
  takeFor(stood: CommittedPosition | null, bounds: ReadonlyMap<number, PartitionBounds>): Promise<void>;
  /** Whether it still is the topic that was taken, and holds what comes next. @throws StreamError */
  check(at: StreamPosition): Promise<void>;
}

export function createTopicWatch(
  topic: string,
  log: { readonly logId: string; readonly reader: LogReader; readonly topicIds: LogAdmin['topicIds'] },
): TopicWatch {
  const { logId, reader } = log;
  let known: string | null = null;
  /** Undefined: there is no such topic. */
  const now = async (): Promise<string | null | undefined> => (await log.topicIds([topic])).get(topic);

  /** Asked anew when a partition that we have read is missing in them. */
  async function knownBounds({ nextOffsets }: StreamPosition): Promise<ReadonlyMap<number, PartitionBounds>> {
    const bounds = await reader.bounds(topic);
    for (const partition of nextOffsets.keys())
      if (!bounds.has(partition)) return reader.bounds(topic, { fresh: true });
    return bounds;
  }

  return {
    bounds: () => reader.bounds(topic, { fresh: true }),
    identity: () => ({ logId, topicId: known }),
    async take() {
      known = (await now()) ?? null;
    },
    async takeFor(stood, bounds) {
      const topicId = await now();
      checkContinuity({ topic, bounds, committed: stood, logId, topicId });
      known = topicId ?? null;
    },
    async check(at) {
      const topicFingerprint = known === null ? null : logFingerprint(known);
      const committed = { ...at, batchId: 0n, logFingerprint: logFingerprint(logId), topicFingerprint };
      const topicId = await now();
      const bounds = topicId === undefined ? new Map<number, PartitionBounds>() : await knownBounds(at);
      checkContinuity({ topic, bounds, committed, logId, topicId });
    },
  };
}
