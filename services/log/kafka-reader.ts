/** Reading Kafka by ranges: plain fetches of committed records, no consumer group, nothing committed, no offset reset. */
import { setTimeout as delay } from 'node:timers/promises';
import { LogError, type LogBatch, type LogReader, type PartitionBounds } from './log.ts';
import type { LogOffset } from './position.ts';
import { addFetched } from './kafka-batch.ts';
import { connectKafka, type KafkaClient, type KafkaConnectionOptions } from './kafka-client.ts';
import type { FetchedRecords } from './kafka-protocol.ts';
import { brokerErrorType } from './kafka-error.ts';
import { buildBatch, createBatchBuilder } from './record-chunk.ts';

const BATCH_BYTES_MAX = 4 * 1024 * 1024;
const FOLLOW_WAIT_MS = 500;
const RANGE_WAIT_MS = 100;
/** How long a range waits for transactions below its end that are committed but not yet marked so in the partition. */
const UNSTABLE_MS_MAX = 60_000;
const NEW_LEADER_MS_MAX = 5000;
const NEW_TOPIC_ATTEMPTS = 50;
const EARLIEST = -2;
const LAST_STABLE = -1;

export interface KafkaReaderOptions {
  readonly connection: KafkaConnectionOptions;
  /** How long a range read waits for brokers that are away, ms; following waits for ever. */
  readonly retryMsMax: number;
}

interface Lane {
  readonly client: KafkaClient;
  readonly topic: string;
  readonly partition: number;
  leader: number | null;
}

export async function createKafkaReader(options: KafkaReaderOptions): Promise<LogReader> {
  const client = await connectKafka(options.connection);
  return {
    read: (topic, partition, from, to, readOptions) =>
      readRange(
        { client, topic, partition, leader: null },
        options,
        from,
        to,
        readOptions?.batchBytesMax ?? BATCH_BYTES_MAX,
        readOptions?.signal,
      ),
    follow: (topic, partition, from, { signal, batchBytesMax }) =>
      follow(options, topic, partition, from, batchBytesMax ?? BATCH_BYTES_MAX, signal),
    async bounds(topic, how) {
      // It fails as a whole when one of all topics is gone: that is for the topic's own readers to say.
      if (how?.fresh === true) await client.refresh().catch(() => undefined);
      return boundsOf(client, topic);
    },
    offsetsAt: (topic, timestampMs) => offsetsAt(client, topic, timestampMs),
    close: () => client.close(),
  };
}

const STALE = new Set([
  'NOT_LEADER_FOR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'REPLICA_NOT_AVAILABLE',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
]);

/** One fetch; a moved leader or a broker that is away is waited out up to `retryMsMax`. */
async function fetchAt(
  lane: Lane,
  offset: bigint,
  bytesMax: number,
  waitMsMax: number,
  retryMsMax: number,
  signal: AbortSignal | undefined,
): Promise<FetchedRecords> {
  let waitedMs = 0;
  for (let attempt = 0; ; attempt++) {
    try {
      lane.leader ??= await leaderOf(lane);
      return await lane.client.fetch(lane.leader, {
        topic: lane.topic,
        partition: lane.partition,
        offset,
        bytesMax,
        waitMsMax,
      });
    } catch (error) {
      signal?.throwIfAborted();
      const away = error instanceof LogError && (error.retriable || STALE.has(brokerErrorType(error.cause)));
      if (!away || waitedMs >= retryMsMax) throw named(lane, error, offset);
      const pauseMs = Math.min(50 * 2 ** attempt, 1000);
      await delay(pauseMs);
      waitedMs += pauseMs;
      lane.leader = null;
      await lane.client.refresh().catch(() => undefined);
    }
  }
}

async function leaderOf(lane: Lane): Promise<number> {
  const { client, topic, partition } = lane;
  const leader = (await client.leaders(topic))[partition];
  if (leader !== undefined) return leader;
  // The topic has more partitions than when this client last asked.
  await client.refresh().catch(() => undefined);
  const newer = (await client.leaders(topic))[partition];
  if (newer !== undefined) return newer;
  throw new LogError('LOG_TOPIC_MISSING', `topic ${lane.topic} has no partition ${lane.partition}`);
}

function named(lane: Lane, error: unknown, offset: bigint): unknown {
  if (!(error instanceof LogError)) return error;
  if (error.code !== 'LOG_OFFSET_OUT_OF_RANGE' && error.code !== 'LOG_CORRUPT') return error;
  const what = error.code === 'LOG_CORRUPT' ? error.message : `does not hold offset ${offset}`;
  return new LogError(error.code, `${lane.topic}[${lane.partition}]: ${what}`, { cause: error, retriable: false });
}

