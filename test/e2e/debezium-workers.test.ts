/** Topics of Debezium shared by several stream workers: one that takes a table over has nothing of it left unread. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel, type Producer } from 'kafkajs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { openStore } from '../../lakehouse/store/open-store.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { requires } from '../support/requirements.ts';
import { getS3, type TestBucket } from '../support/s3.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('topics of Debezium and several workers', 'kafka', 's3');
const TABLES = ['a', 'b', 'c', 'd'];

const contractOf = (table: string): string => `apiVersion: v3.1.0
kind: DataContract
id: shop.public.${table}
version: 1.0.0
status: active
schema:
  - name: ${table}
    logicalType: object
    physicalName: ${table}
    properties:
      - {name: id, logicalType: integer, logicalTypeOptions: {format: i64}, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: v, logicalType: string, physicalType: text}
`;

suite('topics of Debezium and several workers', () => {
  const folder = temporaryFolder('debezium-workers');
  const workers: { readonly port: number; readonly process: SluiceProcess }[] = [];
  /** What each table must hold. */
  const wanted = new Map(TABLES.map((table) => [table, new Map<string, string>()]));
  let kafka: TestKafka;
  let s3: TestBucket;
  let lake: ObjectStore;
  let producer: Producer;
  let lsn = 1000;

  const topicOf = (table: string): string => `${kafka.prefix}.public.${table}`;
  async function send(id: number, partition: number, tables: readonly string[] = TABLES): Promise<void> {
    for (const table of tables) {
      lsn += 8;
      const source = { connector: 'postgresql', lsn, ts_ms: 1_700_000_000_000, schema: 'public', table };
      const after = { id, v: `${table}${id}` };
      const value = JSON.stringify({ before: null, after, source, op: 'c', ts_ms: 1 });
      await producer.send({ topic: topicOf(table), messages: [{ partition, key: JSON.stringify({ id }), value }] });
      wanted.get(table)?.set(String(id), after.v);
    }
  }
  async function startWorker(): Promise<number> {
    const port = await freePort();
    const env = { ...s3.environment, SLUICE_HTTP_PORT: String(port) };
    workers.push({ port, process: startSluice(['stream'], { cwd: folder, env }) });
    return port;
  }
  /** Tables that a worker has. */
  async function tablesOf(port: number): Promise<readonly string[]> {
    const answer = await fetch(`http://127.0.0.1:${port}/status`);
    const { tables } = (await answer.json()) as { tables: readonly { readonly table: string }[] };
    return tables.map(({ table }) => table.replace('public.', ''));
  }
  async function shared(ports: readonly number[], each: number): Promise<void> {
    const even = async (): Promise<boolean> =>
      (await Promise.all(ports.map(tablesOf))).every((tables) => tables.length === each);
    await waitFor('the share', even);
  }
  async function expectAll(): Promise<void> {
    const held = async (): Promise<unknown> =>
      Promise.all(
        TABLES.map(async (table) => {
          const rows = await tableRows(lake, `public/${table}`, ['id']).catch(() => new Map<string, { v?: unknown }>());
          return [table, new Map([...rows].map(([id, row]) => [id, String(row['v'])]))];
        }),
      );
    await expect.poll(held, { timeout: 240_000, interval: 300 }).toEqual([...wanted]);
  }

  beforeAll(async () => {
    [kafka, s3] = await Promise.all([getKafka(), getS3()]);
    process.env['AWS_ACCESS_KEY_ID'] = s3.accessKeyId;
    process.env['AWS_SECRET_ACCESS_KEY'] = s3.secretAccessKey;
    lake = openStore(`${s3.uri}/l`, { endpoint: s3.endpoint, region: s3.region, forcePathStyle: true });
    const client = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING });
    const admin = client.admin();
    await admin.connect();
    await admin.createTopics({
      topics: TABLES.map((table) => ({ topic: topicOf(table), numPartitions: 2, replicationFactor: 1 })),
    });
    await admin.disconnect();
    producer = client.producer();
    await producer.connect();
    mkdirSync(join(folder, 'contracts'));
    for (const table of TABLES) writeFileSync(join(folder, `contracts/public.${table}.odcs.yaml`), contractOf(table));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: ${kafka.prefix}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], debezium: {topics: ["${TABLES.map(topicOf).join('", "')}"]}}
lake: {uri: ${s3.uri}/l, s3: {endpoint: "${s3.endpoint}"}}
stream: {trigger: 200ms}
logging: {level: error}
`,
    );
  });
  afterAll(async () => {
    for (const { process: child } of workers) child.kill('SIGKILL');
    await producer.disconnect();
    await lake.close();
  });

  it('leave nothing unread when a table changes hands, though no record comes after', async () => {
    await send(1, 0);
    await send(2, 1);
    const first = await startWorker();
    await shared([first], 4);
    await expectAll();
    const second = await startWorker();
    await shared([first, second], 2);
    await send(3, 0);
    await expectAll();
    // Paused, it applies nothing; its tables' last records come, the other worker sees them pass, and only then takes over.
    workers[0]?.process.kill('SIGSTOP');
    await send(4, 1);
    const own = await tablesOf(second);
    for (const id of [5, 6, 7]) {
      await sleep(700);
      await send(id, 0, own);
    }
    await shared([second], 4);
    await expectAll();
    workers[0]?.process.kill('SIGKILL');
  });

  it('read partitions that a topic gets meanwhile', async () => {
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    await admin.createPartitions({ topicPartitions: [{ topic: topicOf('b'), count: 4 }] });
    // The broker itself hears of them behind its answer, and of their leaders later still.
    await waitFor('the new partitions', async () => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topicOf('b')] });
      return topics[0]?.partitions.length === 4 && topics[0].partitions.every(({ leader }) => leader >= 0);
    });
    await admin.disconnect();
    // A producer that was there before does not know the new partition, and drops what is meant for it.
    await producer.disconnect();
    producer = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).producer();
    await producer.connect();
    await send(8, 3, ['b']);
    await expectAll();
  });

  it('have no source: doctor asks for none, the quarantine is listed, and teardown leaves the topics to Debezium', async () => {
    const sluice = (...args: string[]) => runSluice(args, { cwd: folder, env: s3.environment });
    await producer.send({ topic: topicOf('a'), messages: [{ key: '{"id":1}', value: 'no JSON' }] });
    await expect
      .poll(async () => (await sluice('quarantine', 'list')).out, { timeout: 240_000, interval: 300 })
      .toContain('DECODE_NOT_JSON');
    for (const { process: child } of workers.splice(0)) child.kill('SIGKILL');
    const doctor = await sluice('doctor');
    expect(doctor.code, doctor.out).toBe(0);
    const torn = await sluice('teardown', '--yes');
    expect(torn.code, torn.err).toBe(0);
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    // A topic is listed for a moment after its deletion was acknowledged.
    const left = async (): Promise<string[]> =>
      (await admin.listTopics()).filter((topic) => topic.startsWith(kafka.prefix)).toSorted();
    await expect.poll(left, { timeout: 240_000 }).toEqual(TABLES.map(topicOf));
    await admin.disconnect();
  });
});
