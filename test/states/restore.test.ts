/**
 * `sluice table restore` on a table that a stream keeps, while the stream runs and while it does not: afterwards new changes go
 * on arriving (on rows that came back, too), and the command that restore prints makes the table equal.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('restore beside the stream', 'pg18');

suite('restore beside the stream', () => {
  const folder = temporaryFolder('restore');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const equal = () => pipeline.equal();
  const caughtUp = (): Promise<unknown> => waitFor('the lake to be equal', equal, { everyMs: 300 });
  const versionNow = async (): Promise<string> => (await pipeline.lineOf('docs'))?.version ?? '';
  const rows = async (where: string): Promise<string> =>
    (await sluice('sql', `select id, n, length(body) as size from public.docs where ${where} order by id`, '--json'))
      .out;
  /** Restores, lets the stream go on over the restored rows, and mends by the command that restore printed. */
  const restoreAndMend = async (to: string, whileStopped: boolean): Promise<void> => {
    if (whileStopped) await pipeline.stop();
    const restored = await sluice('table', 'restore', 'public.docs', '--to', to, '--json');
    expect(restored, restored.err).toMatchObject({ code: 0 });
    const { repair, changed } = JSON.parse(restored.out) as { repair: string; changed: boolean };
    expect(changed).toBe(true);
    expect(await rows('id in (1, 2)')).toContain('"n":0');
    if (whileStopped) await pipeline.start();
    // Row 1: its long body is not in the event. Row 2 was deleted and is back. Row 5 is deleted, row 900 is new.
    await database.query(`
      update docs set n = n + 100 where id = 1; insert into docs values (2, 7, 'again') on conflict (id) do update set n = 7;
      delete from docs where id = 5; insert into docs values (900, 9, 'new') on conflict (id) do update set n = docs.n + 1`);
    await waitFor(
      'the stream to go on',
      async () => (await rows('id = 900')).includes('"id":900') && (await rows('id = 1')).includes('10'),
    );
    const done = await sluice(...repair.replace(/^sluice /, '').split(' '));
    expect(done, done.err + done.out).toMatchObject({ code: 0 });
    expect(await equal()).toBe(true);
    // The index and the fences agree with the table: every row changes once more, and still no key stands twice.
    await database.query(`update docs set n = n + 1; delete from docs where id % 7 = 3`);
    await caughtUp();
  };
  const change = async (): Promise<void> => {
    await database.query(
      `delete from docs; insert into docs select i, 0, repeat(md5(i::text), 100) from generate_series(1, 200) i`,
    );
    await caughtUp();
  };
  const changeMore = async (): Promise<void> => {
    await database.query(
      `update docs set n = 1 where id <= 50; delete from docs where id in (2, 3); update docs set body = 'short' where id = 1`,
    );
    await caughtUp();
  };

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: res
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(
      `create table docs (id int primary key, n int, body text); alter table docs alter column body set storage external`,
    );
    await pipeline.start();
    await change();
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('to a version, while the stream runs', async () => {
    const version = await versionNow();
    await changeMore();
    await restoreAndMend(version, false);
  });

  it('to an LSN, while the stream stands still', async () => {
    await change();
    const [row] = await database.query('select pg_current_wal_lsn()::text as lsn');
    await database.query('select txid_current()');
    await changeMore();
    await restoreAndMend(row?.['lsn'] ?? '', true);
  });

  it('to a time, while the stream runs; a place that is not there is refused', async () => {
    await change();
    const time = new Date().toISOString();
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await changeMore();
    await restoreAndMend(time, false);
    expect(await sluice('table', 'restore', 'public.docs', '--to', '0/1')).toMatchObject({ code: 2 });
    expect((await sluice('table', 'restore', 'public.docs', '--to', '999999')).code).not.toBe(0);
  });
});
