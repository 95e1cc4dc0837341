/** Which topic a table's offsets are of, and whether it is still that one. */
import { LogError, type LogAdmin, type LogReader, type PartitionBounds } from '../log/log.ts';
import { namedLogError } from './batch-builder.ts';
import { checkContinuity } from './continuity.ts';
import { logFingerprint } from './txn-ids.ts';
import type { CommittedPosition, StreamPosition, TopicIdentity } from './txn-ids.ts';

export interface TopicWatch {
  /** @throws StreamError TOPIC_RESET where there is no such topic */
  readonly bounds: () => Promise<ReadonlyMap<number, PartitionBounds>>;
  /** The topic that `take` found last. */
  readonly identity: () => TopicIdentity;
  /** Takes the topic as it is now. */
  take(): Promise<void>;
  /**
   * Takes it if it continues what the table has; `bounds` were asked for before the table was read.
   * @throws StreamError TOPIC_RESET, OFFSETS_EXPIRED
   */
  takeFor(stood: CommittedPosition | null, bounds: ReadonlyMap<number, PartitionBounds>): Promise<void>;
  /** Whether it still is the topic that was taken, and holds what comes next, where the table stands by then. @throws StreamError */
  check(at: () => StreamPosition | null): Promise<void>;
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
    async bounds() {
      try {
        return await reader.bounds(topic, { fresh: true });
      } catch (error) {
        // Of a new topic brokers tell one after the other; gone is what no broker knows.
        const gone = error instanceof LogError && error.code === 'LOG_TOPIC_MISSING' && (await now()) === undefined;
        throw gone ? namedLogError(error, topic) : error;
      }
    },
    identity: () => ({ logId, topicId: known }),
    async take() {
      known = (await now()) ?? null;
    },
    async takeFor(stood, bounds) {
      const topicId = await now();
      const seen = stood === null || covers(bounds, stood) ? bounds : withEnds(bounds, await reader.bounds(topic));
      checkContinuity({ topic, bounds: seen, committed: stood, logId, topicId });
      known = topicId ?? null;
    },
    async check(at) {
      for (;;) {
        const [stood, taken] = [at(), known];
        if (stood === null) return;
        const topicFingerprint = taken === null ? null : logFingerprint(taken);
        const committed = { ...stood, batchId: 0n, logFingerprint: logFingerprint(logId), topicFingerprint };
        const topicId = await now();
        const bounds = topicId === undefined ? new Map<number, PartitionBounds>() : await knownBounds(stood);
        try {
          checkContinuity({ topic, bounds, committed, logId, topicId });
          return;
        } catch (error) {
          // A table that moved on while the log answered is looked at again, where it stands now.
          if (at() === stood && known === taken) throw error;
        }
      }
    },
  };
}

function covers(bounds: ReadonlyMap<number, PartitionBounds>, { nextOffsets }: StreamPosition): boolean {
  for (const [partition, next] of nextOffsets) if ((bounds.get(partition)?.end ?? next) < next) return false;
  return true;
}

/** What came since they were asked for, another owner may have committed. */
function withEnds(
  bounds: ReadonlyMap<number, PartitionBounds>,
  now: ReadonlyMap<number, PartitionBounds>,
): ReadonlyMap<number, PartitionBounds> {
  return new Map(
    [...bounds].map(([partition, { earliest, end }]) => [partition, { earliest, end: now.get(partition)?.end ?? end }]),
  );
}
