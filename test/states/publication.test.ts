/**
 * PUBLICATION_CHANGED in each form, TABLE_REPLACED and PARTITIONS_CHANGED, provoked for real, each with a hole that the stream never
 * hears of: the table (or the reader) stops by name, and what the page prints makes the lake equal, with nothing started again.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('a publication that changes', 'pg18');

suite('a publication that changes', () => {
  const folder = temporaryFolder('publication');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const readerStopsAs = async (state: string): Promise<string> => {
    const stopped = await waitFor(`the reader to be ${state}`, async () => {
      const found = (await pipeline.status())?.reader?.stopped;
      return found?.state === state ? found : null;
    });
    const status = await sluice('status');
    expect(status.code).toBe(4);
    expect(status.out).toContain(`${statePage(state, '').code} ${state}`);
    return `${stopped.detail}\n${stopped.remedy}`;
  };
  const mend = async (...command: string[]): Promise<void> => {
    const done = await sluice(...command);
    expect(done, done.out + done.err).toMatchObject({ code: 0 });
    await waitFor('equality', () => pipeline.equal(), { everyMs: 300 });
    expect(await sluice('status')).toMatchObject({ code: 0 });
  };

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: pub
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(`
      create table a (id int primary key, v text, w text); insert into a select i, 'v', 'w' from generate_series(1, 50) i;
      create table b (id int primary key, v text, w text); insert into b select i, 'v', 'w' from generate_series(1, 50) i`);
    await pipeline.start();
    await waitFor('the first snapshot', () => pipeline.equal(), { everyMs: 300 });
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('that no longer publishes deletes is a hole still when it is set back; one that was dropped is made anew by the repair', async () => {
    await database.query(`alter publication sluice_pub set (publish = 'insert, update, truncate');
      delete from a where id < 5; update a set v = 'x' where id = 9`);
    expect(await readerStopsAs('PUBLICATION_INCOMPLETE')).toContain('does not publish delete');
    await database.query(`alter publication sluice_pub set (publish = 'insert, update, delete, truncate')`);
    expect(await readerStopsAs('PUBLICATION_CHANGED')).toContain('sluice repair --all');
    await database.query(
      `drop publication sluice_pub; delete from a where id = 11; update b set v = 'unheard' where id = 12`,
    );
    await waitFor('the state of a dropped one', async () =>
      (await pipeline.status())?.reader?.stopped?.detail.includes('made again'),
    );
    await mend('repair', '--all');
    await database.query(`update b set v = 'heard' where id = 12`);
    await waitFor('what came later', () => pipeline.equal('b'), { everyMs: 300 });
  });

  it('that was altered and set back while nothing ran', async () => {
    await pipeline.stop();
    await database.query(`alter publication sluice_pub set (publish = 'insert'); delete from a where id = 12;
      alter publication sluice_pub set (publish = 'insert, update, delete, truncate')`);
    await pipeline.start();
    await readerStopsAs('PUBLICATION_CHANGED');
    await mend('repair', '--all');
  });

  it('that got a column list', async () => {
    await database.query(
      `alter publication sluice_pub set table a (id, v), b; update a set v = 'x', w = 'unheard' where id = 14`,
    );
    await waitFor('the state', async () => (await pipeline.stateOf('a')) === 'PUBLICATION_CHANGED');
    expect((await sluice('status')).out).toContain('column list of public.a');
    expect(await pipeline.stateOf('b')).toBe('STREAMING');
    await database.query(`alter publication sluice_pub set table a, b`);
    await mend(...statePage('PUBLICATION_CHANGED', 'a').command);
  });

  it('that has a row filter: verify compares the rows that it lets through, and every NaN is one value', async () => {
    await database.query(
      `alter table b add column f float8; alter publication sluice_pub set table a, b where (id < 40)`,
    );
    await waitFor('the state', async () => (await pipeline.stateOf('b')) === 'PUBLICATION_CHANGED');
    await mend(...statePage('PUBLICATION_CHANGED', 'b').command);
    await database.query(
      `update b set f = -'NaN'::float8 where id < 3; update b set v = 'not published' where id > 45`,
    );
    await waitFor('what came later', () => pipeline.equal('b'), { everyMs: 300 });
    await database.query(`alter publication sluice_pub set table a, b`);
    await waitFor('the state', async () => (await pipeline.stateOf('b')) === 'PUBLICATION_CHANGED');
    await mend(...statePage('PUBLICATION_CHANGED', 'b').command);
  });

  it('that lost a table and got it back between two looks; the cut of all tables leaves it out until it is read again', async () => {
    const cut = async (): Promise<{ readonly tables: object; readonly left: readonly string[] }> =>
      JSON.parse(readFileSync(join(folder, 'lake/_sluice/consistent.json'), 'utf8')) as never;
    await waitFor('all tables in the cut', async () => (await cut()).left.length === 0, { everyMs: 300 });
    await database.query(`begin; alter publication sluice_pub drop table a; update a set v = 'unheard' where id = 15;
      alter publication sluice_pub add table a; commit; update b set v = 'heard' where id = 15`);
    await waitFor('the state', async () => (await pipeline.stateOf('a')) === 'PUBLICATION_CHANGED');
    expect((await pipeline.lineOf('a'))?.why).toContain('came back');
    expect(await pipeline.equal('b')).toBe(true);
    await waitFor('the cut without it', async () => (await cut()).left.includes('public.a'), { everyMs: 300 });
    expect(Object.keys((await cut()).tables)).toEqual(['public.b']);
    const compared = await sluice('verify', '--tables', 'public.a');
    expect(compared, compared.out + compared.err).toMatchObject({
      code: 1,
      out: expect.stringContaining('differs (15) in v'),
    });
    await mend(...statePage('PUBLICATION_CHANGED', 'a').command);
    await waitFor('the cut with it', async () => 'public.a' in (await cut()).tables, { everyMs: 300 });
  });

  it('that lost a table and got it back while nothing ran', async () => {
    await pipeline.stop();
    await database.query(`alter publication sluice_pub drop table a; update a set v = 'unheard' where id = 16;
      alter publication sluice_pub add table a`);
    await pipeline.start();
    await waitFor('the state', async () => (await pipeline.stateOf('a')) === 'PUBLICATION_CHANGED');
    expect(await pipeline.stateOf('b')).toBe('STREAMING');
    await mend(...statePage('PUBLICATION_CHANGED', 'a').command);
  });

  it('lets go of a partition that was detached, taken as a table of its own, and attached again', async () => {
    await database.query(`
      create table whole (id int, part int, v text, primary key (id, part)) partition by list (part);
      create table whole_1 partition of whole for values in (1);
      create table whole_2 (v text, part int not null, id int not null, primary key (id, part));
      alter table whole attach partition whole_2 for values in (2);
      insert into whole select i, 1 + i % 2, 'v' from generate_series(1, 40) i`);
    await waitFor('the partitioned table', () => pipeline.equal('whole'), { everyMs: 300 });
    await database.query(`alter table whole detach partition whole_2; update whole_2 set v = 'detached' where id < 10`);
    await waitFor('the detached one', () => pipeline.equal('whole', 'whole_2'), { everyMs: 300 });
    await database.query(
      `alter table whole attach partition whole_2 for values in (2); update whole set v = 'attached' where id < 5`,
    );
    await waitFor('the state', async () => (await pipeline.stateOf('whole_2')) === 'REMOVED');
    await waitFor('the whole', () => pipeline.equal('whole'), { everyMs: 300 });
    expect(await sluice('status')).toMatchObject({ code: 0 });
    expect(await sluice('verify'), 'it is not compared any more').toMatchObject({ code: 0 });
    await database.query(`alter table whole detach partition whole_2; delete from whole_2 where id = 1`);
    await waitFor('the one detached again', () => pipeline.equal('whole', 'whole_2'), { everyMs: 300 });
  });

  it('TABLE_MISSING is what a table is that was dropped while nothing ran, and what cannot be followed any more has its name', async () => {
    await pipeline.stop();
    await database.query('drop table whole_2; alter table b drop constraint b_pkey');
    await pipeline.start();
    await waitFor('the state', async () => (await pipeline.stateOf('whole_2')) === 'TABLE_MISSING');
    expect((await pipeline.lineOf('b'))?.state).toBe('TABLE_NO_KEY');
    expect((await pipeline.lineOf('b'))?.remedy).toContain('sluice repair public.b');
    expect(await sluice('remove', 'whole_2')).toMatchObject({ code: 0 });
    await database.query('alter table b add primary key (id)');
    await mend('repair', 'b');
  });
});
