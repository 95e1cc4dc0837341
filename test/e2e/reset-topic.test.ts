/** Kafka under a running pipeline: a topic deleted and made again, records deleted, the group and whole topics of ours gone. */
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('topics that are reset', 'pg18', 'kafka');

suite('topics that are reset', () => {
  const folder = temporaryFolder('reset-topic');
  let database: TestDatabase;
  let kafka: TestKafka;
  let admin: Admin;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const serve = (work: () => Promise<void>) => pipeline.serve(work);
  const equal = () => pipeline.expectEqual();
  const stateOf = (table: string) => pipeline.stateOf(table);
  let round = 0;
  const change = async (): Promise<void> => {
    round += 1;
    await database.query(`
      insert into a select i, 'round ${round}' from generate_series(${10000 + round * 100}, ${10049 + round * 100}) i;
      update a set v = v || ' changed ${round}' where id % 7 = ${round % 7};
      delete from a where id % 13 = ${round % 13};
      insert into b values (${round}, 'b')`);
  };
  const topic = (table: string): string => `${kafka.prefix}.public.${table}`;

  beforeAll(async () => {
    database = await getPostgres();
    kafka = await getKafka();
    admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    pipeline = await createService(
      folder,
      `name: ${kafka.prefix}
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s, snapshot: {chunkRows: 1000}}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], partitions: 2}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(`
      create table a (id bigint primary key, v text);
      create table b (id int primary key, v text);
      insert into a select i, 'a' || i from generate_series(1, 2000) i;`);
    await pipeline.caughtUp();
  });
  afterAll(async () => {
    await sluice('teardown', '--yes');
    await admin.disconnect();
    await database.close();
  });

  it('a topic deleted while nothing runs stops its table alone, and repair mends it without a service', async () => {
    await change();
    await admin.deleteTopics({ topics: [topic('a')] });
    await change();
    expect(await sluice('run', '--available-now')).toMatchObject({
      code: 4,
      err: expect.stringContaining('TOPIC_RESET'),
    });
    const repaired = await sluice('repair', 'a');
    expect(repaired.code, repaired.out + repaired.err).toBe(0);
    await change();
    await serve(equal);
  });

  it('a topic deleted and made again under the running service stops its table, and repair resumes it there', async () => {
    await serve(async () => {
      await change();
      await equal();
      await admin.deleteTopics({ topics: [topic('a')] });
      for (let i = 0; i < 5; i += 1) await change();
      await waitFor('the state', async () => (await stateOf('a')) === 'TOPIC_RESET');
      await waitFor('the other to stream', async () => (await stateOf('b')) === 'STREAMING');
      await change();
      const repaired = await sluice('repair', 'a');
      expect(repaired.code, repaired.out + repaired.err).toBe(0);
      await change();
      await equal();
    });
  });

  it('records deleted before they were applied are OFFSETS_EXPIRED, and repair reads the table again', async () => {
    await change();
    expect((await sluice('reader', '--available-now')).code).toBe(0);
    const ends = await admin.fetchTopicOffsets(topic('a'));
    await admin.deleteTopicRecords({
      topic: topic('a'),
      partitions: ends.map(({ partition }) => ({ partition, offset: '-1' })),
    });
    await change();
    await serve(async () => {
      await waitFor('the state', async () => (await stateOf('a')) === 'OFFSETS_EXPIRED');
      await waitFor('the other to stream', async () => (await stateOf('b')) === 'STREAMING');
      const repaired = await sluice('repair', '--all');
      expect(repaired.code, repaired.out + repaired.err).toBe(0);
      await change();
      await equal();
    });
  });

  it('the consumer group is a mirror; the marks, the reader’s state and the log’s identity come again or stop by name', async () => {
    await admin.deleteGroups([`sluice-${kafka.prefix}`]).catch(() => undefined);
    await admin.deleteTopics({ topics: [`${kafka.prefix}.__progress`] });
    await change();
    await pipeline.caughtUp();
    for (const lost of ['__reader', '__log']) {
      await admin.deleteTopics({ topics: [`${kafka.prefix}.${lost}`] });
      await change();
      const stopped = await sluice('run', '--available-now');
      expect(stopped, lost).toMatchObject({ code: 4, err: expect.stringContaining('TOPIC_RESET') });
      const repaired = await sluice('repair', '--all');
      expect(repaired.code, lost + repaired.out + repaired.err).toBe(0);
      await change();
      await serve(equal);
    }
  });

  it('teardown drops the topics of the pipeline, not those that only begin with its name', async () => {
    const name = kafka.prefix;
    // An application's, and another pipeline's whose name goes on with a dot.
    const strangers = [`${name}.orders-events`, `${name}.eu.public.a`, `${name}.public.elsewhere`];
    await admin.createTopics({ topics: strangers.map((each) => ({ topic: each, numPartitions: 1 })) });
    const done = await sluice('teardown', '--yes');
    expect(done.code, done.out + done.err).toBe(0);
    for (const each of strangers) expect(done.out).toContain(each);
    // A topic is listed for a moment after its deletion was acknowledged.
    const left = async (): Promise<string[]> =>
      (await admin.listTopics()).filter((each) => each.startsWith(`${name}.`)).toSorted();
    await expect.poll(left, { timeout: 240_000 }).toEqual(strangers.toSorted());
  });
});
