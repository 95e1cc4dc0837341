/** A stranger's first commands on a database that is not as it should be: every fault by name, and the rest goes on. */
import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const suite = await requires('the first commands', 'pg18');

suite('the first commands', () => {
  const above = temporaryFolder('first-steps');
  const folder = join(above, 'shop');
  const role = `weak_${process.pid}`;
  const refused = ['keyless', 'unlogged', 'hidden', 'clash', 'own', 'nocols', 'two', 'Two', 'orders__quarantine'];
  let database: TestDatabase;
  let weak: string;
  let env: Record<string, string>;

  const sluice = (...args: string[]) => runSluice(args, { cwd: folder, env });
  const json = async <T>(...args: string[]): Promise<T> => JSON.parse((await sluice(...args)).out) as T;

  beforeAll(async () => {
    database = await getPostgres();
    await database.query(`
      create schema "My.Schema"; create schema nothing;
      create table keyless (v text);
      create table good (id int primary key, v text);
      insert into good select i, 'x' || i from generate_series(1, 50) i;
      create table empty (id int primary key, v text);
      create table emptied (id int primary key); insert into emptied select generate_series(1, 10);
      create unlogged table unlogged (id int primary key);
      create table hidden (id int primary key); alter table hidden enable row level security;
      create table clash (id int primary key, name text, "Name" text);
      create table own (id int primary key, _sluice_lsn bigint);
      create table nocols ();
      create table two (id int primary key); create table "Two" (id int primary key);
      create table orders (id int primary key); create table orders__quarantine (id int primary key);
      create table "My.Schema"."T 1;=é" ("Id" int primary key, "naïve col,{}" text);
      insert into "My.Schema"."T 1;=é" values (1, 'ü'), (2, null), (3, '');
      create table parted (id int primary key) partition by range (id);
      create table "My.Schema".leaf partition of parted for values from (0) to (10);
      create role ${role} login replication password 'weak';
      grant usage on schema public to ${role};
      grant select on all tables in schema public to ${role};`);
    const url = new URL(database.url);
    url.username = role;
    url.password = 'weak';
    weak = url.href;
    env = { PGURL: database.url };
  });
  afterAll(async () => {
    await database.query(`drop owned by ${role}`);
    await database.query(`drop role ${role}`);
    await database.close();
  });

  it('init names each table that cannot be followed, leaves it out, and covers every schema', async () => {
    const flags = ['--dir', 'shop', '--postgres', weak, '--lake', './lake', '--name', 'first'];
    const done = await runSluice(['init', ...flags], { cwd: above });
    expect(done, done.err).toMatchObject({ code: 0 });
    for (const table of refused) expect(done.out).toContain(`warning public.${table} is left out`);
    expect(done.out).toContain('NAME_CLASH');
    const yaml = readFileSync(join(folder, 'sluice.yaml'), 'utf8');
    for (const table of refused) expect(yaml).toMatch(new RegExp(`- "!public\\.${table}" +# \\S`));
    expect(yaml).toContain('- "My.Schema.*"');
    expect(yaml).not.toContain('nothing');
    expect(readdirSync(join(folder, 'contracts')).toSorted()).toEqual(
      ['My.Schema.T 1;=é', 'public.emptied', 'public.empty', 'public.good', 'public.orders', 'public.parted'].map(
        (name) => `${name}.odcs.yaml`,
      ),
    );
    // A whole schema in the publication would take the keyless table, too, and nobody could update it any more.
    const grants = readFileSync(join(folder, 'grants.sql'), 'utf8');
    expect(grants).not.toMatch(/tables in schema[^;]*"public"/);
    expect(grants).toMatch(/grant select on (all tables in schema "My\.Schema"|table "My\.Schema"\."leaf") to/);
    writeFileSync(join(folder, 'sluice.yaml'), `${yaml}http: {port: ${await freePort()}}\nlogging: {level: error}\n`);
  });

  it('doctor and plan name what a role may not do, and what the lake cannot hold, without stopping there', async () => {
    env = { PGURL: weak };
    const { checks } = await json<{ checks: { name: string; status: string; detail: string; fix: string }[] }>(
      'doctor',
      '--json',
    );
    const found = (name: string) => checks.find((check) => check.name === name);
    expect(found('publication')).toMatchObject({ status: 'error', fix: expect.stringContaining('CREATE PUBLICATION') });
    expect(found('table My.Schema.T 1;=é')).toMatchObject({ status: 'error', fix: expect.stringContaining('GRANT') });
    expect(found('table public.parted')).toMatchObject({
      status: 'error',
      fix: expect.stringContaining('GRANT SELECT ON "My.Schema"."leaf" TO'),
    });
    expect(checks.filter(({ status }) => status === 'error')).toHaveLength(3);

    const all = readFileSync(join(folder, 'sluice.yaml'), 'utf8').replaceAll('"!public.', '"public.');
    writeFileSync(join(folder, 'all.yaml'), all);
    const everything = await json<{ checks: { name: string; status: string }[] }>(
      'doctor',
      '--json',
      '--config',
      'all.yaml',
    );
    for (const table of refused)
      expect(everything.checks).toContainEqual(
        expect.objectContaining({ name: `table public.${table}`, status: 'error' }),
      );
    const plan = await json<{ tables: { table: string; rows: number; refused: object | null }[] }>(
      'plan',
      '--json',
      '--config',
      'all.yaml',
    );
    const planned = (table: string) => plan.tables.find((each) => each.table === table);
    expect(planned('public.hidden')).toMatchObject({ refused: expect.anything() });
    expect(planned('My.Schema.T 1;=é')).toMatchObject({ refused: expect.anything() });
    expect(planned('public.parted')).toMatchObject({ refused: { remedy: expect.stringContaining('"leaf"') } });
    expect(planned('public.good')).toMatchObject({ rows: 50, refused: null });
    env = { PGURL: database.url };
    expect(await sluice('doctor')).toMatchObject({ code: 0 });
    const file = join(folder, 'contracts/public.good.odcs.yaml');
    const good = readFileSync(file, 'utf8');
    writeFileSync(file, good.replace(/name: id\b/, 'name: ident'));
    expect(await sluice('doctor')).toMatchObject({
      code: 1,
      out: expect.stringMatching(/public\.good\.odcs\.yaml:\d+: the table public\.good has no column 'ident'/),
    });
    writeFileSync(file, good);
  });

  it('what init wrote runs, and tables without rows stand in the lake', async () => {
    const first = await sluice('run', '--available-now');
    expect(first, first.err).toMatchObject({ code: 0 });
    await database.query('truncate emptied');
    const second = await sluice('run', '--available-now');
    expect(second, second.err).toMatchObject({ code: 0 });
    const cut = JSON.parse(readFileSync(join(folder, 'lake/_sluice/consistent.json'), 'utf8')) as {
      tables: object;
      left: string[];
    };
    expect(Object.keys(cut.tables).toSorted()).toEqual([
      'My.Schema.T 1;=é',
      'public.emptied',
      'public.empty',
      'public.good',
      'public.orders',
      'public.parted',
    ]);
    expect(cut.left).toEqual([]);
    const rows = (query: string) => json<Record<string, unknown>[]>('sql', '--json', query);
    expect(await rows('select (select count(*) from public.empty) e, (select count(*) from public.emptied) t')).toEqual(
      [{ e: 0, t: 0 }],
    );
    expect(
      await rows(
        'select * exclude (_sluice_epoch, _sluice_lsn, _sluice_ord, _sluice_committed_at) from "My.Schema"."T_1__é" order by 1',
      ),
    ).toEqual([
      { Id: 1, naïve_col___: 'ü' },
      { Id: 2, naïve_col___: null },
      { Id: 3, naïve_col___: '' },
    ]);
    const { objects } = await json<{ objects: { kind: string; name: string; exists: boolean }[] }>('plan', '--json');
    expect(objects.every(({ exists }) => exists)).toBe(true);
  });

  it('a data file that is cut short, broken or gone is named with its table and version', async () => {
    const good = join(folder, 'lake/public/good');
    const name = readdirSync(good).find((file) => file.endsWith('.parquet')) ?? '';
    const file = join(good, name);
    const bytes = readFileSync(file);
    const failure = async (): Promise<string> => {
      const { code, err } = await sluice('sql', 'select * from public.good');
      expect(code).toBe(1);
      expect(err).toContain('public/good');
      expect(err).toContain('version ');
      expect(err).toContain(name);
      expect(err).toContain('sluice table fsck');
      return err;
    };
    truncateSync(file, bytes.length - 10);
    expect(await failure()).toContain('SLU-5014');
    writeFileSync(file, Buffer.alloc(bytes.length, 7));
    expect(await failure()).toContain('SLU-5014');
    rmSync(file);
    expect(await failure()).toContain('SLU-5013');
  });
});
