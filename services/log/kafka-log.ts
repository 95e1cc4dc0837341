/**
 * ADAPTER of the event log port on Kafka (0.11 or later; tried on 4.1): transactions for atomic appends and fencing,
 * read_committed range reads without groups.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Admin } from 'kafkajs';
import { LogError, type EventLog, type LogAdmin, type LogReader, type LogWriter, type TopicSettings } from './log.ts';
import { connectKafka, withAdmin, type KafkaClient, type KafkaConnectionOptions } from './kafka-client.ts';
import { kafkaError } from './kafka-error.ts';
import { whileBusy } from './kafka-retry.ts';
import { joinKafkaGroup } from './kafka-group.ts';
import { createKafkaReader } from './kafka-reader.ts';
import { openKafkaWriter } from './kafka-writer.ts';

const IDENTITY_WAIT_MS = 30_000;
const NEW_TOPIC_WAIT_MS = 30_000;
const NEW_TOPIC_POLL_MS = 50;

export interface KafkaLogOptions extends KafkaConnectionOptions {
  /** The pipeline's name: `<name>.__log` holds the log's identity. */
  readonly name: string;
  /** Copies of `<name>.__log`. */
  readonly replicationFactor?: number;
  /** Largest record value; larger rows go by claim check. Keep it below the brokers' message.max.bytes. */
  readonly recordBytesMax?: number;
  /** How long an append or a range read waits for brokers that are away before it fails, ms. */
  readonly retryMsMax?: number;
  readonly transactionTimeoutMs?: number;
  readonly clock?: () => number;
}

/** @throws LogError UNAVAILABLE, AUTHENTICATION when no broker answers or the login fails */
export async function openKafkaLog(options: KafkaLogOptions): Promise<EventLog> {
  const retryMsMax = options.retryMsMax ?? 30_000;
  const reader = await createKafkaReader({ connection: options, retryMsMax });
  /** Those that are open: a reader opens one at every attempt. */
  const writers = new Set<LogWriter>();
  const closing = new AbortController();
  const openWriter = async (identity: string): Promise<LogWriter> => {
    const writer: LogWriter = await openKafkaWriter({
      connection: options,
      identity,
      clock: options.clock ?? Date.now,
      recordBytesMax: options.recordBytesMax ?? 950_000,
      retryMsMax,
      transactionTimeoutMs: options.transactionTimeoutMs ?? 60_000,
      signal: closing.signal,
      onClosed: () => void writers.delete(writer),
    });
    writers.add(writer);
    return writer;
  };
  const { admin, close } = createAdmin(options, reader, openWriter);
  return {
    reader,
    admin,
    writer: openWriter,
    join: (group) => joinKafkaGroup(options, group),
    async close() {
      closing.abort();
      await Promise.all([...writers].map((writer) => writer.close().catch(() => undefined)));
      await close();
      await reader.close();
    },
  };
}

function createAdmin(
  options: KafkaLogOptions,
  reader: LogReader,
  openWriter: (identity: string) => Promise<LogWriter>,
): { readonly admin: LogAdmin; readonly close: () => Promise<void> } {
  let client: Promise<KafkaClient> | null = null;
  let identity: Promise<string> | null = null;
  const asAdmin = async <T>(action: (admin: Admin) => Promise<T>): Promise<T> => {
    try {
      return await withAdmin(options, action);
    } catch (cause) {
      throw kafkaError(cause, options.brokers);
    }
  };
  const ensure = (topics: Readonly<Record<string, TopicSettings>>): Promise<void> =>
    asAdmin(async (admin) => {
      const known = new Set(await admin.listTopics());
      const absent = Object.entries(topics).filter(([topic]) => !known.has(topic));
      if (absent.length > 0) await createTopics(admin, absent);
    });
  /** A connection that is kept; one that failed is made anew by the next call. */
  const onClient = async <T>(action: (client: KafkaClient) => Promise<T>): Promise<T> => {
    client ??= connectKafka(options);
    const mine = client;
    try {
      return await action(await mine);
    } catch (error) {
      if (client === mine) client = null;
      await mine.then((open) => open.close()).catch(() => undefined);
      throw kafkaError(error, options.brokers);
    }
  };
  const admin: LogAdmin = {
    logId() {
      identity ??= readIdentity(options, reader, ensure, openWriter).catch((error: unknown) => {
        identity = null;
        throw error;
      });
      return identity;
    },
    topics: () => asAdmin((kafka) => kafka.listTopics()),
    async topicIds(topics) {
      if (topics.length === 0) return new Map();
      const ids = await onClient((open) => open.topicIds(topics));
      if (ids !== null) return ids;
      const known = new Set(await admin.topics());
      return new Map(topics.filter((topic) => known.has(topic)).map((topic) => [topic, null]));
    },
    ensureTopics: ensure,
    deleteTopics: (topics) =>
      asAdmin(async (kafka) => {
        const known = new Set(await kafka.listTopics());
        const present = topics.filter((topic) => known.has(topic));
        if (present.length > 0) await kafka.deleteTopics({ topics: present });
      }),
    releaseUpTo: () => Promise.resolve(),
    // The first commit of a group may have to wait for its coordinator; lag exporters can wait, so not for long.
    mirrorGroup: (group, topic, offsets) =>
      onClient((open) => whileBusy(5000, () => open.commitGroup(group, topic, offsets))),
    close: () => Promise.resolve(),
  };
  return {
    admin,
    async close() {
      if (client !== null) await client.then((open) => open.close()).catch(() => undefined);
    },
  };
}

