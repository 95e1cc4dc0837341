/** What a replay is asked at the wrong moment, of the wrong range, or into the wrong place. Rows are told by `verify` and --diff. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import type { Answer } from '../support/sluice-service.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('odd cases of replay', 'pg18');

suite('a replay', () => {
  const folder = temporaryFolder('replay-odd');
  let database: TestDatabase;
  let pipeline: ReplayPipeline;

  const first = ({ json, err }: Answer): Record<string, unknown> => {
    const [table] = (json['tables'] ?? []) as Record<string, unknown>[];
    expect(table, err).toBeDefined();
    return table ?? {};
  };
  const replay = (...args: string[]): Promise<Answer> => pipeline.sluice('replay', ...args);
  const stateOf = async (table: string): Promise<unknown> => {
    const { json } = await pipeline.sluice('status', '--json');
    return (json['tables'] as { table: string; state: string }[]).find((each) => each.table === `public.${table}`)
      ?.state;
  };
  /** A second table by the head contract is the first. */
  const expectSame = async (table: string, into: string): Promise<void> => {
    const found = await replay(table, '--into', into, '--diff', '--json');
    expect(found.json, found.err).toMatchObject({ equal: true, atOneLsn: true, added: 0, removed: 0, changed: 0 });
    expect(found.code).toBe(0);
  };

  beforeAll(async () => {
    database = await getPostgres();
    await database.query(`
      create table t (id int primary key, a int, note text);
      alter table t alter column note set storage external;
      create table s (id int primary key, old text, kept int);
      insert into t select i, i, repeat(md5(i::text), 100) from generate_series(1, 600) i;
      insert into s select i, 'old ' || i, i from generate_series(1, 300) i`);
    pipeline = await createReplayPipeline(folder, 'odd', database);
    await pipeline.start();
    await waitFor('the snapshot', () => pipeline.equal());
    for (let i = 1; i <= 15; i++) await database.query(`update t set a = a + 1 where id % 15 = ${i - 1}`);
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('of a range that is not there, or backwards, is refused; one that begins long ago is all there is', async () => {
    await pipeline.expectEqual('t');
    // A batch of its own, whatever came together in the one before.
    await database.query('update t set a = a + 1 where id = 1');
    await pipeline.expectEqual('t');
    const cases: [string[], number, RegExp][] = [
      [['t', '--from', '2999-01-01'], 2, /has not come to 2999/],
      [['t', '--to', '2999-01-01'], 2, /has not come to 2999/],
      [['t', '--from', 'batch:2', '--to', 'batch:1'], 2, /--to lies before --from/],
      [['t', '--from', 'offset:500', '--to', 'lsn:0/1'], 2, /--to lies before --from/],
      [['t', '--into', 'public.t_x', '--swap', '--to', 'offset:3'], 2, /--swap needs no --to/],
    ];
    for (const [args, code, message] of cases) {
      const done = await replay(...args);
      expect({ args, code: done.code, err: done.err }).toMatchObject({
        args,
        code,
        err: expect.stringMatching(message),
      });
    }
    const all = await replay('t', '--from', '1970-01-01', '--json');
    expect(first(all)).toMatchObject({ applied: 0, unsettledKeys: 0 });
    expect(Number(first(all)['read'])).toBeGreaterThan(1_100);
  });

  it('of a paused table goes to where it stands, and leaves it paused', async () => {
    await pipeline.sluice('pause', 't');
    await database.query(`update t set a = -1 where id <= 10`);
    const done = await replay('t', '--json');
    expect(done.code, done.err).toBe(0);
    expect(first(done)).toMatchObject({ applied: 0, unsettledKeys: 0 });
    expect(await stateOf('t')).toBe('PAUSED');
    expect((await pipeline.rows('public.t', ['id'])).get('1')).not.toContain('"a":-1');
    await pipeline.sluice('resume', 't');
    await pipeline.expectEqual('t');
  });

  it('of all tables leaves out the one without a key, which would count its rows twice, and replays the others', async () => {
    await database.query(
      `create table bag (n int, note text); alter table bag replica identity full; insert into bag select i % 3, 'x' from generate_series(1, 30) i`,
    );
    await waitFor('the new table', async () => (await stateOf('bag')) === 'STREAMING');
    await pipeline.expectEqual('bag');
    const all = await replay('--json');
    expect(all.code, all.err).toBe(1);
    expect((all.json['tables'] as { table: string }[]).map(({ table }) => table).toSorted()).toEqual([
      'public.s',
      'public.t',
    ]);
    expect(all.json['failed']).toMatchObject([
      { code: 'TABLE_NO_KEY', message: expect.stringContaining('public.bag') },
    ]);
    await expectSame('bag', 'public.bag_new');
    const swapped = await replay('bag', '--into', 'public.bag_new', '--swap', '--json');
    expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap' });
    await database.query(
      `insert into bag values (1, 'x'), (1, 'x'); delete from bag where ctid = (select min(ctid) from bag)`,
    );
    await pipeline.expectEqual('bag');
    const undone = await replay('bag', '--undo', '--json');
    expect(undone.json, undone.err).toMatchObject({ kind: 'undo' });
    await pipeline.expectEqual('bag');
  });

  it('twice at once is one in place, and one table of two builds', async () => {
    const twice = await Promise.all([replay('t', '--json'), replay('t', '--json')]);
    for (const { code, err } of twice)
      if (code !== 0) expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('SLU-7202') });
    expect(twice.map(({ code }) => code)).toContain(0);
    const builds = await Promise.all([
      replay('t', '--into', 'public.t_twice', '--json'),
      replay('t', '--into', 'public.t_twice', '--json'),
    ]);
    for (const { code, err } of builds)
      if (code !== 0) expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('SLU-7202') });
    await expectSame('t', 'public.t_twice');
    await pipeline.expectEqual('t');
  });

  it('whose service is killed is told so, and goes on', async () => {
    await pipeline.stop();
    await pipeline.start({ SLUICE_FAILPOINT: 'after-replay-batch:1' });
    const lost = await replay('t');
    expect([1, 3], lost.err).toContain(lost.code);
    await pipeline.died();
    await pipeline.start();
    const done = await replay('t', '--json');
    expect(done.code, done.err).toBe(0);
    expect(first(done)).toMatchObject({ resumed: true, applied: 0 });
    await pipeline.expectEqual('t');
  });

  it('beside a backfill of the same table leaves it equal', async () => {
    const [filled, done] = await Promise.all([
      pipeline.sluice('backfill', 't', '--where', 'id > 0'),
      replay('t', '--json'),
      database.query(`update t set a = a + 7 where id % 4 = 0`),
    ]);
    expect(filled.code, filled.err).toBe(0);
    expect(done.code, done.err).toBe(0);
    await pipeline.expectEqual('t');
  });

  it('over added, renamed and dropped columns, key changes and truncates is the table as it is', async () => {
    await database.query(`
      update s set kept = kept + 1 where id <= 100;
      alter table s add column added int default 5;
      insert into s select i, 'second', i, i from generate_series(1001, 1050) i`);
    await database.query(`update s set id = id + 50000, added = null where id between 10 and 20`);
    await database.query(`alter table s rename column old to renamed; update s set renamed = 'new name' where id = 1`);
    await database.query(`alter table s drop column kept; update s set renamed = 'without kept' where id = 2`);
    await pipeline.expectEqual('s');
    const done = await replay('s', '--json');
    expect(done.code, done.err).toBe(0);
    expect(first(done)).toMatchObject({ applied: 0, unsettledKeys: 0 });
    await pipeline.expectEqual('s');
    await expectSame('s', 'public.s_before');
    await database.query(`truncate s; insert into s values (7, 'after', 7); update s set id = 8 where id = 7`);
    await pipeline.expectEqual('s');
    expect(first(await replay('s', '--json'))).toMatchObject({ applied: 0, unsettledKeys: 0 });
    await expectSame('s', 'public.s_before');
    await expectSame('s', 'public.s_after');
    const swapped = await replay('s', '--into', 'public.s_after', '--swap', '--json');
    expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap' });
    await database.query(`insert into s values (9, 'in the switched table', 9)`);
    await pipeline.expectEqual('s');
    const undone = await replay('s', '--undo', '--json');
    expect(undone.json, undone.err).toMatchObject({ kind: 'undo' });
    await pipeline.expectEqual('s');
  });

  it('into what is not its own is refused, and nothing of it is touched', async () => {
    const lake = join(pipeline.folder, 'lake');
    const foreign = join(lake, 'public/foreign');
    mkdirSync(foreign, { recursive: true });
    writeFileSync(join(foreign, 'data.parquet'), 'another program’s');
    const cases: [string, number, RegExp][] = [
      ['public.foreign', 2, /other files/],
      ['public.t', 2, /pipeline itself keeps public.t there/],
      ['_sluice.checkpoints', 2, /the pipeline’s own/],
      ['public...', 2, /cannot have that name/],
      ['public.t_twice', 2, /a replay builds it from public.t/],
    ];
    for (const [into, code, message] of cases) {
      const done = await replay('s', '--into', into);
      expect({ into, code: done.code, err: done.err }).toMatchObject({
        into,
        code,
        err: expect.stringMatching(message),
      });
      expect(done.err).not.toContain('    at ');
    }
    expect(readdirSync(foreign)).toEqual(['data.parquet']);
    const other = await replay('t', '--into', 'public.t_twice', '--swap', '--from', 'offset:3');
    expect(other).toMatchObject({ code: 2, err: expect.stringContaining('a replay builds it --from beginning') });
  });

  it('into a name with odd characters is built, found, and removed', async () => {
    for (const into of ['public.Ünï côdé;{x}=1 100%', "o'brien.a/b"]) {
      await expectSame('s', into);
      const list = await replay('--list', '--json');
      expect((list.json['builds'] as { into: string }[]).map((build) => build.into)).toContain(into);
      const gone = await replay('--discard', '--into', into, '--json');
      expect(gone.json, gone.err).toMatchObject({ kind: 'discard', into });
      expect((await replay('--discard', '--into', into)).code).toBe(2);
    }
    expect(existsSync(join(pipeline.folder, 'lake/public/t/_delta_log'))).toBe(true);
  });

  it('a source’s table of the same name as a built one waits until that one is given up', async () => {
    await database.query(
      `create table t_twice (id int primary key, a text); insert into t_twice values (1, 'the source’s own')`,
    );
    await waitFor('the new table to stop', async () => (await stateOf('t_twice')) === 'LAKE_TABLE_FOREIGN');
    await pipeline.expectEqual('t', 's');
    const gone = await replay('--discard', '--into', 'public.t_twice');
    expect(gone.code, gone.err).toBe(0);
    await pipeline.sluice('resume', 't_twice');
    await pipeline.expectEqual('t_twice');
  });
});