async function* readRange(
  lane: Lane,
  options: KafkaReaderOptions,
  from: LogOffset,
  to: LogOffset,
  batchBytesMax: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<LogBatch, void, undefined> {
  const { topic, partition } = lane;
  let at: bigint = from;
  let unstableMs = 0;
  while (at < to) {
    signal?.throwIfAborted();
    const fetched = await fetchAt(lane, at, batchBytesMax, RANGE_WAIT_MS, options.retryMsMax, signal);
    // A leader that was just elected may not know yet how far its predecessor was.
    if (to > fetched.highWatermark && (unstableMs += RANGE_WAIT_MS) > NEW_LEADER_MS_MAX) {
      throw new LogError(
        'LOG_OFFSET_OUT_OF_RANGE',
        `${topic}[${partition}] holds offsets ${fetched.logStartOffset} to ${fetched.highWatermark}, not all of ${from} to ${to}`,
      );
    }
    const batch = createBatchBuilder();
    const next = decode(lane, batch, fetched, at, to);
    if (next === at) {
      // Nothing whole came: the end of what is stable, or the marker of a transaction on its way.
      unstableMs += RANGE_WAIT_MS;
      if (fetched.highWatermark > at) await delay(RANGE_WAIT_MS);
      if (unstableMs > UNSTABLE_MS_MAX) {
        throw new LogError('LOG_UNAVAILABLE', `${topic}[${partition}]: a transaction below offset ${to} stays open`);
      }
      continue;
    }
    unstableMs = 0;
    at = next;
    if (batch.offsets.length > 0) yield buildBatch(batch, topic, partition, (at < to ? at : to) as LogOffset);
  }
}

function decode(
  lane: Lane,
  batch: ReturnType<typeof createBatchBuilder>,
  fetched: FetchedRecords,
  from: bigint,
  to: bigint,
): bigint {
  try {
    return addFetched(batch, fetched.records, fetched.aborted, from, to);
  } catch (error) {
    throw named(lane, error, from);
  }
}

const FOR_EVER = 0x7fff_ffff_ffff_ffffn;

/** A connection of its own: a fetch that waits for news holds up every other fetch on its connection. */
async function* follow(
  options: KafkaReaderOptions,
  topic: string,
  partition: number,
  from: LogOffset,
  batchBytesMax: number,
  signal: AbortSignal,
): AsyncGenerator<LogBatch, void, undefined> {
  if (signal.aborted) return;
  const client = await connectKafka(options.connection);
  const lane: Lane = { client, topic, partition, leader: null };
  try {
    let at: bigint = from;
    for (;;) {
      const fetched = await fetchUntil(lane, at, batchBytesMax, signal);
      if (fetched === null) return;
      const batch = createBatchBuilder();
      at = decode(lane, batch, fetched, at, FOR_EVER);
      if (batch.offsets.length > 0) yield buildBatch(batch, topic, partition, at as LogOffset);
    }
  } finally {
    await client.close().catch(() => undefined);
  }
}

/** Null when the signal came. */
async function fetchUntil(
  lane: Lane,
  at: bigint,
  batchBytesMax: number,
  signal: AbortSignal,
): Promise<FetchedRecords | null> {
  try {
    const fetched = await fetchAt(lane, at, batchBytesMax, FOLLOW_WAIT_MS, Number.MAX_SAFE_INTEGER, signal);
    return signal.aborted ? null : fetched;
  } catch (error) {
    if (signal.aborted) return null;
    throw error;
  }
}

async function listOffsets(client: KafkaClient, topic: string, timestampMs: number): Promise<Map<number, bigint>> {
  for (let attempt = 0; ; attempt++) {
    let named = false;
    try {
      const byLeader = new Map<number, number[]>();
      const leaders = await client.leaders(topic);
      named = true;
      leaders.forEach((leader, partition) => {
        const list = byLeader.get(leader);
        if (list === undefined) byLeader.set(leader, [partition]);
        else list.push(partition);
      });
      const found = new Map<number, bigint>();
      for (const [leader, partitions] of byLeader) {
        for (const [partition, offset] of await client.offsets(topic, leader, partitions, timestampMs)) {
          found.set(partition, offset);
        }
      }
      return new Map([...found].sort(([a], [b]) => a - b));
    } catch (error) {
      const type = error instanceof LogError ? brokerErrorType(error.cause) : '';
      // A topic that was just created has a leader in the metadata before that leader serves it.
      const young = named && type === 'UNKNOWN_TOPIC_OR_PARTITION';
      if (!(STALE.has(type) || young) || attempt >= NEW_TOPIC_ATTEMPTS) throw error;
      await delay(100);
      await client.refresh();
    }
  }
}

async function boundsOf(client: KafkaClient, topic: string): Promise<Map<number, PartitionBounds>> {
  const earliest = await listOffsets(client, topic, EARLIEST);
  const end = await listOffsets(client, topic, LAST_STABLE);
  const bounds = new Map<number, PartitionBounds>();
  for (const [partition, first] of earliest) {
    bounds.set(partition, { earliest: first as LogOffset, end: (end.get(partition) ?? first) as LogOffset });
  }
  return bounds;
}

async function offsetsAt(client: KafkaClient, topic: string, timestampMs: number): Promise<Map<number, LogOffset>> {
  const found = await listOffsets(client, topic, timestampMs);
  const end = await listOffsets(client, topic, LAST_STABLE);
  const offsets = new Map<number, LogOffset>();
  for (const [partition, offset] of found) {
    const last = end.get(partition) ?? 0n;
    offsets.set(partition, (offset < 0n || offset > last ? last : offset) as LogOffset);
  }
  return offsets;
}
