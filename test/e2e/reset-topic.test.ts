/** Kafka under a running pipeline: a topic deleted and made again, records deleted, the group and whole topics of ours gone. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Kafka, logLevel, type Admin } from 'kafkajs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { askStatus } from '../support/ask-status.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { buildSluice, runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('topics that are reset', 'pg18', 'kafka');

suite('topics that are reset', { timeout: 300_000 }, () => {
  const folder = temporaryFolder('reset-topic');
  let database: TestDatabase;
  let port: number;
  let kafka: TestKafka;
  let admin: Admin;
  let options: { cwd: string; env: Record<string, string> };

  const sluice = (...args: string[]) => runSluice(args, options);
  const caughtUp = async (): Promise<void> => {
    const { code, err } = await sluice('run', '--available-now');
    expect(code, err).toBe(0);
  };
  const serve = async <T>(work: () => Promise<T>): Promise<T> => {
    const service: SluiceProcess = startSluice(['run'], options);
    try {
      await waitFor('the service', async () => (await askStatus(port)) !== null);
      return await work();
    } finally {
      service.kill('SIGTERM');
      await service.ended;
    }
  };
  const stateOf = async (table: string): Promise<string | undefined> => {
    const tables = (await askStatus(port))?.tables ?? [];
    return tables.find((each) => each.table === `public.${table}`)?.state;
  };
  const equal = async (): Promise<void> => {
    const { code, out, err } = await sluice('verify');
    expect(code, out + err).toBe(0);
  };
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
    buildSluice();
    database = await getPostgres();
    port = await freePort();
    kafka = await getKafka();
    admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: ${kafka.prefix}
source: {postgres: "\${PGURL}", tables: ["public.*"], snapshot: {chunkRows: 1000}}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], partitions: 2}
lake: {uri: ./lake}
stream: {trigger: 100ms}
http: {port: ${port}}
logging: {level: error}
`,
    );
    options = { cwd: folder, env: { PGURL: database.url } };
    await database.query(`
      create table a (id bigint primary key, v text);
      create table b (id int primary key, v text);
      insert into a select i, 'a' || i from generate_series(1, 2000) i;`);
    await caughtUp();
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
      await waitFor('the state', async () => (await stateOf('a')) === 'TOPIC_RESET', { deadlineMs: 60_000 });
      expect(await stateOf('b')).toBe('STREAMING');
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
      partitions: ends.map(({ partition, high }) => ({ partition, offset: high })),
    });
    await change();
    await serve(async () => {
      await waitFor('the state', async () => (await stateOf('a')) === 'OFFSETS_EXPIRED');
      expect(await stateOf('b')).toBe('STREAMING');
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
    await caughtUp();
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
});
