/**
 * The states of a table, each provoked for real on one pipeline, all at once: the table stops by its name (or is read again by
 * itself) while the others go on, and the command that the state's page prints makes it equal again.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { startSluice } from '../support/sluice-process.ts';
import { createService, type SluiceService } from '../support/sluice-service.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { changeUnheard } from '../support/unheard-change.ts';
import { waitFor } from '../support/wait-for.ts';
import { statePage } from './page.ts';

const suite = await requires('states of a table', 'pg18');

const TABLES = [
  'fine',
  'unpublished',
  'filtered',
  'swapped',
  'rekeyed',
  'key_renamed',
  'unkeyed',
  'rewritten',
  'broken_rule',
  'retyped',
  'held',
  'gone',
];

suite('states of a table', () => {
  const folder = temporaryFolder('table-states');
  let database: TestDatabase;
  let pipeline: SluiceService;

  const sluice = (...args: string[]) => pipeline.sluice(...args);
  const stateOf = (table: string) => pipeline.lineOf(table);
  const verify = (table: string) => pipeline.equal(table);
  const stopsAs = async (table: string, state: string): Promise<void> => {
    const line = await waitFor(`${table} to be ${state}`, async () => {
      const now = await stateOf(table);
      return now?.state === state ? now : null;
    });
    const { code } = statePage(state, table);
    expect(line.why).not.toBeNull();
    expect(line.remedy).not.toBe('');
    expected.push(`${code} ${state}`);
  };
  /** Runs what the page prints; afterwards the table is equal and streaming. */
  const mendByPage = async (table: string, state: string): Promise<void> => {
    const { command } = statePage(state, table);
    const done = await sluice(...command);
    expect(done, `${command.join(' ')}: ${done.out}${done.err}`).toMatchObject({ code: 0 });
    await waitFor(`${table} to be equal after ${command.join(' ')}`, () => verify(table), { everyMs: 500 });
    await waitFor(`${table} to stream`, async () => (await stateOf(table))?.state === 'STREAMING');
  };
  /** What `sluice status` must say. */
  const expected: string[] = [];

  beforeAll(async () => {
    database = await getPostgres();
    pipeline = await createService(
      folder,
      `name: sta
source: {postgres: "\${PGURL}", tables: ["public.*"], heartbeat: 1s}
stream: {trigger: 200ms}`,
      { PGURL: database.url },
    );
    for (const table of TABLES) {
      await database.query(
        `create table ${table} (id int primary key, code text not null, v text, n int);
         insert into ${table} select i, 'c' || i, 'v', i from generate_series(1, 60) i`,
      );
    }
    await pipeline.start();
    await waitFor('all tables', async () => {
      const lines = (await pipeline.status())?.tables ?? [];
      return lines.filter(({ state }) => state === 'STREAMING').length === TABLES.length;
    });
    await waitFor('equality', async () => (await sluice('verify')).code === 0);
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('stops each table by its name, and nothing else', async () => {
    const rule = pipeline
      .contract('broken_rule')
      .replace(
        /( +)logicalTypeOptions: \{ ?format: i32 ?\}\n( +)physicalType: integer\n$/,
        '$1logicalTypeOptions: {format: i32, maximum: 60}\n$2physicalType: integer\n$2customProperties:\n$2  - {property: onViolation, value: fail}\n',
      );
    expect(rule).toContain('onViolation');
    pipeline.writeContract('broken_rule', rule);
    expect(await sluice('pause', 'held')).toMatchObject({ code: 0 });
    await database.query(`
      alter publication sluice_sta drop table unpublished;
      alter publication sluice_sta set table fine, filtered where (id < 30), swapped, rekeyed, key_renamed, unkeyed, rewritten, broken_rule, retyped, held, gone;
      update unpublished set v = 'unheard' where id < 10; delete from unpublished where id = 20;
      update filtered set v = 'filtered' where id between 25 and 35;
      create table swapped_new (like swapped including all);
      insert into swapped_new select id, code, 'new', n from swapped where id > 5;
      begin; alter table swapped rename to swapped_old; alter table swapped_new rename to swapped; commit;
      alter table rekeyed drop constraint rekeyed_pkey; alter table rekeyed add primary key (code);
      update rekeyed set v = 'by code' where id < 10;
      alter table key_renamed rename column id to number; update key_renamed set v = 'by number' where number < 10;
      alter table unkeyed drop constraint unkeyed_pkey; insert into unkeyed values (99, 'x', 'without a key', 1);
      alter table rewritten alter column n type bigint using n * 2;
      update held set v = 'while it is held' where id < 10;
      drop table gone;
      update fine set v = 'fine' where id < 10;
      insert into broken_rule values (99, 'x', 'breaks the rule', 99);
      alter table retyped alter column n type text using n::text; insert into retyped values (99, 'x', 'y', '99')`);
    await stopsAs('unpublished', 'PUBLICATION_CHANGED');
    await stopsAs('filtered', 'PUBLICATION_CHANGED');
    await stopsAs('swapped', 'TABLE_REPLACED');
    await stopsAs('rekeyed', 'KEY_CHANGED');
    await stopsAs('key_renamed', 'KEY_CHANGED');
    await stopsAs('unkeyed', 'KEY_CHANGED');
    await stopsAs('gone', 'TABLE_MISSING');
    await stopsAs('broken_rule', 'CONTRACT_FAILED');
    await stopsAs('retyped', 'SCHEMA_CONFLICT');
    const { code: exit, out } = await sluice('status');
    expect(exit).toBe(4);
    for (const line of expected) expect(out).toContain(line);
    expect((await stateOf('held'))?.state).toBe('PAUSED');
    expect((await stateOf('fine'))?.state).toBe('STREAMING');
    expect(await verify('fine')).toBe(true);
  });

  it('TABLE_REWRITTEN is read again by itself', async () => {
    await waitFor('the rewritten table', () => verify('rewritten'), { everyMs: 500 });
    expect(statePage('TABLE_REWRITTEN', 'rewritten').command).toEqual(['status']);
  });

  it('PAUSED goes on by what its page prints', () => mendByPage('held', 'PAUSED'));
  it('PUBLICATION_CHANGED is mended by what its page prints: a table that left', () =>
    mendByPage('unpublished', 'PUBLICATION_CHANGED'));
  it('PUBLICATION_CHANGED is mended by what its page prints: a row filter that is accepted', async () => {
    const done = await sluice(...statePage('PUBLICATION_CHANGED', 'filtered').command);
    expect(done.err + done.out, 'the filter is the scope now').not.toContain('INTERNAL');
    await database.query('alter publication sluice_sta drop table filtered');
    await database.query('alter publication sluice_sta add table filtered');
    await stopsAs('filtered', 'PUBLICATION_CHANGED');
    await mendByPage('filtered', 'PUBLICATION_CHANGED');
  });
  it('PUBLICATION_CHANGED is what a service finds whose publication got a row filter while it was down', async () => {
    await pipeline.stop();
    await database.query(`alter publication sluice_sta drop table filtered;
      alter publication sluice_sta add table filtered where (id < 30);
      update filtered set v = 'unheard' where id between 25 and 35`);
    await pipeline.start();
    await waitFor('the service', async () => (await stateOf('fine'))?.state === 'STREAMING');
    await stopsAs('filtered', 'PUBLICATION_CHANGED');
    await database.query(
      `alter publication sluice_sta drop table filtered; alter publication sluice_sta add table filtered`,
    );
    await mendByPage('filtered', 'PUBLICATION_CHANGED');
  });
  it('resume says that a table which is to be read again does not go on', async () => {
    const refused = await sluice('resume', 'public.swapped', 'public.fine');
    expect(refused).toMatchObject({ code: 4, out: expect.stringContaining('public.fine goes on\n') });
    expect(refused.out).toMatch(
      /public\.swapped stands still \(TABLE_REPLACED\): .*\n {2}sluice repair public\.swapped\n/,
    );
  });
  it('TABLE_REPLACED is mended by what its page prints', () => mendByPage('swapped', 'TABLE_REPLACED'));
  it('KEY_CHANGED is mended by what its page prints, with the key corrected in the contract', async () => {
    const text = pipeline.contract('rekeyed');
    const keyLines = / +primaryKey: true\n +primaryKeyPosition: 1\n/.exec(text)?.[0] ?? '';
    expect(keyLines).not.toBe('');
    pipeline.writeContract(
      'rekeyed',
      text
        .replace(keyLines, '')
        .replace(/( +name: code\n(?: +[a-z][^\n]*\n)*? +physicalType: text\n)/, `$1${keyLines}`),
    );
    await mendByPage('rekeyed', 'KEY_CHANGED');
  });
  it('KEY_CHANGED is mended by what its page prints, with the new name of a key column in the contract', async () => {
    const refused = await sluice(...statePage('KEY_CHANGED', 'key_renamed').command);
    expect(refused).toMatchObject({ code: 4, err: expect.stringContaining('public.key_renamed.odcs.yaml') });
    const text = pipeline.contract('key_renamed');
    expect(text).toContain(' name: id\n');
    pipeline.writeContract('key_renamed', text.replace(' name: id\n', ' name: number\n'));
    await mendByPage('key_renamed', 'KEY_CHANGED');
  });
  it('KEY_CHANGED is mended by what its page prints, with the key back as it was', async () => {
    const refused = await sluice(...statePage('KEY_CHANGED', 'unkeyed').command);
    expect(refused).toMatchObject({ code: 4, err: expect.stringContaining('ADD PRIMARY KEY') });
    await database.query('alter table unkeyed add primary key (id)');
    await mendByPage('unkeyed', 'KEY_CHANGED');
  });
  it('CONTRACT_FAILED goes on by what its page prints, once the contract is corrected', async () => {
    pipeline.writeContract('broken_rule', pipeline.contract('broken_rule').replace('maximum: 60', 'maximum: 100'));
    await mendByPage('broken_rule', 'CONTRACT_FAILED');
  });
  it('SCHEMA_CONFLICT is mended by what its page prints, once the contract says what the source has; the history stays', async () => {
    const before = String((await stateOf('retyped'))?.version);
    const refused = await sluice(...statePage('SCHEMA_CONFLICT', 'retyped').command);
    expect(refused.code, 'the contract is to be edited first').toBe(4);
    expect(refused.err).toContain('public.retyped.odcs.yaml');
    expect((await stateOf('retyped'))?.state).toBe('SCHEMA_CONFLICT');
    const text = pipeline.contract('retyped');
    const asText = text.replace(
      / +logicalType: integer\n +logicalTypeOptions: \{ ?format: i32 ?\}\n( +)physicalType: integer\n$/,
      '$1logicalType: string\n$1physicalType: text\n',
    );
    expect(asText).not.toBe(text);
    pipeline.writeContract('retyped', asText);
    await mendByPage('retyped', 'SCHEMA_CONFLICT');
    await database.query(
      `insert into retyped values (100, 'x', 'y', 'no number'); update retyped set n = 'one' where id = 1`,
    );
    await waitFor('what came later', () => verify('retyped'), { everyMs: 300 });
    const history = await sluice('table', 'history', 'public.retyped');
    expect(history.out).toContain('REPLACE TABLE');
    const old = await sluice('sql', 'select n + 1 as n from public.retyped where id = 7', '--at', before, '--json');
    expect(old, old.err).toMatchObject({ code: 0 });
    expect(JSON.parse(old.out)).toEqual([{ n: 8 }]);
  });

  it('VERIFY_FAILED is what `verify --continuous` finds, while the table streams, and is mended by what its page prints', async () => {
    await changeUnheard(database, 'sluice_sta', 'fine', `update fine set v = 'unheard' where id = 3`);
    const walking = startSluice(['verify', '--continuous', '--tables', 'public.fine', '--rate', '50MB'], {
      cwd: folder,
      env: pipeline.env,
    });
    await waitFor('the state', async () => (await stateOf('fine'))?.state === 'VERIFY_FAILED');
    walking.kill('SIGTERM');
    expect((await walking.ended).code).toBe(1);
    const { code } = statePage('VERIFY_FAILED', 'fine');
    expect((await sluice('status')).out).toContain(`${code} VERIFY_FAILED`);
    expect(await pipeline.metrics()).toContain('sluice_table_state{table="public.fine",state="VERIFY_FAILED"} 1');
    await pipeline.stop();
    await pipeline.start();
    await waitFor('the state to outlive the restart', async () => (await stateOf('fine'))?.state === 'VERIFY_FAILED');
    await database.query(`insert into fine values (500, 'c500', 'while it differs', 1)`);
    await mendByPage('fine', 'VERIFY_FAILED');
  });

  it('SNAPSHOT_FAILED stops the table alone; mended by what its page prints, and what waited for its rows is superseded', async () => {
    // PostgreSQL cannot evaluate this row filter for one of the rows.
    await database.query(`
      create table divided (id int primary key, n int, big text); alter table divided alter column big set storage external;
      insert into divided select i, i, repeat(md5(i::text), 200) from generate_series(1, 20) i;
      alter publication sluice_sta add table divided where (100 / (id - 7) < 1000)`);
    let rounds = 0;
    await waitFor(
      'the failed snapshot',
      async () => {
        await database.query(`update divided set n = n + 1 where id < 7`);
        rounds += 1;
        return (await stateOf('divided'))?.state === 'SNAPSHOT_FAILED';
      },
      { everyMs: 100 },
    );
    await stopsAs('divided', 'SNAPSHOT_FAILED');
    expect((await stateOf('divided'))?.why).toContain('division by zero');
    expect(rounds).toBeGreaterThan(0);
    expect(await verify('fine')).toBe(true);
    await database.query(
      `delete from divided where id = 2; alter publication sluice_sta drop table divided; alter publication sluice_sta add table divided`,
    );
    await mendByPage('divided', 'SNAPSHOT_FAILED');
    const { out } = await sluice('quarantine', 'list', 'public.divided', '--json');
    expect((JSON.parse(out) as { rows: unknown[] }).rows).toEqual([]);
  });

  it('TABLE_MISSING leaves the table readable, and the table is let go by what its page prints', async () => {
    expect(await sluice('table', 'show', 'public.gone')).toMatchObject({ code: 0 });
    expect(await sluice('repair', 'gone')).toMatchObject({ err: expect.stringContaining('sluice remove public.gone') });
    const removed = await sluice(...statePage('TABLE_MISSING', 'gone').command);
    expect(removed, removed.err).toMatchObject({ code: 0 });
    expect(removed.out).not.toContain('ALTER PUBLICATION');
    expect((await stateOf('gone'))?.state).toBe('REMOVED');
  });
});
