/** What only Kafka can do to a log: brokers that die, open transactions left behind, logins and certificates. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as zlib from 'node:zlib';
import { Kafka, logLevel } from 'kafkajs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createCertificateAuthority,
  type CertificateAuthority,
  type CertificateFiles,
} from '../../ops/local/certificates.ts';
import { startKafka, type KafkaServer } from '../../ops/local/kafka.ts';
import { encodeRecordBatch } from '../../services/log/kafka-batch.ts';
import { connectKafka } from '../../services/log/kafka-client.ts';
import { openKafkaLog, type KafkaLogOptions } from '../../services/log/kafka-log.ts';
import { whileBusy } from '../../services/log/kafka-retry.ts';
import { LogError, type EventLog, type OutgoingRecord } from '../../services/log/log.ts';
import { waitFor } from '../support/wait-for.ts';
import { requires } from '../support/requirements.ts';

const USER = 'sluice';
const suite = await requires('kafka: failures and logins', 'kafka', 'openssl');

suite('the Kafka log', () => {
  let folder: string;
  let kafka: KafkaServer;
  let authority: CertificateAuthority;
  let client: CertificateFiles;
  let expired: CertificateFiles;
  const opened: EventLog[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-log-'));
    authority = await createCertificateAuthority(join(folder, 'ca'));
    const server = await authority.issue('broker');
    client = await authority.issue('client');
    expired = await authority.issue('late', { expired: true });
    kafka = await startKafka({
      dataDir: join(folder, 'data'),
      security: {
        ca: authority.ca,
        keystore: server.keystore,
        clientAuth: 'required',
        sasl: { users: { [USER]: 'right' } },
      },
    });
  });
  afterAll(async () => {
    for (const log of opened) await log.close();
    await kafka?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function openLog(options: Partial<KafkaLogOptions> = {}): Promise<EventLog> {
    const log = await openKafkaLog({ name: 'shop', brokers: kafka.brokers, retryMsMax: 240_000, ...options });
    opened.push(log);
    return log;
  }
  const topicSettings = { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false };

  test('a topic that the brokers refuse to make is named with their reason', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ 'shop.app.user_roles': topicSettings });
    const alike = log.admin.ensureTopics({ 'shop.app_user.roles': topicSettings });
    await expect(alike).rejects.toMatchObject({
      code: 'LOG_TOPIC_REFUSED',
      retriable: false,
      message: expect.stringMatching(/topic shop\.app_user\.roles: .*invalid topic.*"\." for "_" only/),
    });
    const copies = log.admin.ensureTopics({ 'shop.copies': { ...topicSettings, replicationFactor: 3 } });
    await expect(copies).rejects.toMatchObject({
      code: 'LOG_TOPIC_REFUSED',
      message: expect.stringMatching(/topic shop\.copies: .*log\.replicationFactor/),
    });
  });
  const record = (topic: string, value: string): OutgoingRecord => ({
    topic,
    key: Buffer.from('k'),
    value: Buffer.from(value),
    header: null,
  });
  async function values(log: EventLog, topic: string, end: bigint): Promise<string[]> {
    const found: string[] = [];
    for await (const batch of log.reader.read(topic, 0, 0n as never, end as never)) {
      found.push(...batch.values.map((value) => value!.toString()));
    }
    return found;
  }
  async function failure(action: Promise<unknown>): Promise<LogError> {
    try {
      await action;
    } catch (error) {
      if (error instanceof LogError) return error;
      throw error;
    }
    throw new Error('it did not fail');
  }

  test('shows nothing of a transaction that its writer left open when it was killed', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ left: topicSettings });
    const raw = await connectKafka({ brokers: kafka.brokers });
    const stamp = await whileBusy(10_000, () => raw.initProducer('left-writer', 60_000, null));
    await raw.addPartitions('left-writer', stamp, new Map([['left', [0]]]));
    const bytes = encodeRecordBatch([record('left', 'never')], 0, 1, stamp, 0, Date.now());
    const [leader] = await raw.leaders('left');
    await raw.produce(leader!, {
      transactionalId: 'left-writer',
      timeoutMs: 10_000,
      batches: [{ topic: 'left', partition: 0, bytes }],
    });
    const writer = await log.writer('left-writer');
    const next = await writer.append([record('left', 'after')]);
    const end = next.get('left')!.get(0)!;
    expect(end).toBe(3n); // the record that was left, its abort marker, ours
    expect(await values(log, 'left', end)).toEqual(['after']);
    const late = failure(raw.endTransaction('left-writer', stamp, true));
    expect((await late).code).toBe('LOG_FENCED');
    await raw.close();
  });

  test('a topic that was deleted hides no other from its client, and neither does an answer that is older than the question', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({
      gone: topicSettings,
      stays: topicSettings,
      comes: topicSettings,
      soon: topicSettings,
    });
    const raw = await connectKafka({ brokers: kafka.brokers });
    const [leader] = await raw.leaders('stays');
    // The second question is answered together with the first, which did not name the topic.
    const [, leaders] = await Promise.all([raw.refresh(), raw.leaders('soon')]);
    expect(leaders).toEqual([leader]);
    await raw.leaders('gone');
    await log.admin.deleteTopics(['gone']);
    await waitFor('the topic to go', async () => !(await log.admin.topics()).includes('gone'));
    expect(await raw.leaders('comes')).toEqual([leader]);
    await raw.refresh();
    expect(await raw.leaders('stays')).toEqual([leader]);
    expect((await failure(raw.leaders('gone'))).code).toBe('LOG_TOPIC_MISSING');
    await raw.close();
  });

  test('appends each record once although the broker is killed and comes back, and says it when it stays away', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ once: topicSettings });
    const writer = await log.writer('once-writer');
    let end = 0n;
    let number = 0;
    const append = async (): Promise<void> => {
      const next = await writer.append(Array.from({ length: 50 }, () => record('once', `${number++}`)));
      end = next.get('once')!.get(0)!;
    };
    for (let i = 0; i < 5; i++) await append();
    const appending = (async () => {
      for (let i = 0; i < 10; i++) await append();
    })();
    await kafka.kill();
    const restarted = kafka.restart();
    await appending;
    await restarted;
    await append();
    const expected = Array.from({ length: number }, (_, i) => `${i}`);
    expect(await values(log, 'once', end)).toEqual(expected);

    const impatient = await openLog({ retryMsMax: 2_000 });
    const short = await impatient.writer('short-writer');
    await kafka.kill();
    const error = await failure(short.append([record('once', 'lost')]));
    expect(error).toMatchObject({ code: 'LOG_UNAVAILABLE', retriable: true });
    expect((await failure(openKafkaLog({ name: 'x', brokers: kafka.brokers, connectTimeoutMs: 500 }))).code).toBe(
      'LOG_UNAVAILABLE',
    );
    await kafka.restart();
    const next = await writer.append([record('once', 'end')]);
    expect((await values(log, 'once', next.get('once')!.get(0)!)).slice(-1)).toEqual(['end']);
  });

  test.each(['gzip', 'snappy', 'lz4', 'zstd'] as const)('reads what brokers compress with %s', async (method) => {
    const log = await openLog();
    const topic = `packed-${method}`;
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    const configEntries = [{ name: 'compression.type', value: method }];
    await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries }],
    });
    await admin.disconnect();
    const writer = await log.writer(`${topic}-writer`);
    // Repeated, random and long text, so that literals, near and far copies and blocks of each kind turn up.
    const written = Array.from({ length: 400 }, (_, i) => {
      const random = randomBytes(i % 50).toString('hex');
      return `${'abc'.repeat(i % 90)}${random}${'é'.repeat(i)}${i % 97 === 0 ? randomBytes(30_000).toString('base64') : ''}`;
    });
    const next = await writer.append(written.map((value) => record(topic, value)));
    const end = next.get(topic)!.get(0)!;
    if (method === 'zstd' && !('zstdDecompressSync' in zlib)) {
      expect(await failure(values(log, topic, end))).toMatchObject({ code: 'LOG_CORRUPT', retriable: false });
    } else expect(await values(log, topic, end)).toEqual(written);
    await writer.close();
  });

  test('mirrors offsets into a consumer group that nobody joined', async () => {
    const log = await openLog();
    await log.admin.ensureTopics({ mirrored: { ...topicSettings, partitions: 2 } });
    await log.admin.mirrorGroup(
      'sluice-shop',
      'mirrored',
      new Map([
        [0, 5n as never],
        [1, 7n as never],
      ]),
    );
    await log.admin.mirrorGroup('sluice-shop', 'mirrored', new Map([[0, 6n as never]]));
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    const [offsets] = await admin.fetchOffsets({ groupId: 'sluice-shop', topics: ['mirrored'] });
    await admin.disconnect();
    const found = offsets!.partitions.toSorted((a, b) => a.partition - b.partition).map((one) => one.offset);
    expect(found).toEqual(['6', '7']);
  });

  test('speaks TLS with a private authority and client certificates, and refuses what is wrong', async () => {
    const tls = { ca: readFileSync(authority.ca), cert: readFileSync(client.cert), key: readFileSync(client.key) };
    const brokers = kafka.sslBrokers!;
    const log = await openLog({ brokers, tls });
    expect(await log.admin.topics()).toContain('once');
    const wrong = { connectTimeoutMs: 15_000, name: 'shop', brokers };
    const unknown = await failure(openKafkaLog({ ...wrong, tls: { cert: tls.cert, key: tls.key } }));
    expect(unknown).toMatchObject({ code: 'LOG_AUTHENTICATION', retriable: false });
    const late = { ca: tls.ca, cert: readFileSync(expired.cert), key: readFileSync(expired.key) };
    const refused = await failure(openKafkaLog({ ...wrong, tls: late }));
    expect(['LOG_AUTHENTICATION', 'LOG_UNAVAILABLE']).toContain(refused.code);
  });

  test.each(['plain', 'scram-sha-256', 'scram-sha-512'] as const)(
    'logs in by %s, and takes up a rotated password',
    async (mechanism) => {
      const tls = { ca: readFileSync(authority.ca), cert: readFileSync(client.cert), key: readFileSync(client.key) };
      const options = { name: 'shop', brokers: kafka.saslBrokers!, tls, connectTimeoutMs: 30_000 };
      const given = (password: string) => ({ mechanism, username: USER, password });
      const log = await openLog({ ...options, credentials: async () => given('right') });
      expect(await log.admin.topics()).toContain('once');
      const wrong = await failure(openKafkaLog({ ...options, credentials: async () => given('wrong') }));
      expect(wrong).toMatchObject({ code: 'LOG_AUTHENTICATION', retriable: false });
      expect(wrong.message).not.toContain('wrong');
      let asked = 0;
      const rotated = await openLog({ ...options, credentials: async () => given(asked++ === 0 ? 'old' : 'right') });
      expect(await rotated.admin.topics()).toContain('once');
      expect(asked).toBeGreaterThan(1);
    },
  );

  test('logs in by oauthbearer', async () => {
    const tls = { ca: readFileSync(authority.ca), cert: readFileSync(client.cert), key: readFileSync(client.key) };
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const now = Math.floor(Date.now() / 1000);
    const token = `${part({ alg: 'none' })}.${part({ sub: USER, iat: now, exp: now + 600, scope: '' })}.`;
    const credentials = async () => ({ mechanism: 'oauthbearer' as const, token });
    const log = await openLog({ brokers: kafka.saslBrokers!, tls, credentials });
    expect(await log.admin.topics()).toContain('once');
  });
});
