/** The shared servers themselves: that a suite gets what the other suites build on. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Kafka, logLevel } from 'kafkajs';
import { getKafka } from './kafka.ts';
import { getPostgres } from './postgres.ts';
import type { TestDatabase } from './postgres.ts';
import { requires } from './requirements.ts';
import { getS3 } from './s3.ts';
import { waitFor } from './wait-for.ts';

for (const major of [14, 15, 16, 17, 18] as const) {
  const suite = await requires(`shared PostgreSQL ${major}`, `pg${major}`);
  suite(`shared PostgreSQL ${major}`, () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await getPostgres({ major });
    });
    afterAll(async () => {
      await database.close();
    });

    it('runs that version, decodes logically and gives values as text', async () => {
      const rows = await database.query(
        `select current_setting('server_version_num')::int / 10000 as major, current_setting('wal_level') as level, null as n`,
      );
      expect(rows).toEqual([{ major: String(major), level: 'logical', n: null }]);
    });

    it('drops a database that still has a slot', async () => {
      const other = await getPostgres({ major });
      await other.query(`select pg_create_logical_replication_slot('s_${other.database}', 'pgoutput')`);
      await other.close();
      const left = await database.query('select slot_name from pg_replication_slots where slot_name = $1', [
        `s_${other.database}`,
      ]);
      expect(left).toEqual([]);
    });
  });
}

const kafkaSuite = await requires('shared Kafka', 'kafka');
kafkaSuite('shared Kafka', () => {
  it('commits a transaction', async () => {
    const { brokers, prefix } = await getKafka();
    const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING });
    const admin = kafka.admin();
    const producer = kafka.producer({ transactionalId: `${prefix}-tx`, idempotent: true, maxInFlightRequests: 1 });
    await Promise.all([admin.connect(), producer.connect()]);
    await admin.createTopics({ topics: [{ topic: `${prefix}.t`, numPartitions: 1 }] });
    const transaction = await producer.transaction();
    await transaction.send({ topic: `${prefix}.t`, messages: [{ value: 'one' }] });
    await transaction.commit();
    // One record and its control record, which the coordinator writes after it has answered.
    const offsets = await waitFor('the commit marker', async () => {
      const [partition] = await admin.fetchTopicOffsets(`${prefix}.t`);
      return partition?.offset === '2' ? partition : null;
    });
    expect(offsets.low).toBe('0');
    await Promise.all([admin.disconnect(), producer.disconnect()]);
  });
});

const s3Suite = await requires('shared S3', 's3');
s3Suite('shared S3', () => {
  it('honours a conditional put', async () => {
    const { endpoint, region, accessKeyId, secretAccessKey, bucket } = await getS3();
    const credentials = { accessKeyId, secretAccessKey };
    const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true, maxAttempts: 1 });
    const puts = Array.from({ length: 8 }, async (_, n) =>
      client.send(new PutObjectCommand({ Bucket: bucket, Key: 'k', Body: `${n}`, IfNoneMatch: '*' })).then(
        () => 'created',
        (error: unknown) => (error as Error).name,
      ),
    );
    const outcomes = (await Promise.all(puts)).toSorted();
    expect(outcomes).toEqual([...Array.from({ length: 7 }, () => 'PreconditionFailed'), 'created']);
    client.destroy();
  });
});
