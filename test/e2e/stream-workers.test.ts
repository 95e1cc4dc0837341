/**
 * Several `sluice stream` processes share the tables of one pipeline, over Kafka and S3. Money goes from table to table, so
 * that the sum over all tables never changes: the versions that `consistent.json` names together must add up to it, whoever
 * wrote which. One worker is killed, one is paused until others have its tables and then wakes up, one joins late.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openStore } from '../../lakehouse/store/open-store.ts';
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { scan } from '../../lakehouse/read/scan.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import { freePort } from '../../ops/local/free-port.ts';
import { getKafka, type TestKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { getS3, type TestBucket } from '../support/s3.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const TABLES = ['purse_a', 'purse_b', 'purse_c', 'purse_d', 'purse_e', 'purse_f'];
const ROWS = 50;
const START = 1000n;
const TOTAL = START * BigInt(ROWS * TABLES.length);

const suite = await requires('several stream workers', 'pg18', 'kafka', 's3');

interface Worker {
  readonly port: number;
  readonly process: SluiceProcess;
}
interface Share {
  readonly workers: number;
  readonly tables: number;
  readonly of: number;
  readonly writesConsistent: boolean;
}
interface Cut {
  readonly lsn: string;
  readonly markSequence: number;
  readonly tables: Readonly<Record<string, { readonly path: string; readonly version: number }>>;
  readonly left: readonly string[];
}

suite('several stream workers', () => {
  const folder = temporaryFolder('stream-workers');
  const workers: Worker[] = [];
  let database: TestDatabase;
  let kafka: TestKafka;
  let s3: TestBucket;
  let reader: SluiceProcess;
  let lake: ObjectStore;

  const optionsFor = (port: number): { cwd: string; env: Record<string, string> } => ({
    cwd: folder,
    env: { ...s3.environment, PGURL: database.url, SLUICE_HTTP_PORT: String(port) },
  });
  async function startWorker(): Promise<Worker> {
    const port = await freePort();
    const worker = { port, process: startSluice(['stream'], optionsFor(port)) };
    workers.push(worker);
    return worker;
  }
  const status = async ({ port }: Worker): Promise<{ workers: Share; tables: { table: string; state: string }[] }> =>
    (await (await fetch(`http://127.0.0.1:${port}/status`, { signal: AbortSignal.timeout(10_000) })).json()) as never;

  /** Every table at exactly one of these, as even as numbers allow. */
  async function shared(among: readonly Worker[]): Promise<void> {
    let gone: string | null = null;
    const share = async (): Promise<boolean> => {
      for (const { process: each } of among) if (each.child.exitCode !== null) gone = (await each.ended).err;
      if (gone !== null) return true;
      const all = await Promise.all(among.map(status));
      const tables = all.flatMap((each) => each.tables.map(({ table }) => table));
      return (
        new Set(tables).size === TABLES.length &&
        tables.length === TABLES.length &&
        all.every(
          (each) => each.workers.workers === among.length && each.tables.length === TABLES.length / among.length,
        ) &&
        all.filter((each) => each.workers.writesConsistent).length === 1
      );
    };
    await waitFor(`the tables to be shared by ${among.length}`, share);
    expect(gone, 'a worker has ended').toBeNull();
  }

  async function readCut(): Promise<Cut | null> {
    try {
      return JSON.parse(Buffer.from(await lake.get('_sluice/consistent.json')).toString('utf8')) as Cut;
    } catch {
      return null;
    }
  }

  /** Sum of all balances and number of rows in the versions that a cut names. */
  async function moneyAt(cut: Cut): Promise<{ readonly sum: bigint; readonly rows: number }> {
    let sum = 0n;
    let rows = 0;
    for (const { path, version } of Object.values(cut.tables)) {
      const snapshot = await openSnapshot(subStore(lake, path), { version: BigInt(version) });
      for await (const batch of scan(snapshot, { columns: ['balance'] })) {
        const [column] = batch.columns;
        if (column?.kind !== 'int64') throw new Error('balance is no long');
        rows += batch.rowCount;
        for (let row = 0; row < batch.rowCount; row++) sum += column.values[row] ?? 0n;
      }
    }
    return { sum, rows };
  }

  /** Transfers, and a look at each new cut, until `action` is over. Gives the cuts that were looked at. */
  async function underTransfers(action: (cuts: readonly Cut[]) => Promise<void>): Promise<Cut[]> {
    const stop = new AbortController();
    const cuts: Cut[] = [];
    const transfers = (async (): Promise<void> => {
      const client: pg.Client = await database.connect();
      for (let i = 0; !stop.signal.aborted; i++) {
        const from = TABLES[i % TABLES.length];
        const to = TABLES[(i * 5 + 1 + (i % 4)) % TABLES.length];
        const amount = (i * 7919) % 97;
        await client.query(
          `begin; update ${from} set balance = balance - ${amount} where id = ${1 + (i % ROWS)};
           update ${to} set balance = balance + ${amount} where id = ${1 + ((i * 31) % ROWS)}; commit`,
        );
        await sleep(20);
      }
      await client.end();
    })();
    const looking = (async (): Promise<void> => {
      while (!stop.signal.aborted) {
        const cut = await readCut();
        if (cut !== null && cut.markSequence !== cuts.at(-1)?.markSequence) {
          expect({ cut, ...(await moneyAt(cut)) }).toMatchObject({ sum: TOTAL, rows: ROWS * TABLES.length });
          cuts.push(cut);
        }
        await sleep(200);
      }
    })();
    try {
      await Promise.race([action(cuts), looking]);
    } finally {
      stop.abort();
      await transfers;
    }
    await looking;
    return cuts;
  }

  /** Cuts go on after this moment. */
  async function newCut(): Promise<void> {
    const before = (await readCut())?.markSequence ?? 0;
    await waitFor('a new cut', async () => ((await readCut())?.markSequence ?? 0) > before);
  }

  async function expectEqual(): Promise<void> {
    const { out, err } = await runSluice(['verify', '--json'], optionsFor(1));
    expect(JSON.parse(out || '{}'), out.slice(0, 2000) + err).toMatchObject({ equal: true });
  }

  beforeAll(async () => {
    [database, kafka, s3] = await Promise.all([getPostgres(), getKafka(), getS3()]);
    process.env['AWS_ACCESS_KEY_ID'] = s3.accessKeyId;
    process.env['AWS_SECRET_ACCESS_KEY'] = s3.secretAccessKey;
    lake = openStore(`${s3.uri}/l`, { endpoint: s3.endpoint, region: s3.region, forcePathStyle: true });
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: ${kafka.prefix}
source: {postgres: "\${PGURL}"}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"], partitions: 2}
lake: {uri: ${s3.uri}/l, s3: {endpoint: "${s3.endpoint}"}}
stream: {trigger: 300ms}
logging: {level: warn}
`,
    );
    for (const table of TABLES)
      await database.query(
        `create table ${table} (id int primary key, balance bigint not null);
         insert into ${table} select i, ${START} from generate_series(1, ${ROWS}) i`,
      );
    reader = startSluice(['reader'], optionsFor(await freePort()));
    await startWorker();
    await startWorker();
    await startWorker();
    await shared(workers);
  });

  afterAll(async () => {
    for (const { process: child } of workers) child.kill('SIGKILL');
    reader.kill('SIGTERM');
    await Promise.all([reader, ...workers.map((worker) => worker.process)].map((child) => child.ended));
    await lake.close();
    await database.close();
  });

  it('share the tables evenly, and name versions that are one state of all', async () => {
    const cuts = await underTransfers(async (seen) => {
      await waitFor('cuts that were looked at', () => seen.length >= 2);
    });
    expect(cuts.length).toBeGreaterThanOrEqual(2);
    expect(Object.keys(cuts.at(-1)?.tables ?? {}).length).toBe(TABLES.length);
    await expectEqual();
  });

  it('take over from one that is killed and from one that stops', async () => {
    const [killed, stopped, last] = workers as [Worker, Worker, Worker];
    await underTransfers(async () => {
      killed.process.kill('SIGKILL');
      await shared([stopped, last]);
      await newCut();
      stopped.process.kill('SIGTERM');
      const { code, err } = await stopped.process.ended;
      expect(code, err).toBe(0);
      await shared([last]);
      await newCut();
    });
    await expectEqual();
  });

  it('give a worker that joins its share, and stop one that wakes up after others took over', async () => {
    const paused = workers[2] as Worker;
    await underTransfers(async () => {
      const second = await startWorker();
      const third = await startWorker();
      await shared([paused, second, third]);
      await newCut();
      paused.process.kill('SIGSTOP');
      await shared([second, third]);
      await newCut();
      paused.process.kill('SIGCONT');
      await shared([paused, second, third]);
      await newCut();
    });
    await expectEqual();
    for (const worker of workers.slice(2)) {
      const report = await status(worker);
      expect(report.tables.map(({ state }) => state)).toEqual(['STREAMING', 'STREAMING']);
    }
  });

  it('refuse a second worker where the checkpoint is one machine’s own', async () => {
    const alone = join(folder, 'alone');
    mkdirSync(alone);
    writeFileSync(
      join(alone, 'sluice.yaml'),
      `name: ${kafka.prefix}x
source: {postgres: "\${PGURL}"}
log: {kind: kafka, brokers: ["${kafka.brokers.join('", "')}"]}
lake: {uri: ./lake}
logging: {level: warn}
`,
    );
    const options = async () => ({
      cwd: alone,
      env: { PGURL: database.url, SLUICE_HTTP_PORT: String(await freePort()) },
    });
    const port = await freePort();
    const first = startSluice(['stream'], { cwd: alone, env: { PGURL: database.url, SLUICE_HTTP_PORT: String(port) } });
    // In the group: of two that come at once either may be the one that stays.
    await waitFor('the first worker', async () => (await status({ port, process: first })).workers.writesConsistent);
    const second = await runSluice(['stream'], await options());
    expect(second.code, second.err).toBe(2);
    expect(second.err).toContain('SLU-6040');
    expect(first.child.exitCode).toBeNull();
    first.kill('SIGTERM');
    expect((await first.ended).code).toBe(0);
  });
});
