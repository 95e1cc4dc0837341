/**
 * `sluice adopt` takes over a slot that something else made and lake tables that delta-rs wrote, without a snapshot; whatever
 * would make the lake wrong is refused by name, and nothing is changed.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { writeWithDeltaRs, readWithDeltaRs } from '../judges/judge.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('taking over from Debezium', 'pg18', 'python');

const FIELDS = [
  ['id', 'long'],
  ['v', 'string'],
  ['n', 'decimal'],
  ['at', 'timestamp'],
] as const;

const KILLS = [
  'after-adopt-claim',
  'after-adopt-state',
  'after-adopt-prepare',
  'before-table-commit',
  'after-adopt-table',
];
/** By hand: other majors of PostgreSQL. */
const MAJOR = Number(process.env['SLUICE_TEST_PG'] ?? 18) as 14 | 15 | 16 | 17 | 18;

suite('taking over from Debezium', () => {
  let folder: string;
  let database: TestDatabase;
  let options: { cwd: string; env: Record<string, string> };

  const sluice = (...args: string[]) => runSluice(args, options);
  const lake = (table: string): string => join(folder, 'lake', 'public', table);
  /** What a connector's sink had brought to the lake. */
  const write = async (table: string, extra: readonly (readonly (string | null)[])[] = []): Promise<void> => {
    const rows = await database.query(
      `select id::text, v, n::text, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || 'Z' as at from ${table} order by id`,
    );
    const cells = rows.map((row) => FIELDS.map(([name]) => row[name] ?? null));
    await writeWithDeltaRs(lake(table), { fields: FIELDS, rows: [...cells, ...extra] });
  };
  const versions = (table: string): number => readdirSync(join(lake(table), '_delta_log')).length;

  const begin = async (plugin = 'pgoutput'): Promise<void> => {
    folder = temporaryFolder('adopt');
    database = await getPostgres({ major: MAJOR });
    await database.query(`
      create table a (id bigint primary key, v text, n numeric(12,2), at timestamptz);
      create table b (id bigint primary key, v text, n numeric(12,2), at timestamptz);
      alter table b replica identity full;
      insert into a select i, case when i > 10 then 'a' || i else (select string_agg(md5((i * g)::text), '') from generate_series(1, 120) g) end, i / 4.0, '2026-01-01'::timestamptz + i * interval '1.5 s' from generate_series(1, 500) i;
      insert into b select i, 'b' || i, null, null from generate_series(1, 50) i;
      create publication dbz_publication for all tables`);
    const slot = `debezium_${database.database}`;
    await database.query(`select pg_create_logical_replication_slot('${slot}', '${plugin}')`);
    mkdirSync(join(folder, 'lake'));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: shop
source: {postgres: "\${PGURL}", tables: ["public.*"], slot: ${slot}, publication: dbz_publication}
lake: {uri: ./lake}
stream: {trigger: 100ms}
http: {port: ${await freePort()}}
logging: {level: error}
`,
    );
    options = { cwd: folder, env: { PGURL: database.url } };
  };
  const databases: TestDatabase[] = [];
  afterAll(async () => {
    for (const each of databases) await each.close();
  });

  it('goes on from the slot without a snapshot, and the rows are equal', async () => {
    await begin();
    databases.push(database);
    await write('a');
    await write('b');
    // Not in the lake: they come from the slot.
    await database.query(
      `update a set n = 0 where id % 5 = 0; delete from b where id < 10; insert into b values (99, 'new', 1, now())`,
    );
    const dry = await sluice('adopt');
    expect(dry.code, dry.err).toBe(0);
    expect(dry.out).toContain('nothing was done');
    expect(dry.out).toContain('500 rows, (id) is a key');
    expect([versions('a'), readdirSync(join(folder, 'lake'))]).toEqual([versions('b'), ['public']]);
    // Killed at each step: the tables stand still by name, or are taken; the same command goes on.
    for (const point of KILLS) {
      const killed = await runSluice(['adopt', '--yes'], {
        ...options,
        env: { ...options.env, SLUICE_FAILPOINT: point },
      });
      expect(killed.signal, `${point}: ${killed.out}${killed.err}`).toBe('SIGKILL');
      await database.query(`update a set n = n + 1 where id % 11 = 0; update b set v = v || '${point}' where id > 40`);
    }
    expect(await sluice('run', '--available-now')).toMatchObject({
      code: 4,
      err: expect.stringContaining('LAKE_TABLE_FOREIGN'),
    });
    const done = await sluice('adopt', '--yes');
    expect(done.code, done.out + done.err).toBe(0);
    // The same again finds it done.
    expect(await sluice('adopt', '--yes')).toMatchObject({ code: 0 });
    await database.query(
      `update a set v = v || 'x' where id % 7 = 0; truncate b; insert into b values (1, 'one', 1, null)`,
    );
    const caughtUp = await sluice('run', '--available-now');
    expect(caughtUp.code, caughtUp.err).toBe(0);
    const service = startSluice(['run'], options);
    await waitFor('the service', async () => (await sluice('status')).code !== 3);
    await database.query(`insert into a values (1000, 'later', 1, null); delete from a where id = 3`);
    const verified = await sluice('verify', '--json');
    service.kill('SIGTERM');
    await service.ended;
    expect(verified.code, verified.out + verified.err).toBe(0);
    const rows = await readWithDeltaRs(lake('a'));
    expect(rows).toHaveLength(500);
    // Rows that nothing changed stand as the other writer wrote them, and have no position.
    expect(rows.filter((row) => row.includes('"_sluice_lsn":null')).length).toBeGreaterThan(300);
    const ended = await sluice('teardown');
    expect(ended.out).toContain('was adopted, not made by this pipeline');
    expect(ended.out).not.toContain('would drop replication slot');
  });

  it('refuses keys that stand twice, columns that are missing and types that differ, and changes nothing', async () => {
    await begin();
    databases.push(database);
    await write('a', [
      ['7', 'twice', null, null],
      [null, 'none', null, null],
    ]);
    await writeWithDeltaRs(lake('b'), {
      fields: [
        ['id', 'long'],
        ['v', 'string'],
        ['n', 'boolean'],
      ],
      rows: [['1', 'x', null]],
    });
    const refused = await sluice('adopt', '--yes', '--json');
    expect(refused.code).toBe(1);
    const { safe, findings } = JSON.parse(refused.out) as {
      safe: boolean;
      findings: { word: string; about: string; detail: string; fix: string; level: string }[];
    };
    expect(safe).toBe(false);
    const wrong = findings.filter(({ level }) => level === 'refused');
    expect(wrong.map(({ word, about }) => [about, word])).toEqual([
      ['public.a', 'LAKE_KEY_REPEATED'],
      ['public.b', 'SCHEMA_CONFLICT'],
    ]);
    expect(wrong[0]?.detail).toMatch(/^1 keys \(id\) stand in more than one of its 502 rows; 1 rows have NULL/);
    expect(readdirSync(folder).toSorted()).toEqual(['lake', 'sluice.yaml']);
    const doctor = await sluice('doctor');
    expect(doctor.out).toContain('boolean in the lake');
  });

  it('refuses a slot of another plugin, one in use, and a lake behind the slot', async () => {
    await begin('test_decoding');
    databases.push(database);
    await write('a');
    expect(await sluice('adopt', '--yes')).toMatchObject({
      code: 1,
      out: expect.stringContaining('test_decoding, not pgoutput'),
    });
    await database.query(`select pg_drop_replication_slot('debezium_${database.database}')`);
    expect(await sluice('adopt', '--yes')).toMatchObject({ code: 1, out: expect.stringContaining('SLOT_LOST') });
    await database.query(`select pg_create_logical_replication_slot('debezium_${database.database}', 'pgoutput')`);
    const behind = await sluice('adopt', '--yes', '--lsn', '0/1');
    expect(behind).toMatchObject({ code: 1, out: expect.stringContaining('ADOPT_POSITION') });
    await database.query(
      'drop publication dbz_publication; create publication dbz_publication for table a, b with (publish = insert)',
    );
    expect(await sluice('adopt', '--yes')).toMatchObject({
      code: 1,
      out: expect.stringContaining('PUBLICATION_INCOMPLETE'),
    });
  });
});
