/**
 * Appending to Kafka: one transaction an append. The transactional id is the writer's identity, so taking it over fences
 * every older writer of it at the brokers.
 *
 * Sequence of an append, and what a failure at each step means:
 *   add partitions, produce data, build and produce controls   → nothing is visible: aborted, and tried again for a while
 *   end the transaction (commit)                                → repeatable as it is; when no answer comes at all, the
 *                                                                 outcome is unknown and this writer is done for: a new one
 *                                                                 settles the transaction and its reader sees what is there
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LogError, type LogWriter, type NextOffsets, type OutgoingRecord } from './log.ts';
import type { LogOffset } from './position.ts';
import { batchRecordBytes, encodeRecordBatch, type ProducerStamp } from './kafka-batch.ts';
import { connectKafka, type KafkaClient, type KafkaConnectionOptions } from './kafka-client.ts';
import type { ProducedBatch } from './kafka-protocol.ts';
import { brokerErrorType } from './kafka-error.ts';
import { whileBusy } from './kafka-retry.ts';
import { partitionOf } from './partition.ts';

export interface KafkaWriterOptions {
  readonly connection: KafkaConnectionOptions;
  readonly identity: string;
  readonly clock: () => number;
  /** Largest record value. Brokers take batches of 1,048,588 bytes by default (message.max.bytes). */
  readonly recordBytesMax: number;
  /** How long an append is tried while brokers are away, ms. */
  readonly retryMsMax: number;
  readonly transactionTimeoutMs: number;
  /** Aborted when the log is closed: no broker is waited for any more. */
  readonly signal: AbortSignal;
  readonly onClosed: () => void;
}

/** Batches close at this size; a larger record stands alone in its batch. */
const BATCH_BYTES_MAX = 900_000;
/** Batches of one request; several partitions go together. */
const REQUEST_BYTES_MAX = 4 * 1024 * 1024;
/** Kafka keeps the order of an idempotent producer's batches with up to five requests under way. */
const REQUESTS_IN_FLIGHT_MAX = 5;
const GROWTH_LOOK_MS = 10_000;

interface WriterState {
  readonly client: KafkaClient;
  readonly options: KafkaWriterOptions;
  readonly leaders: Map<string, readonly number[]>;
  /** When it was last looked whether a topic has more partitions by now, ms. */
  lookedMs: number;
  /** Partitions of control records of the last append: added to the next transaction in the first request. */
  readonly controlPartitions: Map<string, readonly number[]>;
  stamp: ProducerStamp;
  sequences: Map<string, number>;
  /** Partitions in the open transaction. */
  added: Set<string>;
  /** The last transaction failed: it has to be settled before the next. */
  unsettled: boolean;
  /** Aborted by `close`: what waits for a broker that is away gives up. */
  readonly closing: AbortController;
  /** Why this writer can append no more. */
  dead: LogError | null;
}

export async function openKafkaWriter(options: KafkaWriterOptions): Promise<LogWriter> {
  const client = await connectKafka(options.connection);
  let stamp: ProducerStamp;
  try {
    stamp = await whileBusy(
      options.retryMsMax,
      () => client.initProducer(options.identity, options.transactionTimeoutMs, null),
      options.signal,
    );
  } catch (error) {
    await client.close().catch(() => undefined);
    throw error;
  }
  const state: WriterState = {
    client,
    options,
    leaders: new Map(),
    lookedMs: options.clock(),
    controlPartitions: new Map(),
    stamp,
    sequences: new Map(),
    added: new Set(),
    unsettled: false,
    closing: new AbortController(),
    dead: null,
  };
  const onClosing = (): void => state.closing.abort();
  options.signal.addEventListener('abort', onClosing, { once: true });
  if (options.signal.aborted) onClosing();
  let last: Promise<unknown> = Promise.resolve();
  return {
    recordBytesMax: options.recordBytesMax,
    partitionsOf: (topic) => state.leaders.get(topic)?.length ?? null,
    append(records, controls) {
      const result = last.then(() => append(state, records, controls));
      last = result.catch(() => undefined);
      return result;
    },
    async close() {
      options.signal.removeEventListener('abort', onClosing);
      state.closing.abort();
      await last;
      state.dead ??= new LogError('LOG_UNAVAILABLE', 'the writer is closed', { retriable: false });
      await client.close();
      options.onClosed();
    },
  };
}

async function append(
  state: WriterState,
  records: readonly OutgoingRecord[],
  controls: ((next: NextOffsets) => readonly OutgoingRecord[]) | undefined,
): Promise<NextOffsets> {
  for (const record of records) checkSize(state, record);
  const { retryMsMax } = state.options;
  let waitedMs = 0;
  for (let attempt = 0; ; attempt++) {
    if (state.dead !== null) throw state.dead;
    try {
      if (state.unsettled) await settle(state);
      return await transact(state, records, controls);
    } catch (error) {
      state.unsettled = true;
      if (error instanceof LogError && error.code === 'LOG_FENCED') state.dead = error;
      const again = error instanceof LogError && (error.retriable || isMoved(error)) && state.dead === null;
      if (!again || waitedMs >= retryMsMax || state.closing.signal.aborted) throw error;
      const pauseMs = Math.min(50 * 2 ** attempt, 2000);
      await pause(state, pauseMs);
      waitedMs += pauseMs;
      state.leaders.clear();
      await state.client.refresh().catch(() => undefined);
    }
  }
}