async function createTopics(admin: Admin, topics: readonly (readonly [string, TopicSettings])[]): Promise<void> {
  try {
    await admin.createTopics({
      // Waited for below: the library gives up after a second, and a busy broker takes longer to serve what it has created.
      waitForLeaders: false,
      topics: topics.map(([topic, settings]) => ({
        topic,
        numPartitions: settings.partitions,
        replicationFactor: settings.replicationFactor,
        configEntries: [
          { name: 'cleanup.policy', value: settings.compacted ? 'compact' : 'delete' },
          ...(settings.compacted ? [] : [{ name: 'retention.ms', value: String(settings.retentionMs) }]),
        ],
      })),
    });
  } catch (error) {
    // Another process was quicker: what exists is never altered.
    const known = new Set(await admin.listTopics());
    if (!topics.every(([topic]) => known.has(topic))) throw error;
  }
  await led(
    admin,
    topics.map(([topic]) => topic),
  );
}

/** Until every partition of these topics has a leader. */
async function led(admin: Admin, topics: string[]): Promise<void> {
  const deadline = Date.now() + NEW_TOPIC_WAIT_MS;
  for (;;) {
    try {
      const found = (await admin.fetchTopicMetadata({ topics })).topics;
      if (
        found.length === topics.length &&
        found.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0))
      )
        return;
    } catch (error) {
      if (Date.now() >= deadline) throw error;
    }
    if (Date.now() >= deadline)
      throw new LogError('LOG_UNAVAILABLE', `no leader for the new topics ${topics.join(', ')}`);
    await sleep(NEW_TOPIC_POLL_MS);
  }
}

/**
 * The first record of `<name>.__log` is the log's identity: of two processes that write one at once, the first counts.
 * The topic is kept for ever, so another identity means that the cluster or the topics were made anew.
 */
async function readIdentity(
  options: KafkaLogOptions,
  reader: LogReader,
  ensure: (topics: Readonly<Record<string, TopicSettings>>) => Promise<void>,
  openWriter: (identity: string) => Promise<LogWriter>,
): Promise<string> {
  const topic = `${options.name}.__log`;
  const replicationFactor = options.replicationFactor ?? 1;
  await ensure({ [topic]: { partitions: 1, replicationFactor, retentionMs: -1, compacted: false } });
  const found = await firstValue(reader, topic);
  if (found !== null) return found;
  const writer = await openWriter(`${options.name}.__log`);
  try {
    const next = await writer.append([
      { topic, key: Buffer.from('logId'), value: Buffer.from(randomUUID()), header: null, partition: 0 },
    ]);
    const end = next.get(topic)?.get(0);
    if (end !== undefined) for await (const _ of reader.read(topic, 0, (end - 1n) as typeof end, end)) break;
  } catch (error) {
    // Fenced by another process that does the same: its record is the one.
    if (!(error instanceof LogError) || error.code !== 'LOG_FENCED') throw error;
  } finally {
    await writer.close();
  }
  // The process that fenced us may not have committed yet: reader and streams that start together on a new log meet here.
  const deadline = Date.now() + IDENTITY_WAIT_MS;
  let written = await firstValue(reader, topic);
  while (written === null && Date.now() < deadline) {
    await sleep(100);
    written = await firstValue(reader, topic);
  }
  if (written === null) throw new LogError('LOG_UNAVAILABLE', `topic ${topic} does not give back the log's identity`);
  return written;
}

async function firstValue(reader: LogReader, topic: string): Promise<string | null> {
  const bounds = (await whileNew(() => reader.bounds(topic))).get(0);
  if (bounds === undefined) return null;
  for await (const batch of reader.read(topic, 0, bounds.earliest, bounds.end)) {
    const value = batch.values[0];
    if (value != null) return value.toString();
  }
  return null;
}

/** A topic that another process has just created: brokers name it before they serve it. */
async function whileNew<T>(action: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + IDENTITY_WAIT_MS;
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof LogError) || error.code !== 'LOG_TOPIC_MISSING' || Date.now() >= deadline) throw error;
      await sleep(100);
    }
  }
}
