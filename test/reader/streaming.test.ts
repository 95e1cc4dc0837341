/**
 * Transactions sent while they run (protocol 2) against the same transactions sent whole: the events, their order and their
 * ordinals are the same; with aborted sub-transactions, DDL inside, transactions side by side, and more of them than memory may
 * hold. And one large transaction through the whole pipeline, in bounded memory, in both modes.
 */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { openHarness, type Harness, type LogEvent } from './harness.ts';

const suite = await requires('streamed transactions', 'pg18');
const ROWS = Number(process.env['SLUICE_TEST_TRANSACTION_ROWS'] ?? 40_000);
const WORK_MEM = '-c logical_decoding_work_mem=64kB';

suite('streamed transactions', () => {
  const folder = temporaryFolder('streaming');
  let db: TestDatabase;
  const harnesses: Harness[] = [];

  beforeAll(async () => {
    db = await getPostgres();
    await db.query(`
      create table t (id int primary key, v text);
      create table u (id int, part int, v text, primary key (id, part));`);
  });
  afterAll(async () => {
    for (const harness of harnesses) await harness.close();
    await db.close();
  });

  it('give the events, the order and the ordinals of whole ones', async () => {
    const url = new URL(db.url);
    url.searchParams.set('options', WORK_MEM);
    const small = { ...db, url: url.href };
    const whole = await openHarness(small, 'whole');
    const streamed = await openHarness(small, 'streamed');
    harnesses.push(whole, streamed);
    const spill = join(folder, 'spill');
    const readers = [
      await whole.start(),
      await streamed.start({ streaming: { folder: spill }, limits: { streamedBytesMax: 100_000 } }),
    ] as const;
    await whole.snapshotsDone(readers[0]);
    await streamed.snapshotsDone(readers[1]);

    const [one, two, three] = [await db.connect(), await db.connect(), await db.connect()];
    const many = (from: number, count: number): string =>
      `insert into t select i, repeat(md5(i::text), 8) from generate_series(${from}, ${from + count - 1}) i`;
    await one.query(`begin; ${many(1, 2000)}; savepoint a; ${many(10_000, 1500)}`);
    await two.query(`begin; insert into u select i, 1, repeat('u', 300) from generate_series(1, 2000) i`);
    await three.query(`begin; ${many(20_000, 3000)}`);
    let spilled = 0;
    await waitFor('a transaction on disk', () => (spilled = readdirSync(spill).length) > 0, { everyMs: 50 });
    await one.query(`savepoint b; delete from t where id < 100; rollback to a; ${many(30_000, 1000)}`);
    await db.query(`insert into t values (-1, 'in between')`);
    await two.query(
      `update u set id = id + 5000 where id <= 300; alter table u add column later int default 3; update u set later = 4 where id = 7`,
    );
    await three.query('rollback');
    await one.query(
      `savepoint c; ${many(40_000, 500)}; savepoint d; ${many(50_000, 1200)}; release d; rollback to c; update t set v = 'kept' where id = 5`,
    );
    await two.query('commit');
    await one.query('commit');
    await db.query(`begin; truncate u; ${many(60_000, 1500)}; commit; insert into u values (1, 1, 'after', 5)`);
    await whole.caughtUp(readers[0]);
    await streamed.caughtUp(readers[1]);

    for (const table of ['t', 'u']) {
      const order = (events: readonly LogEvent[]) =>
        events
          .filter(({ op }) => op !== 'r')
          .map(({ op, lsn, ord, key, value }) => ({
            op,
            lsn,
            ord,
            key,
            after: value['after'],
            before: value['before'],
          }))
          .toSorted((a, b) => Number(a.lsn - b.lsn) || a.ord - b.ord || (a.key ?? '').localeCompare(b.key ?? ''));
      const [left, right] = [order(await whole.events(table)), order(await streamed.events(table))];
      expect(right).toEqual(left);
      expect(left.length).toBeGreaterThan(1500);
      expect(await streamed.rows(table)).toEqual(await whole.rows(table));
    }
    expect(spilled).toBeGreaterThan(0);
    expect(readdirSync(spill)).toEqual([]);
    for (const reader of readers) await reader.stop();
  });

  it.each(['off', 'on'] as const)(
    `pass ${ROWS} rows of one transaction in bounded memory, streaming: %s`,
    async (mode) => {
      const cwd = join(folder, `large-${mode}`);
      mkdirSync(cwd, { recursive: true });
      await db.query(
        `create schema large_${mode}; create table large_${mode}.t (id int primary key, v text, n numeric)`,
      );
      writeFileSync(
        join(cwd, 'sluice.yaml'),
        `name: large_${mode}
source: {postgres: "\${PGURL}", tables: ["large_${mode}.*"], streaming: "${mode}"}
lake: {uri: ./lake}
stream: {trigger: 200ms}
http: {port: 0}
logging: {level: warn}
`,
      );
      const options = { cwd, env: { PGURL: db.url } };
      expect((await runSluice(['run', '--available-now'], options)).code).toBe(0);
      await db.query(
        `begin; insert into large_${mode}.t select i, md5(i::text), i / 7.0 from generate_series(1, ${ROWS}) i; savepoint s; delete from large_${mode}.t; rollback to s; update large_${mode}.t set n = 0 where id % 10 = 0; commit`,
      );
      const run = startSluice(['run', '--available-now'], options);
      let peak = 0;
      const watch = setInterval(() => {
        try {
          const status = readFileSync(`/proc/${run.child.pid}/status`, 'utf8');
          peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
        } catch {
          // It has ended.
        }
      }, 100);
      const { code, err } = await run.ended;
      clearInterval(watch);
      expect(code, err).toBe(0);
      const sql = `select count(*) as c, sum(case when n = '0' then 1 else 0 end) as z, max(md5(cast(id as varchar)) = v) as same from large_${mode}.t`;
      const found = await runSluice(['sql', sql, '--format', 'csv'], options);
      expect(found.out.trim().split('\n')[1]).toBe(`${ROWS},${Math.floor(ROWS / 10)},true`);
      console.info(`${ROWS} rows in one transaction, streaming ${mode}: ${Math.round(peak)} MB resident at most`);
      expect(peak).toBeLessThan(512);
    },
  );
});
