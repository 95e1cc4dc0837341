/**
 * PUBLICATION_CHANGED in each form, TABLE_REPLACED and PARTITIONS_CHANGED, provoked for real, each with a hole that the stream never
 * hears of: the table (or the reader) stops by name, and what the page prints makes the lake equal, with nothing started again.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('a publication that changes', 'pg18');

suite('a publication that changes', { timeout: 120_000 }, () => {
  const folder = temporaryFolder('publication');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const readerStopsAs = async (state: string): Promise<string> => {
    const stopped = await waitFor(
      `the reader to be ${state}`,
      async () => {
        const found = (await pipeline.status())?.reader?.stopped;
        return found?.state === state ? found : null;
      },
      { deadlineMs: 30_000 },
    );
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
});
