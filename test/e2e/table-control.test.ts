/** One table taken up or let go while the others go on, as a person types it; and tables that came later. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('tables taken up and let go', 'pg18');

suite('tables taken up and let go', () => {
  const folder = temporaryFolder('table-control');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const start = () => pipeline.start();
  const stop = () => pipeline.stop();
  const announced = async () => (await pipeline.status())?.reader?.announced;
  const state = (table: string) => pipeline.stateOf(table);
  const equal = (table: string) => pipeline.equal(table);
  const tables = (): string =>
    readFileSync(join(folder, 'sluice.yaml'), 'utf8')
      .split('\n')
      .find((line) => line.includes('tables:')) ?? '';

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: control
source: {postgres: "\${PGURL}", newTables: announce, heartbeat: 1s,
  tables: ["public.a", "public.b*"], snapshot: {chunkRows: 1000}}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(`
      create table a (id bigint primary key, v text);
      create table b (id int primary key, v text);
      create table c (id int primary key, v text);
      create table keyless (v text);
      insert into a select i, 'a' || i from generate_series(1, 500) i;
      insert into b select i, 'b' from generate_series(1, 100) i;
      insert into c select i, 'c' from generate_series(1, 300) i;`);
    await start();
    await waitFor('the first snapshot', async () => (await equal('a')) && (await equal('b')));
  });
  afterAll(async () => {
    await stop();
    await database.close();
  });

  it('add follows a table at once, writes it into the configuration, and it outlives a restart', async () => {
    expect(await sluice('add', 'c', '--dry-run')).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing was'),
    });
    expect(await state('c')).toBeUndefined();
    const added = await sluice('add', 'c');
    expect(added, added.err).toMatchObject({ code: 0, out: expect.stringContaining('is followed') });
    expect(tables()).toContain('public.c');
    await waitFor('the table', async () => (await state('c')) === 'STREAMING');
    await database.query(`update c set v = 'changed' where id % 2 = 0; delete from c where id < 10`);
    await waitFor('its rows', () => equal('c'));
    await stop();
    await database.query(`insert into c values (1000, 'while down')`);
    await start();
    await waitFor('its rows', () => equal('c'));
    expect(await sluice('add', 'keyless')).toMatchObject({ code: 4, err: expect.stringContaining('keyless') });
    expect(await sluice('add', 'nothing')).toMatchObject({ code: 2 });
  });

  it('remove lets a table go while the others go on; added again it is exact', async () => {
    const removed = await sluice('remove', 'c', '--json');
    expect(removed, removed.err).toMatchObject({ code: 0 });
    expect(await state('c')).toBe('REMOVED');
    expect(
      await database.query(`select 1 from pg_publication_tables where pubname = 'sluice_control' and tablename = 'c'`),
    ).toEqual([]);
    await database.query(`delete from c where id between 20 and 60; insert into c values (2000, 'unheard');
      insert into a values (9001, 'goes on')`);
    await waitFor('the other', () => equal('a'));
    await stop();
    await start();
    expect(['REMOVED', 'PAUSED']).toContain(await state('c'));
    const added = await sluice('add', 'c');
    expect(added, added.err + added.out).toMatchObject({ code: 0 });
    await waitFor('the table', async () => (await state('c')) === 'STREAMING');
    await waitFor('its rows', () => equal('c'));
  });

  it('a table that came later is announced, over a restart too, until somebody adds it', async () => {
    await database.query(`create table b2 (id int primary key); insert into b2 values (1)`);
    await waitFor('the announcement', async () => (await announced())?.includes('public.b2') === true);
    await stop();
    await start();
    await waitFor('the announcement again', async () => (await announced())?.includes('public.b2') === true);
    expect(await announced()).toEqual(['public.b2']);
    expect(await state('b2')).toBeUndefined();
    expect(await sluice('add', 'b2')).toMatchObject({ code: 0 });
    await waitFor('its rows', () => equal('b2'));
  });
});
