/**
 * Rows whose key enters a publication's row filter: the INSERT that the server sends carries unchanged TOAST, and no snapshot had the
 * row. The stream asks for it by itself: in one process, and through Kafka where reader and stream are two.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { getKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const embedded = await requires('rows that enter a row filter', 'pg18');
const kafka = await requires('rows that enter a row filter, through Kafka', 'pg18', 'kafka');
const folder = temporaryFolder('missing-base');

let database: TestDatabase;
beforeAll(async () => {
  database = await getPostgres();
});
afterAll(() => database.close());

async function pipeline(name: string, log: string) {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const port = await freePort();
  writeFileSync(
    join(cwd, 'sluice.yaml'),
    `name: ${name}
source: {postgres: "\${PGURL}", tables: ["${name}.*"]}
${log}
lake: {uri: ./lake}
stream: {trigger: 100ms}
http: {port: ${port}}
logging: {level: warn}
`,
  );
  await database.query(`
    create schema ${name};
    create table ${name}.t (id int, part bytea, active boolean not null, n int, big text, primary key (id, part, active));
    alter table ${name}.t alter column big set storage external;
    insert into ${name}.t select i, decode('00ff' || lpad(to_hex(i), 4, '0'), 'hex'), i <= 50, 0, repeat(md5(i::text), 200) from generate_series(1, 100) i;
    create publication sluice_${name} for table ${name}.t where (active) with (publish_via_partition_root = true);`);
  return { cwd, env: { PGURL: database.url } };
}
type Options = Awaited<ReturnType<typeof pipeline>>;

const source = async (name: string): Promise<string[]> =>
  (await database.query(`select id || ';' || n || ';' || md5(big) as r from ${name}.t where active order by id`)).map(
    ({ r }) => r ?? '',
  );
async function lake(options: Options, name: string): Promise<string[]> {
  const sql = `select id || ';' || n || ';' || md5(big) as r from ${name}.t order by id`;
  const { code, out, err } = await runSluice(['sql', sql, '--format', 'csv'], options);
  expect(code, err).toBe(0);
  return out
    .split('\n')
    .slice(1)
    .filter((line) => line !== '');
}
const parked = async (options: Options): Promise<unknown> => {
  const { out } = await runSluice(['quarantine', 'list', '--json'], options);
  return (JSON.parse(out === '' ? '{"rows": []}' : out) as { rows: unknown[] }).rows;
};

embedded('rows that enter a row filter', () => {
  it('are read at the source before a run ends, also after a kill', async () => {
    const options = await pipeline('one', '');
    const catchUp = async (): Promise<void> => {
      const { code, err } = await runSluice(['run', '--available-now'], options);
      expect(code, err).toBe(0);
    };
    await catchUp();
    expect(await lake(options, 'one')).toEqual(await source('one'));
    await database.query(`
      update one.t set active = true where id between 51 and 60;
      update one.t set n = n + 1 where id = 55;
      update one.t set active = true, n = 5 where id = 61;
      delete from one.t where id = 52;
      update one.t set active = false where id in (3, 53);`);
    const killed = startSluice(['run'], {
      ...options,
      env: { ...options.env, SLUICE_FAILPOINT: 'after-table-commit:1' },
    });
    await Promise.race([killed.ended, sleep(8_000)]);
    killed.kill('SIGKILL');
    await killed.ended;
    await catchUp();
    expect(await lake(options, 'one')).toEqual(await source('one'));
    expect(await parked(options)).toEqual([]);
    await database.query(`update one.t set active = true where id = 90`);
    await catchUp();
    expect(await lake(options, 'one')).toEqual(await source('one'));
  });
});

kafka('rows that enter a row filter, through Kafka', () => {
  it('are asked for by the stream and read by the reader, each a process of its own', async () => {
    const broker = await getKafka();
    const options = await pipeline('two', `log: {kind: kafka, brokers: ["${broker.brokers[0]}"], partitions: 2}`);
    const [reader, stream] = [await freePort(), await freePort()];
    const halves = [
      startSluice(['reader'], { ...options, env: { ...options.env, SLUICE_HTTP_PORT: String(reader) } }),
      startSluice(['stream'], { ...options, env: { ...options.env, SLUICE_HTTP_PORT: String(stream) } }),
    ];
    try {
      const equal = async (): Promise<boolean> =>
        JSON.stringify(await lake(options, 'two').catch(() => [])) === JSON.stringify(await source('two'));
      await waitFor('the snapshot', equal, { everyMs: 1_000 });
      await database.query(
        `update two.t set active = true where id between 51 and 60; update two.t set n = 2 where id = 58`,
      );
      await waitFor('the rows that were asked for', equal, { everyMs: 1_000 });
    } finally {
      for (const half of halves) half.kill('SIGTERM');
      for (const half of halves) {
        const { code, err } = await half.ended;
        expect(code, err).toBe(0);
      }
    }
  });
});
