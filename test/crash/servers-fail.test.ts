/**
 * The servers around a running pipeline are killed and started again under load, and a reader that was paused wakes up after
 * another took over. Afterwards source and lake are equal, and a read_committed consumer finds no event twice in the log.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { startKafka, type KafkaServer } from '../../ops/local/kafka.ts';
import { startPostgres, type PostgresServer } from '../../ops/local/postgres.ts';
import { startS3, type S3Server } from '../../ops/local/s3.ts';
import { SHOP_SCHEMA_SQL, SHOP_TABLES } from '../../services/cli/demo/shop-schema.ts';
import { loadShop, runWorkload } from '../../services/cli/demo/shop-workload.ts';
import { openKafkaLog } from '../../services/log/kafka-log.ts';
import { dataTopic } from '../../services/log/topics.ts';
import { cacheFolder } from '../support/cache.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const NAME = 'failing';
const suite = await requires('servers that fail', 'pg18', 'kafka', 's3');

suite('servers that fail', () => {
  const folder = temporaryFolder('servers-fail');
  let postgres: PostgresServer;
  let kafka: KafkaServer;
  let s3: S3Server;
  let ports: { run: number; readerA: number; readerB: number; stream: number };

  /** A session that comes back after the server did. */
  const session = {
    client: null as pg.Client | null,
    async query(sql: string, values?: readonly unknown[]): Promise<unknown> {
      if (this.client === null) {
        const client = new pg.Client({ connectionString: postgres.url });
        client.on('error', () => (this.client = null));
        await client.connect();
        this.client = client;
      }
      return this.client.query(sql, values === undefined ? undefined : [...values]);
    },
  };

  const processOptions = (port: number): { cwd: string; env: Record<string, string> } => ({
    cwd: join(folder, 'p'),
    env: {
      PGURL: postgres.url,
      SLUICE_HTTP_PORT: String(port),
      AWS_ACCESS_KEY_ID: s3.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3.secretAccessKey,
    },
  });

  beforeAll(async () => {
    ports = { run: await freePort(), readerA: await freePort(), readerB: await freePort(), stream: await freePort() };
    postgres = await startPostgres({ settings: { wal_sender_timeout: '2s' }, cache: cacheFolder() });
    kafka = await startKafka({ cache: cacheFolder() });
    s3 = await startS3({ cache: cacheFolder() });
    await s3.createBucket('lake');
    mkdirSync(join(folder, 'p'), { recursive: true });
    writeFileSync(
      join(folder, 'p/sluice.yaml'),
      `name: ${NAME}
source: {postgres: "\${PGURL}"}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], partitions: 2}
lake: {uri: s3://lake/l, s3: {endpoint: "${s3.endpoint}"}}
stream: {trigger: 300ms}
logging: {level: warn}
`,
    );
    await session.query(SHOP_SCHEMA_SQL);
    await loadShop(session, 800);
  });

  afterAll(async () => {
    await session.client?.end();
    await postgres.stop('immediate');
    await kafka.kill();
    await kafka.stop();
    await s3.stop();
  });

  /** Runs the workload until the action is over; a transaction that the killed server cut off is begun again. */
  async function underLoad(seed: number, action: () => Promise<void>): Promise<void> {
    const stop = new AbortController();
    const load = (async (): Promise<void> => {
      for (let round = 0; !stop.signal.aborted; round += 1) {
        try {
          await runWorkload(session, {
            seed: seed * 1000 + round,
            transactions: 1_000_000,
            signal: stop.signal,
            rows: 800,
            violationEvery: 0,
            session: seed * 50 + round,
            pace: () => sleep(5),
          });
        } catch {
          session.client = null; // killed under it: another session, other keys
          await sleep(200);
        }
      }
    })();
    try {
      await action();
    } finally {
      stop.abort();
      await load;
    }
  }

  async function expectEqual(port: number): Promise<void> {
    const verified = await runSluice(['verify', '--json'], processOptions(port));
    expect(JSON.parse(verified.out || '{}'), verified.out.slice(0, 2000) + verified.err).toMatchObject({ equal: true });
  }

  /** Every (epoch, lsn, ord) of every data topic, as a read_committed consumer sees it, once a partition. */
  async function expectNoEventTwice(): Promise<void> {
    const log = await openKafkaLog({ name: NAME, brokers: kafka.brokers });
    try {
      for (const table of SHOP_TABLES) {
        const topic = dataTopic(NAME, 'public', table);
        const seen = new Set<string>();
        let events = 0;
        for (const [partition, { earliest, end }] of await log.reader.bounds(topic)) {
          for await (const batch of log.reader.read(topic, partition, earliest, end)) {
            for (const header of batch.headers) {
              if (header === null) continue;
              events += 1;
              seen.add(`${partition} ${header.toString('hex', 1, 20)}`);
            }
          }
        }
        expect([table, seen.size]).toEqual([table, events]);
      }
    } finally {
      await log.close();
    }
  }

  it('goes on after PostgreSQL, Kafka and the S3 server were killed under load', async () => {
    const running = startSluice(['run'], processOptions(ports.run));
    try {
      await waitFor('the pipeline to be live', async () => (await fetch(`http://127.0.0.1:${ports.run}/livez`)).ok);
      await underLoad(1, async () => {
        await sleep(2_000);
        for (const server of [s3, kafka, postgres]) {
          await server.kill();
          await sleep(1_500);
          await server.restart();
          await sleep(2_500);
        }
      });
      await expectEqual(ports.run);
      expect(running.child.exitCode).toBeNull();
    } finally {
      running.kill('SIGTERM');
      const { code, err } = await running.ended;
      expect(code, err).toBe(0);
    }
    await expectNoEventTwice();
  });

  it('fences a paused reader that wakes up after another took over', async () => {
    const stream = startSluice(['stream'], processOptions(ports.stream));
    const first = startSluice(['reader'], processOptions(ports.readerA));
    const owner = async (): Promise<string | null> => {
      const result = (await session.query(
        `select active_pid::text as pid from pg_replication_slots where slot_name = 'sluice_${NAME}' and active`,
      )) as pg.QueryResult<{ pid: string }>;
      return result.rows[0]?.pid ?? null;
    };
    const second: SluiceProcess[] = [];
    try {
      await underLoad(2, async () => {
        const before = await waitFor('the first reader to own the slot', owner);
        await sleep(1_000);
        first.kill('SIGSTOP');
        second.push(startSluice(['reader'], processOptions(ports.readerB)));
        await waitFor('the second reader to own the slot', async () => {
          const now = await owner();
          return now !== null && now !== before;
        });
        await sleep(2_000);
        first.kill('SIGCONT');
        await sleep(3_000);
      });
      await expectEqual(ports.stream);
    } finally {
      first.kill('SIGKILL');
      for (const child of second) child.kill('SIGTERM');
      stream.kill('SIGTERM');
      await Promise.all([first, ...second, stream].map((child) => child.ended));
    }
    await expectNoEventTwice();
  });
});