async function pause({ closing }: WriterState, ms: number): Promise<void> {
  await delay(ms, undefined, { signal: closing.signal }).catch(() => undefined);
}

/** Leaders and coordinators that moved or are not up yet; names as the client gives them. */
const MOVED = new Set([
  'NOT_LEADER_FOR_PARTITION',
  'LEADER_NOT_AVAILABLE',
  'NOT_COORDINATOR_FOR_GROUP',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'GROUP_LOAD_IN_PROGRESS',
]);

function isMoved(error: LogError): boolean {
  return MOVED.has(brokerErrorType(error.cause));
}

/**
 * Aborts what is open and raises our own epoch, from which sequences start anew. The broker refuses this to a writer that
 * was overtaken, so it can never take back what it lost (KIP-360).
 */
async function settle(state: WriterState): Promise<void> {
  const { client, options } = state;
  state.stamp = await whileBusy(
    options.retryMsMax,
    () => client.initProducer(options.identity, options.transactionTimeoutMs, state.stamp),
    state.closing.signal,
  );
  state.sequences = new Map();
  state.added = new Set();
  state.unsettled = false;
}

async function transact(
  state: WriterState,
  records: readonly OutgoingRecord[],
  controls: ((next: NextOffsets) => readonly OutgoingRecord[]) | undefined,
): Promise<NextOffsets> {
  const { client, options } = state;
  await lookForGrowth(state);
  const lanes = await layOut(state, records);
  if (lanes.length === 0 && controls === undefined) return new Map();
  await addPartitions(state, lanes, controls === undefined ? new Map() : state.controlPartitions);
  const next: NextOffsets = new Map();
  await produceLanes(state, lanes, next);
  if (controls !== undefined) {
    const extra = controls(next);
    for (const record of extra) checkSize(state, record);
    const controlLanes = await layOut(state, extra);
    state.controlPartitions.clear();
    for (const [topic, partitions] of partitionsOf(controlLanes)) state.controlPartitions.set(topic, partitions);
    await addPartitions(state, controlLanes, new Map());
    await produceLanes(state, controlLanes, next);
  }
  if (state.added.size === 0) return next;
  await commit(state, options.retryMsMax);
  state.added = new Set();
  return next;

  async function commit(writer: WriterState, limitMs: number): Promise<void> {
    let waitedMs = 0;
    for (let attempt = 0; ; attempt++) {
      try {
        await client.endTransaction(options.identity, writer.stamp, true);
        return;
      } catch (error) {
        const known = error instanceof LogError && !error.retriable;
        if (known && !isMoved(error)) throw error;
        if (waitedMs >= limitMs || state.closing.signal.aborted) {
          writer.dead = new LogError(
            'LOG_UNAVAILABLE',
            'a commit got no answer, so its outcome is unknown; open a new writer and read the state back before appending again',
            { cause: error },
          );
          throw writer.dead;
        }
        const pauseMs = Math.min(20 * 2 ** attempt, 1000);
        await pause(state, pauseMs);
        waitedMs += pauseMs;
      }
    }
  }
}

/** A topic that somebody gave more partitions uses them from the next append on: never within one. */
async function lookForGrowth(state: WriterState): Promise<void> {
  const now = state.options.clock();
  if (now - state.lookedMs < GROWTH_LOOK_MS) return;
  state.lookedMs = now;
  await state.client.refresh().catch(() => undefined);
  state.leaders.clear();
}

interface Lane {
  readonly topic: string;
  readonly partition: number;
  readonly leader: number;
  readonly records: OutgoingRecord[];
}

async function layOut(state: WriterState, records: readonly OutgoingRecord[]): Promise<Lane[]> {
  const topics = new Map<string, (Lane | undefined)[]>();
  for (const record of records) {
    let leaders = state.leaders.get(record.topic);
    if (leaders === undefined) {
      leaders = await state.client.leaders(record.topic);
      state.leaders.set(record.topic, leaders);
    }
    let lanes = topics.get(record.topic);
    if (lanes === undefined) {
      lanes = [];
      topics.set(record.topic, lanes);
    }
    const partition = record.partition ?? partitionOf(record.key, leaders.length);
    const lane = lanes[partition];
    if (lane !== undefined) {
      lane.records.push(record);
      continue;
    }
    const leader = leaders[partition];
    if (leader === undefined) {
      throw new LogError(
        'LOG_TOPIC_MISSING',
        `topic ${record.topic} has no partition ${partition}, only ${leaders.length}`,
      );
    }
    lanes[partition] = { topic: record.topic, partition, leader, records: [record] };
  }
  return [...topics.values()].flatMap((lanes) => lanes.filter((lane) => lane !== undefined));
}

