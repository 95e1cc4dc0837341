/**
 * Appending and reading of the event logs, in one run: the embedded log on this disk, Kafka where brokers are given, and
 * kafkajs's own transactional producer and consumer beside ours on the same brokers. `sluice bench log` prints what this
 * returns; run alone it starts a Kafka of its own when Java and Maven are there, and prints the table itself.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Kafka, logLevel } from 'kafkajs';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import type { EventLog, OutgoingRecord } from '../../services/log/log.ts';
import { startKafka } from '../local/kafka.ts';

export interface LogBenchOptions {
  /** Records an append; default 5,000. */
  readonly recordsPerAppend?: number;
  /** Appends a log; default 40. */
  readonly appends?: number;
  /** Bytes of a record's value; default 665, as an envelope of ten columns has. */
  readonly valueBytes?: number;
  /** Kafka to measure; none: the embedded log only. */
  readonly brokers?: readonly string[];
}

export interface LogBenchRow {
  readonly log: 'embedded' | 'kafka' | 'kafkajs';
  readonly recordsPerAppend: number;
  readonly valueBytes: number;
  readonly appendRecordsPerSecond: number;
  readonly appendMs: number;
  readonly readRecordsPerSecond: number;
  readonly rssBytes: number;
}

const settings = { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false };

export async function benchLog(options: LogBenchOptions = {}): Promise<LogBenchRow[]> {
  const rows: LogBenchRow[] = [];
  const directory = mkdtempSync(join(tmpdir(), 'sluice-bench-log-'));
  try {
    const log = await openEmbeddedLog({ directory });
    rows.push(await measure('embedded', log, 'bench', options));
    await log.close();
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  if (options.brokers === undefined) return rows;
  const name = `bench${process.pid}`;
  const log = await openKafkaLog({ name, brokers: options.brokers });
  try {
    rows.push(await measure('kafka', log, name, options));
    rows.push(await benchKafkajs(options.brokers, `${name}.client`, options, log));
    await log.admin.deleteTopics([`${name}.data`, `${name}.marks`, `${name}.client`]);
  } finally {
    await log.close();
  }
  return rows;
}

function sizes(options: LogBenchOptions): { count: number; appends: number; valueBytes: number } {
  return {
    count: options.recordsPerAppend ?? 5000,
    appends: options.appends ?? 40,
    valueBytes: options.valueBytes ?? 665,
  };
}

async function measure(
  kind: 'embedded' | 'kafka',
  log: EventLog,
  name: string,
  options: LogBenchOptions,
): Promise<LogBenchRow> {
  const { count, appends, valueBytes } = sizes(options);
  const topic = `${name}.data`;
  await log.admin.ensureTopics({ [topic]: settings, [`${name}.marks`]: settings });
  const writer = await log.writer(`${name}-writer`);
  const records: OutgoingRecord[] = Array.from({ length: count }, (_, i) => ({
    topic,
    key: Buffer.from(`{"id":${i}}`),
    value: Buffer.alloc(valueBytes, 0x61),
    header: Buffer.alloc(32),
  }));
  const mark: OutgoingRecord = { topic: `${name}.marks`, key: null, value: Buffer.from('{}'), header: null };
  await writer.append(records.slice(0, 100), () => [mark]);
  let end = 0n;
  const began = performance.now();
  for (let i = 0; i < appends; i++) end = (await writer.append(records, () => [mark])).get(topic)?.get(0) ?? end;
  const appendMs = performance.now() - began;

  const readBegan = performance.now();
  let read = 0;
  for await (const batch of log.reader.read(topic, 0, 0n as never, end as never)) read += batch.offsets.length;
  const readMs = performance.now() - readBegan;
  await writer.close();
  return row(kind, options, appendMs, read, readMs);
}

function row(
  log: LogBenchRow['log'],
  options: LogBenchOptions,
  appendMs: number,
  read: number,
  readMs: number,
): LogBenchRow {
  const { count, appends, valueBytes } = sizes(options);
  return {
    log,
    recordsPerAppend: count,
    valueBytes,
    appendRecordsPerSecond: Math.round((count * appends * 1000) / appendMs),
    appendMs: Number((appendMs / appends).toFixed(2)),
    readRecordsPerSecond: Math.round((read * 1000) / readMs),
    rssBytes: process.memoryUsage.rss(),
  };
}

/** What the client library does alone: one transaction an append, then one consumer from the beginning. */
export async function benchKafkajs(
  brokers: readonly string[],
  topic: string,
  options: LogBenchOptions,
  log: EventLog,
): Promise<LogBenchRow> {
  const { count, appends, valueBytes } = sizes(options);
  await log.admin.ensureTopics({ [topic]: settings });
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 20 } });
  const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = Array.from({ length: count }, (_, i) => ({
    key: Buffer.from(`{"id":${i}}`),
    value: Buffer.alloc(valueBytes, 0x61),
    headers: { sluice: Buffer.alloc(32) },
  }));
  // The brokers take a million bytes a batch, and the library sends what it is given as one.
  const perSend = Math.floor(900_000 / (valueBytes + 100));
  const began = performance.now();
  for (let i = 0; i < appends; i++) {
    const transaction = await producer.transaction();
    for (let at = 0; at < count; at += perSend) {
      await transaction.send({ topic, messages: messages.slice(at, at + perSend) });
    }
    await transaction.commit();
  }
  const appendMs = performance.now() - began;
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: topic, maxBytesPerPartition: 4_194_304 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let read = 0;
  let readBegan = 0;
  const readMs = await new Promise<number>((resolve, reject) => {
    consumer
      .run({
        eachBatch: async ({ batch }) => {
          if (read === 0) readBegan = performance.now();
          read += batch.messages.length;
          if (read >= count * appends) resolve(performance.now() - readBegan);
          return Promise.resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return row('kafkajs', options, appendMs, read, readMs);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  let kafka: Awaited<ReturnType<typeof startKafka>> | null = null;
  try {
    kafka = await startKafka();
  } catch (error) {
    console.log(`without Kafka: ${error instanceof Error ? error.message : String(error)}`);
  }
  try {
    console.table(await benchLog(kafka === null ? {} : { brokers: kafka.brokers }));
  } finally {
    await kafka?.stop();
  }
}
