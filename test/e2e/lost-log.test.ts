/**
 * What a pipeline loses beside its lake: the embedded log, the state folder, the checkpoints, the whole machine. Each either
 * goes on to equality by itself or stops by a name whose command mends it; `sluice verify` compares the rows.
 */
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('a pipeline that lost its log or state', 'pg18');

suite('a pipeline that lost its log or state', () => {
  const folder = temporaryFolder('lost-log');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const serve = (work: () => Promise<void>) => pipeline.serve(work);
  const equal = () => pipeline.expectEqual();
  const states = async (): Promise<Record<string, string>> => {
    const tables = (await pipeline.status())?.tables ?? [];
    return Object.fromEntries(tables.map(({ table, state }) => [table, state]));
  };
  /** Rows come, change and go, so that what only the lost log knew is in neither place. */
  let round = 0;
  const change = async (): Promise<void> => {
    round += 1;
    await database.query(`
      insert into a select i, 'round ${round}' from generate_series(${10000 + round * 100}, ${10049 + round * 100}) i;
      update a set v = v || ' changed ${round}' where id % 7 = ${round % 7};
      delete from a where id % 13 = ${round % 13};
      delete from b where y = ${round};
      insert into b values (${round}, ${round + 1}, repeat('toast ${round}', 2000)) on conflict do nothing;
      update b set x = x where true`);
  };

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: lost
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s, snapshot: {chunkRows: 1000}}
stream: {trigger: 100ms}`,
      { PGURL: database.url },
    );
    await database.query(`
      create table a (id bigint primary key, v text);
      create table b (x int, y int, big text, primary key (x, y));
      insert into a select i, 'a' || i from generate_series(1, 3000) i;
      insert into b select i, i % 5, repeat(md5(i::text), 500) from generate_series(1, 200) i;`);
    await pipeline.caughtUp();
    await change();
    await pipeline.caughtUp();
  });
  afterAll(async () => database.close());

  it('that lost its embedded log stops by name, and repair mends every table in the running service', async () => {
    await change();
    rmSync(join(folder, '.sluice', 'log'), { recursive: true });
    await change();
    await serve(async () => {
      await waitFor('the state', async () => {
        const found = Object.values(await states());
        return found.length === 2 && found.every((state) => state === 'TOPIC_RESET');
      });
      expect((await states())['public.a']).toBe('TOPIC_RESET');
      const dry = await sluice('repair', '--all', '--dry-run');
      expect(dry).toMatchObject({ code: 0, out: expect.stringContaining('nothing was done') });
      await change();
      const one = await sluice('repair', 'a');
      expect(one.code, one.out + one.err).toBe(0);
      await waitFor('the one to stream', async () => (await states())['public.a'] === 'STREAMING');
      expect((await states())['public.b']).toBe('TOPIC_RESET');
      const all = await sluice('repair', '--all');
      expect(all.code, all.out + all.err).toBe(0);
      await change();
      await equal();
    });
    await change();
    await serve(equal);
  });

  it('that lost its state folder is mended without a service', async () => {
    await change();
    rmSync(join(folder, '.sluice'), { recursive: true });
    expect(await sluice('run', '--available-now')).toMatchObject({
      code: 4,
      err: expect.stringContaining('TOPIC_RESET'),
    });
    await change();
    const repaired = await sluice('repair', '--all');
    expect(repaired.code, repaired.out + repaired.err).toBe(0);
    await change();
    await serve(equal);
  });

  it('that lost its checkpoints, or was moved to another machine with config, lake and log, goes on', async () => {
    rmSync(join(folder, 'lake', '_sluice', 'checkpoints'), { recursive: true });
    await change();
    await serve(equal);
    const moved = temporaryFolder('moved');
    for (const part of ['sluice.yaml', 'lake']) cpSync(join(folder, part), join(moved, part), { recursive: true });
    cpSync(join(folder, '.sluice', 'log'), join(moved, '.sluice', 'log'), { recursive: true });
    await change();
    pipeline.folder = moved;
    await serve(equal);
    pipeline.folder = folder;
    rmSync(join(folder, 'lake'), { recursive: true });
    rmSync(join(folder, '.sluice'), { recursive: true });
    for (const part of ['lake', '.sluice']) cpSync(join(moved, part), join(folder, part), { recursive: true });
  });

  it('whose pipeline was torn down and runs again on the same tables', async () => {
    await change();
    expect(await sluice('teardown', '--yes')).toMatchObject({ code: 0 });
    await change();
    expect(await sluice('run', '--available-now')).toMatchObject({ code: 4 });
    const repaired = await sluice('repair', 'public.a');
    expect(repaired.code, repaired.out + repaired.err).not.toBe(3);
    const rest = await sluice('repair', '--all');
    expect(rest.code, rest.out + rest.err).toBe(0);
    await change();
    await serve(equal);
  });

  it('under another name finds tables of another writer, and repair takes them over', async () => {
    expect(await sluice('teardown', '--yes')).toMatchObject({ code: 0 });
    await change();
    pipeline.env['SLUICE_NAME'] = 'other';
    expect(await sluice('run', '--available-now')).toMatchObject({
      code: 4,
      err: expect.stringContaining('LAKE_TABLE_FOREIGN'),
    });
    const repaired = await sluice('repair', '--all');
    expect(repaired.code, repaired.out + repaired.err).toBe(0);
    await change();
    await serve(equal);
  });
});