function partitionsOf(lanes: readonly Lane[]): Map<string, number[]> {
  const topics = new Map<string, number[]>();
  for (const { topic, partition } of lanes) {
    const list = topics.get(topic);
    if (list === undefined) topics.set(topic, [partition]);
    else list.push(partition);
  }
  return topics;
}

async function addPartitions(
  state: WriterState,
  lanes: readonly Lane[],
  expected: ReadonlyMap<string, readonly number[]>,
): Promise<void> {
  const wanted = new Map<string, number[]>();
  for (const topics of [partitionsOf(lanes), expected]) {
    for (const [topic, partitions] of topics) {
      for (const partition of partitions) {
        const name = `${topic}/${partition}`;
        if (state.added.has(name)) continue;
        state.added.add(name);
        wanted.set(topic, [...(wanted.get(topic) ?? []), partition]);
      }
    }
  }
  if (wanted.size === 0) return;
  const { client, options } = state;
  await whileBusy(
    options.retryMsMax,
    () => client.addPartitions(options.identity, state.stamp, wanted),
    state.closing.signal,
  );
}

interface Request {
  readonly leader: number;
  readonly batches: { readonly lane: Lane; readonly bytes: Buffer; readonly count: number }[];
}

/** Encodes and sends; up to five requests are under way while the next is encoded. Fills in the next offsets. */
async function produceLanes(state: WriterState, lanes: readonly Lane[], next: NextOffsets): Promise<void> {
  const flying = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | null = null;
  const send = (request: Request): void => {
    const sent = sendRequest(state, request, next)
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => flying.delete(sent));
    flying.add(sent);
  };
  for (const request of requests(state, lanes)) {
    if (failure !== null) break;
    send(request);
    if (flying.size >= REQUESTS_IN_FLIGHT_MAX) await Promise.race(flying);
  }
  await Promise.all(flying);
  const failed = failure as { readonly error: unknown } | null;
  if (failed !== null) throw failed.error;
}

/** Requests in sending order: each has at most one batch a partition, as the protocol wants. */
function* requests(state: WriterState, lanes: readonly Lane[]): Generator<Request, void, undefined> {
  const timestampMs = state.options.clock();
  const at = new Map<Lane, number>(lanes.map((lane) => [lane, 0]));
  while (at.size > 0) {
    const open = new Map<number, { request: Request; bytes: number }>();
    for (const [lane, from] of at) {
      const to = batchEnd(lane.records, from);
      const name = `${lane.topic}/${lane.partition}`;
      const sequence = state.sequences.get(name) ?? 0;
      const bytes = encodeRecordBatch(lane.records, from, to, state.stamp, sequence, timestampMs);
      state.sequences.set(name, (sequence + to - from) % 0x8000_0000);
      if (to === lane.records.length) at.delete(lane);
      else at.set(lane, to);
      const under = open.get(lane.leader) ?? { request: { leader: lane.leader, batches: [] }, bytes: 0 };
      open.set(lane.leader, under);
      under.request.batches.push({ lane, bytes, count: to - from });
      under.bytes += bytes.length;
      if (under.bytes < REQUEST_BYTES_MAX) continue;
      yield under.request;
      open.delete(lane.leader);
    }
    for (const { request } of open.values()) yield request;
  }
}

function batchEnd(records: readonly OutgoingRecord[], from: number): number {
  let bytes = 0;
  let to = from;
  for (; to < records.length; to++) {
    bytes += batchRecordBytes(records[to] as OutgoingRecord);
    if (bytes > BATCH_BYTES_MAX && to > from) break;
  }
  return to;
}

async function sendRequest(state: WriterState, request: Request, next: NextOffsets): Promise<void> {
  const { client, options } = state;
  const produced = await client.produce(request.leader, {
    transactionalId: options.identity,
    timeoutMs: 30_000,
    batches: request.batches.map(({ lane, bytes }) => ({ topic: lane.topic, partition: lane.partition, bytes })),
  });
  for (const { lane, count } of request.batches) {
    const answer = produced.find((one: ProducedBatch) => one.topic === lane.topic && one.partition === lane.partition);
    if (answer === undefined) throw new LogError('LOG_UNAVAILABLE', `no answer for ${lane.topic}[${lane.partition}]`);
    const partitions = next.get(lane.topic) ?? new Map<number, LogOffset>();
    const end = (answer.baseOffset + BigInt(count)) as LogOffset;
    if (end > (partitions.get(lane.partition) ?? -1n)) partitions.set(lane.partition, end);
    next.set(lane.topic, partitions);
  }
}

function checkSize(state: WriterState, record: OutgoingRecord): void {
  const { recordBytesMax } = state.options;
  if (record.value === null || record.value.length <= recordBytesMax) return;
  throw new LogError(
    'LOG_RECORD_TOO_LARGE',
    `a record of ${record.value.length} bytes for ${record.topic} is larger than the log's ${recordBytesMax}; it goes by claim check`,
  );
}
