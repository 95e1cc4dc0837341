/**
 * A Kafka topic gets more partitions while its keys are updated: a key's later events then stand in another partition than its
 * earlier ones. The reader's mark says so, and a batch ends before it: the old partitions are drained before anything of the
 * new ones is read. With a reader that goes on, and with one that starts anew.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Kafka, logLevel } from 'kafkajs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import type { PartitionBounds } from '../../services/log/log.ts';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('a topic that grows', 'pg18', 'kafka');

suite('a topic that grows', () => {
  const folder = temporaryFolder('partitions-grow');
  let database: TestDatabase;
  let kafka: TestKafka;
  let reader: SluiceProcess;
  let stream: SluiceProcess;
  let options: { cwd: string; env: Record<string, string> };

  let topic: string;

  const yaml = (settings: string): string => `name: ${kafka.prefix}
source: {postgres: "\${PGURL}"}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], partitions: 2}
lake: {uri: ./lake}
stream: ${settings}
logging: {level: warn}
`;
  async function bounds(): Promise<ReadonlyMap<number, PartitionBounds>> {
    const log = await openKafkaLog({ name: kafka.prefix, brokers: kafka.brokers });
    try {
      return await log.reader.bounds(topic);
    } finally {
      await log.close();
    }
  }
  let streamPort = 0;
  const start = async (half: 'reader' | 'stream'): Promise<SluiceProcess> => {
    const port = await freePort();
    if (half === 'stream') streamPort = port;
    return startSluice([half], { ...options, env: { ...options.env, SLUICE_HTTP_PORT: String(port) } });
  };
  async function updates(times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      await database.query(
        `update counter set n = n + 1, note = 'round ' || n; delete from counter where id = ${1000 + i};
         insert into counter values (${1001 + i}, 0, 'new', repeat('x', 3000)) on conflict (id) do update set n = 0`,
      );
      await sleep(20);
    }
  }
  async function expectEqual(): Promise<void> {
    const { out, err } = await runSluice(['verify', '--json'], options);
    const shown = async (): Promise<string> =>
      (await runSluice(['status', '--json', '--url', `http://127.0.0.1:${streamPort}`], options)).out;
    expect(
      JSON.parse(out || '{}'),
      out.slice(0, 2000) + err + (out.includes('"equal":true') ? '' : await shown()),
    ).toMatchObject({ equal: true });
  }
  async function grow(count: number): Promise<void> {
    const admin = new Kafka({ brokers: [...kafka.brokers], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    await admin.createPartitions({ topicPartitions: [{ topic, count }] });
    await admin.disconnect();
  }

  beforeAll(async () => {
    [database, kafka] = await Promise.all([getPostgres(), getKafka()]);
    await database.query(
      `create table counter (id int primary key, n int not null, note text, big text);
       alter table counter alter column big set storage external;
       insert into counter select i, 0, 'start', repeat(md5(i::text), 200) from generate_series(1, 100) i`,
    );
    topic = `${kafka.prefix}.public.counter`;
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(join(folder, 'sluice.yaml'), yaml('{trigger: 200ms}'));
    options = { cwd: folder, env: { PGURL: database.url } };
    reader = await start('reader');
    stream = await start('stream');
    await waitFor('the snapshot', async () => {
      const { out } = await runSluice(['verify', '--json'], options);
      return (JSON.parse(out) as { equal: boolean }).equal;
    });
  });
  afterAll(async () => {
    for (const child of [reader, stream]) child.kill('SIGKILL');
    for (const child of [reader, stream])
      if (process.env['SLUICE_DEBUG'] !== undefined) process.stderr.write((await child.ended).err);
    await database.close();
  });

  it('takes the new partitions while reader and stream go on', async () => {
    await Promise.all([updates(20), sleep(150).then(() => grow(3))]);
    await expectEqual();
    // The running reader finds the new partition by itself.
    await waitFor(
      'records in the new partition',
      async () => {
        await updates(1);
        return ((await bounds()).get(2)?.end ?? 0n) > 0n;
      },
      { everyMs: 500 },
    );
    await expectEqual();
  });

  it('drains the old partitions to a mark before it reads the new ones, and says so meanwhile', async () => {
    stream.kill('SIGTERM');
    expect((await stream.ended).code).toBe(0);
    // Old values of `big` stand in one partition, updates that do not carry them in another, lower or higher: one batch would
    // read them in the wrong order and take the table's older value for the base.
    await database.query(`update counter set big = repeat(md5(id || ' before'), 200)`);
    await updates(10);
    reader.kill('SIGTERM');
    expect((await reader.ended).code).toBe(0);
    await grow(5);
    reader = await start('reader');
    await updates(10);
    await waitFor('the reader', async () => ((await bounds()).get(4)?.end ?? 0n) > 0n);
    const states = new Set<string>();
    // Small batches, so that draining takes several.
    writeFileSync(join(folder, 'sluice.yaml'), yaml('{trigger: 500ms, maxOffsetsPerTrigger: 100}'));
    stream = await start('stream');
    const watching = new AbortController();
    const watched = (async (): Promise<void> => {
      while (!watching.signal.aborted) {
        const report = await fetch(`http://127.0.0.1:${streamPort}/status`)
          .then(async (answer) => (await answer.json()) as { tables: { table: string; state: string }[] })
          .catch(() => null);
        for (const { table, state } of report?.tables ?? []) if (table === 'public.counter') states.add(state);
        await sleep(20);
      }
    })();
    await expectEqual();
    await waitFor('the table to stream', () => states.has('STREAMING'));
    watching.abort();
    await watched;
    expect([...states].toSorted()).toEqual(['PARTITIONS_CHANGED', 'STREAMING']);
    await updates(3);
    await expectEqual();
    const ends = [...(await bounds()).values()].map(({ end }) => end);
    expect(ends.length).toBe(5);
    expect(ends.every((end) => end > 0n)).toBe(true);
  });

  it('keeps the order when both halves were killed around the growth', async () => {
    stream.kill('SIGKILL');
    await stream.ended;
    await database.query(`update counter set big = repeat(md5(id || ' again'), 200)`);
    await updates(5);
    await grow(7);
    reader.kill('SIGKILL');
    await reader.ended;
    reader = await start('reader');
    await updates(5);
    writeFileSync(join(folder, 'sluice.yaml'), yaml('{trigger: 200ms}'));
    stream = await start('stream');
    await expectEqual();
  });
});
