/**
 * The commands that act on a running pipeline, as a person types them: pause, resume, backfill, repair. What they did is told
 * by `sluice verify`, which compares the rows themselves. Holes are made at the source, in a transaction that takes the table
 * out of the publication and puts it back: the stream never hears of what was written in between.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { startSluice } from '../support/sluice-process.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { changeUnheard } from '../support/unheard-change.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('continuity commands', 'pg18');

suite('continuity commands', () => {
  const folder = temporaryFolder('continuity');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const start = () => pipeline.start();
  const stop = () => pipeline.stop();
  /** Changes that the stream does not hear of. */
  const unheard = (table: string, sql: string): Promise<unknown> => changeUnheard(database, 'sluice_cont', table, sql);
  const verify = async (table: string) => {
    const { code, out, err } = await sluice('verify', '--tables', `public.${table}`, '--json');
    const [report] = (JSON.parse(out || '{"tables": []}') as { tables: { equal: boolean; differing: number }[] })
      .tables;
    return { code, err, ...report };
  };
  const state = (table: string) => pipeline.lineOf(table);

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: cont
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s, snapshot: {chunkRows: 1000}}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(`
      create table orders (id bigint primary key, note text, amount numeric(12,2));
      create table lines (order_id int, part text, n int, primary key (order_id, part));
      create table other (id int primary key, v text);
      insert into orders select i, 'order ' || i, i / 7.0 from generate_series(1, 5000) i;
      insert into lines select i, 'part ''' || i % 3, i from generate_series(1, 500) i;
      insert into other select i, 'v' from generate_series(1, 100) i;
      -- A SELECT from orders gives these rows too, with keys that orders has itself; they are published as rows of their own table.
      create table heirs (kin text, primary key (id)) inherits (orders);
      insert into heirs select i, 'heir ' || i, i from generate_series(50, 5000, 50) i;`);
    await start();
    await waitFor('the first snapshot', async () => (await verify('other')).equal === true);
  });
  afterAll(async () => {
    await stop();
    await database.close();
  });

  it('pause holds one table while the others go on, over a restart, and resume catches up', async () => {
    expect(await sluice('pause', 'orders')).toMatchObject({
      code: 0,
      out: expect.stringContaining('until it is resumed'),
    });
    const before = await state('orders');
    expect(before?.state).toBe('PAUSED');
    await database.query(
      `update orders set note = 'paused' where id <= 100; update other set v = 'moved' where id <= 10`,
    );
    expect((await verify('other')).equal).toBe(true);
    const all = await sluice('verify', '--json');
    expect(all).toMatchObject({ code: 1, json: { equal: false, notCompared: [{ table: 'public.orders' }] } });
    await stop();
    await start();
    expect(await state('orders')).toMatchObject({ state: 'PAUSED' });
    expect((await verify('other')).equal).toBe(true);
    expect(await sluice('resume', 'public.orders', '--json')).toMatchObject({
      code: 0,
      json: { tables: ['public.orders'] },
    });
    expect((await verify('orders')).equal).toBe(true);
    await waitFor('it to stream', async () => (await state('orders'))?.state === 'STREAMING');
  });

  it('repair finds what differs, is missing or extra, reads those keys alone, and compares again', async () => {
    await verify('orders');
    await unheard(
      'orders',
      `update orders set amount = amount + 1 where id = 17; insert into orders values (7001, 'missing', 1); delete from orders where id in (23, 24)`,
    );
    expect(await verify('orders')).toMatchObject({ code: 1, equal: false, differing: 4 });
    const dry = await sluice('repair', 'orders', '--dry-run', '--json');
    expect(dry).toMatchObject({
      code: 1,
      json: { plan: 'keys', equal: false, keys: 0, differences: { differs: 1, missing: 1, extra: 2 } },
    });
    expect(await verify('orders')).toMatchObject({ differing: 4 });
    const done = await sluice('repair', 'orders');
    expect(done.out).toContain('reads 4 keys again');
    expect(done).toMatchObject({ code: 0, out: expect.stringContaining('equal now') });
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
    expect(await sluice('repair', 'orders')).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing to repair'),
    });
  });

  it('verify --repair mends a table whose key has several columns', async () => {
    await unheard('lines', `delete from lines where order_id = 5; update lines set n = -1 where order_id = 7`);
    expect(await sluice('verify', '--tables', 'public.lines', '--repair')).toMatchObject({
      code: 0,
      out: expect.stringContaining('verified: true'),
    });
    expect(await verify('lines')).toMatchObject({ equal: true });
  });

  it('backfill reads what a condition selects, or the whole table, while rows change', async () => {
    await unheard('orders', `update orders set note = 'unheard' where id between 1000 and 1999`);
    expect(
      await sluice('backfill', 'orders', '--where', 'id between 1000 and 1999', '--dry-run', '--json'),
    ).toMatchObject({
      code: 0,
      json: { dryRun: true },
    });
    expect(await verify('orders')).toMatchObject({ equal: false, differing: 1000 });
    const part = await sluice('backfill', 'orders', '--where', "id < 1500 and note = 'unheard'", '--json');
    expect(part, part.err).toMatchObject({ code: 0, json: { phase: 'done', rows: 500, inLake: true } });
    expect(await verify('orders')).toMatchObject({ differing: 500 });
    const writes = (async () => {
      for (let i = 0; i < 50; i += 1) {
        await database.query(
          `update orders set note = 'live ' || ${i} where id % 50 = ${i}; delete from orders where id = ${4000 + i}`,
        );
      }
    })();
    const whole = await sluice('backfill', 'orders', '--json');
    await writes;
    expect(whole, whole.err).toMatchObject({ code: 0, json: { phase: 'done', resumable: true, inLake: true } });
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
  });

  it('backfill of a range of keys and of rows since a transaction', async () => {
    await unheard('orders', `update orders set note = 'range' where id between 2100 and 2199`);
    const range = await sluice('backfill', 'orders', '--from-key', '2100', '--to-key', '2149', '--json');
    expect(range, range.err).toMatchObject({ code: 0, json: { phase: 'done', rows: 50 } });
    expect(await verify('orders')).toMatchObject({ differing: 50 });
    const xmin = (await database.query(`select xmin::text as x from orders where id = 2150`))[0]?.['x'] ?? '';
    const since = await sluice('backfill', 'orders', '--since-xmin', String(xmin), '--json');
    expect(since, since.err).toMatchObject({ code: 0, json: { phase: 'done' } });
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
    await unheard('lines', `update lines set n = -7 where order_id between 100 and 110`);
    const lines = await sluice('backfill', 'lines', '--from-key', '[100, ""]', '--to-key', '[110, "zzz"]', '--json');
    expect(lines, lines.err).toMatchObject({ code: 0, json: { rows: 11 } });
    expect(await verify('lines')).toMatchObject({ equal: true });
  });

  it('backfill of columns fills them in the rows that stand there, and leaves the others as they are', async () => {
    await database.query(`alter table orders add column extra int default 7, add column big text`);
    await database.query(`update orders set amount = 1 where id = 1`);
    expect(await verify('orders')).toMatchObject({ equal: true });
    await unheard(
      'orders',
      `update orders set extra = 8, big = case when id % 100 = 0 then (select string_agg(md5((id * g)::text), '') from generate_series(1, 80) g) end;
       update orders set note = 'not asked for' where id = 2549`,
    );
    expect(await verify('orders')).toMatchObject({ equal: false, differing: 1000 });
    const writes = (async () => {
      for (let i = 0; i < 40; i += 1)
        await database.query(
          `update orders set extra = ${i} where id % 50 = ${i}; delete from orders where id = ${4100 + i}; update orders set amount = ${i} where id = 100`,
        );
    })();
    const filled = await sluice('backfill', 'orders', '--columns', 'extra,big', '--json');
    await writes;
    expect(filled, filled.err).toMatchObject({ code: 0, json: { phase: 'done', inLake: true } });
    expect(await verify('orders')).toMatchObject({ equal: false, differing: 1 });
    const note = await sluice('backfill', 'orders', '--columns', 'note', '--where', 'id = 2549', '--json');
    expect(note, note.err).toMatchObject({ code: 0, json: { rows: 1 } });
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
    const unknown = await sluice('backfill', 'orders', '--columns', 'ghost');
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining("no column 'ghost'") });
    expect(await sluice('backfill', 'orders', '--columns', 'extra', '--exact')).toMatchObject({ code: 2 });
  });

  it('backfill within a rate; --exact removes what the source no longer has', async () => {
    await unheard('orders', `delete from orders where id between 3000 and 3049`);
    const done = await sluice('backfill', 'orders', '--rate', '100MB', '--exact', '--json');
    expect(done, done.err).toMatchObject({ code: 0, json: { phase: 'done', resumable: true, removed: 50 } });
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
  });

  it('quarantine lists, shows, retries after the contract was mended, and gives up; with and without a service', async () => {
    const contract = (highest: number): void =>
      pipeline.writeContract(
        'priced',
        `apiVersion: v3.1.0
kind: DataContract
id: priced
version: 1.0.${highest}
status: active
schema:
  - name: priced
    physicalName: public.priced
    physicalType: table
    logicalType: object
    properties:
      - {name: id, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: secret, logicalType: string, physicalType: text, classification: restricted}
      - {name: price, logicalType: integer, physicalType: integer, logicalTypeOptions: {maximum: ${highest}}}
`,
      );
    contract(10);
    await database.query(`create table priced (id int primary key, secret text, price int)`);
    await waitFor('the new table', async () => (await state('priced'))?.state === 'STREAMING');
    await database.query(
      `insert into priced values (1, 'hush', 5), (2, 'hush', 50), (3, 'hush', 60), (4, 'hush', 700)`,
    );
    const parked = async () => {
      const { json } = await sluice('quarantine', 'list', 'priced', '--json');
      return json['rows'] as { id: string; table: string; attempts: number }[];
    };
    await waitFor('the parked rows', async () => (await parked()).length === 3);
    expect(await sluice('quarantine', 'retry')).toMatchObject({
      code: 1,
      out: expect.stringContaining('3 parked again'),
    });
    const [first] = await parked();
    expect(first).toMatchObject({ table: 'public.priced', attempts: 1 });
    const shown = await sluice('quarantine', 'show', first?.id ?? '', '--json');
    expect(shown, shown.err).toMatchObject({ code: 0, json: { row: { columns: { secret: '***' } } } });
    expect(JSON.stringify(shown.json)).not.toContain('hush');

    contract(100);
    const retried = await sluice('quarantine', 'retry', 'priced', '--json');
    expect(retried, retried.err).toMatchObject({
      code: 1,
      json: { tables: [{ table: 'public.priced', retried: 3, applied: 2, parkedAgain: 1 }] },
    });
    expect(await verify('priced')).toMatchObject({ equal: true });
    expect((await sluice('quarantine', 'list')).out).toContain('public.priced');
    await stop();
    contract(1000);
    const alone = await sluice('quarantine', 'retry', '--json');
    expect(alone, alone.err).toMatchObject({ code: 0, json: { tables: [{ retried: 1, applied: 1, parkedAgain: 0 }] } });
    expect(await sluice('quarantine', 'retry')).toMatchObject({ code: 0, out: 'nothing is in quarantine\n' });
    await start();
    expect(await verify('priced')).toMatchObject({ code: 0, equal: true });
    await database.query(`insert into priced values (5, 'hush', 5000)`);
    await waitFor('the parked row', async () => (await parked()).length === 1);
    const [last] = await parked();
    expect(await sluice('quarantine', 'drop', last?.id ?? '')).toMatchObject({ code: 0 });
    expect(await sluice('quarantine', 'drop', last?.id ?? '')).toMatchObject({
      code: 0,
      out: expect.stringContaining('not parked'),
    });
    expect(await sluice('quarantine', 'show', 'zz')).toMatchObject({ code: 2 });
    expect(await parked()).toEqual([]);
  });

  it('plan lists what run would create, and creates none of it', async () => {
    writeFileSync(
      join(folder, 'planned.yaml'),
      'name: planned\nsource: {postgres: "${PGURL}", tables: ["public.*"]}\nlake: {uri: ./planned-lake}\nstate: ./planned-state\n',
    );
    await database.query('create table keyless (a int); analyze orders');
    const plan = await sluice('plan', '--config', 'planned.yaml', '--json');
    expect(plan, plan.err).toMatchObject({
      code: 1,
      json: {
        objects: expect.arrayContaining([
          expect.objectContaining({ kind: 'publication', name: 'sluice_planned', exists: false }),
          expect.objectContaining({ kind: 'slot', name: 'sluice_planned', exists: false }),
          expect.objectContaining({ kind: 'lake table', name: 'public/orders', exists: false }),
        ]),
        tables: expect.arrayContaining([
          expect.objectContaining({
            table: 'public.keyless',
            refused: expect.objectContaining({ why: expect.any(String) }),
          }),
          expect.objectContaining({ table: 'public.orders', refused: null }),
        ]),
      },
    });
    const orders = (plan.json['tables'] as { table: string; rows: number }[]).find(
      ({ table }) => table === 'public.orders',
    );
    expect(orders?.rows).toBeGreaterThan(4_000);
    expect(existsSync(join(folder, 'planned-lake'))).toBe(false);
    expect(existsSync(join(folder, 'planned-state'))).toBe(false);
    const made = await database.query(
      `select slot_name from pg_replication_slots where slot_name = 'sluice_planned' union all select pubname from pg_publication where pubname = 'sluice_planned'`,
    );
    expect(made).toEqual([]);
    const standing = await sluice('plan', '--json');
    expect(standing.json['objects']).toEqual(
      expect.arrayContaining([expect.objectContaining({ kind: 'slot', name: 'sluice_cont', exists: true })]),
    );
    await database.query('drop table keyless');
  });

  it('verify --continuous goes from table to table and publishes what it finds', async () => {
    await unheard('other', `update other set v = 'unheard' where id = 1`);
    const metric = async (name: string): Promise<string> => {
      const text = await pipeline.metrics();
      return text.split('\n').find((line) => line.startsWith(`${name}{table="public.other"}`)) ?? '';
    };
    const walking = startSluice(['verify', '--continuous', '--rate', '50MB', '--json', '--tables', 'public.other'], {
      cwd: folder,
      env: pipeline.env,
    });
    await waitFor('the mismatch', async () =>
      /[1-9]/.test((await metric('sluice_verify_mismatches_total')).split(' ')[1] ?? ''),
    );
    expect(await metric('sluice_verify_coverage_ratio')).toMatch(/ 1$/);
    // Alerts join metrics by this label: one table has one name in all of them.
    const text = await pipeline.metrics();
    const labelled = [...text.matchAll(/^(sluice_\w+)\{.*?\btable="([^"]*)"/gm)];
    expect(new Set(labelled.map(([, name]) => name))).toContain('sluice_stream_batches_total');
    expect(labelled.map(([, , table]) => table).filter((table) => table?.startsWith('public.') !== true)).toEqual([]);
    walking.kill('SIGTERM');
    const { code, out } = await walking.ended;
    expect(code).toBe(1);
    expect(JSON.parse(out.split('\n')[0] ?? '{}')).toMatchObject({ table: 'public.other', equal: false, differing: 1 });
    expect(await sluice('repair', 'other')).toMatchObject({ code: 0 });
  });

  it('removing absent keys never removes a row that comes back at that moment', async () => {
    let asking = true;
    let asked = 0;
    const changes = (async () => {
      for (let i = 0; i < 400 || asked < 3; i += 1) {
        const id = (i * 37) % 50;
        await database.query(
          i % 3 === 0
            ? `delete from other where id = ${id}`
            : `insert into other values (${id}, 'r${i}') on conflict (id) do update set v = excluded.v`,
        );
      }
      asking = false;
    })();
    const keys = Array.from({ length: 60 }, (_, id) => [String(id)]);
    while (asking) {
      const answer = await fetch(`http://127.0.0.1:${pipeline.port}/control/fetch-keys`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ table: 'public.other', keys, removeAbsent: true }),
      });
      // Keys that the stream itself has just brought are left to it.
      const { rows } = (await answer.json()) as { rows: number };
      expect(rows).toBeGreaterThan(0);
      expect(rows).toBeLessThanOrEqual(keys.length);
      asked += 1;
    }
    await changes;
    expect(asked).toBeGreaterThan(1);
    expect(await verify('other')).toMatchObject({ code: 0, equal: true });
  });

  it('a backfill of a whole table goes on after the service was killed in the middle of it', async () => {
    await stop();
    await pipeline.start({ SLUICE_FAILPOINT: 'during-snapshot-chunk:3' });
    await unheard('orders', `update orders set note = 'unheard again' where id > 100`);
    const interrupted = await sluice('backfill', 'orders');
    expect(interrupted.code, interrupted.out + interrupted.err).toBe(3);
    expect((await pipeline.process()?.ended)?.signal).toBe('SIGKILL');
    await start();
    expect(await verify('orders')).toMatchObject({ code: 0, equal: true });
  });

  it('refuses what it cannot do, and says what would', async () => {
    expect(await sluice('pause', 'ordrs')).toMatchObject({
      code: 2,
      err: expect.stringContaining("did you mean 'public.orders'"),
    });
    expect(await sluice('backfill', 'orders', '--where', 'true); drop table orders')).toMatchObject({ code: 2 });
    expect(await sluice('backfill', 'orders', '--where', 'no_such_column = 1')).toMatchObject({
      code: 1,
      err: expect.stringContaining('no_such_column'),
    });
    expect(await sluice('backfill', 'orders', '--cancel')).toMatchObject({ code: 2 });
    expect(await sluice('pause', 'orders', '--url', 'http://127.0.0.1:1')).toMatchObject({ code: 3 });
    expect(await verify('orders')).toMatchObject({ equal: true });
  });
});
