/**
 * Tables without a key under REPLICA IDENTITY FULL, on a real PostgreSQL through the command line: identical rows are counted,
 * whatever is done to one of them; also while the table is loaded, after SIGKILL at any point, for a table that comes later,
 * and after the table is read again. Contents are compared as multisets, by the texts of every column.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { seededRandom } from '../../services/cli/demo/random.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { changeUnheard } from '../support/unheard-change.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('tables without key', 'pg18');

const COLUMNS = 'v text, n int, f double precision, tags text[], j jsonb, big text';
/** Some 40 different rows, so that most have equals. */
const SOME_ROWS = `
  select case when i % 7 = 0 then null else 'v' || i % 5 end, i % 3,
    (array[0.1, 'NaN', '-0', 1e300, null]::float8[])[i % 5 + 1],
    (array['{}', '{a,NULL,"b c"}', null]::text[])[i % 3 + 1]::text[],
    case when i % 4 = 0 then null else jsonb_build_object('k', i % 2, 'x', '[1, null]'::jsonb) end,
    case when i % 2 = 0 then repeat(md5((i % 2)::text), 400) else 'short' end`;

suite('tables without key', () => {
  const folder = temporaryFolder('bag');
  let database: TestDatabase;

  const pipeline = async (name: string, tables: string) => {
    const cwd = join(folder, name);
    mkdirSync(cwd, { recursive: true });
    const port = await freePort();
    writeFileSync(
      join(cwd, 'sluice.yaml'),
      `name: ${name}
source: {postgres: "\${PGURL}", tables: ["${tables}"], snapshot: {chunkRows: 500}}
lake: {uri: ./lake}
stream: {trigger: 100ms}
http: {port: ${port}}
logging: {level: warn}
`,
    );
    return { cwd, env: { PGURL: database.url } };
  };
  type Pipeline = Awaited<ReturnType<typeof pipeline>>;

  const catchUp = async (options: Pipeline): Promise<void> => {
    const { code, err } = await runSluice(['run', '--available-now'], options);
    expect(code, err).toBe(0);
  };
  const TEXTS = `coalesce(v, '~') || ';' || coalesce(cast(n as varchar), '~') || ';' || coalesce(md5(big), '~')`;
  const sourceRows = async (table: string): Promise<string[]> => {
    const rows = await database.query(
      `select ${TEXTS} || ';' || coalesce(case when f = '-0' and f::text = '-0' then 'minus0' else f::text end, '~') || ';' || coalesce(array_to_string(tags, '|'), '~') || ';' || coalesce(j::text, '~') as r from ${table}`,
    );
    return rows.map(({ r }) => r ?? '').sort();
  };
  const lakeRows = async (options: Pipeline, table: string): Promise<string[]> => {
    const sql = `select ${TEXTS} || ';' || coalesce(case when isnan(f) then 'NaN' when cast(f as varchar) = '-0.0' then 'minus0' else printf('%g', f) end, '~') || ';' || coalesce(array_to_string(tags, '|'), '~') || ';' || coalesce(cast(j as varchar), '~') as r from ${table}`;
    const { code, out, err } = await runSluice(['sql', sql, '--format', 'csv'], options);
    expect(code, err).toBe(0);
    return out
      .split('\n')
      .slice(1)
      .filter((line) => line !== '')
      .map((line) => (line.startsWith('"') ? line.slice(1, -1).replaceAll('""', '"') : line))
      .sort();
  };
  const normal = (rows: string[]): string[] => rows.map((row) => row.replace('1e+300', '1e300').replaceAll(' ', ''));
  const expectEqual = async (options: Pipeline, table: string): Promise<number> => {
    const [source, lake] = [normal(await sourceRows(table)), normal(await lakeRows(options, table))];
    expect(lake.sort()).toEqual(source.sort());
    return source.length;
  };

  beforeAll(async () => {
    database = await getPostgres();
  });
  afterAll(() => database.close());

  it('counts equal rows: one more, one less, one changed; NULLs, arrays, jsonb, floats and TOAST among them', async () => {
    await database.query(`
      create schema one;
      create table one.bag (${COLUMNS});
      alter table one.bag replica identity full;
      insert into one.bag ${SOME_ROWS} from generate_series(1, 3000) i;`);
    const options = await pipeline('one', 'one.*');
    await catchUp(options);
    expect(await expectEqual(options, 'one.bag')).toBe(3000);
    const oneOf = (where: string): string => `ctid = (select ctid from one.bag where ${where} limit 1)`;
    await database.query(`
      insert into one.bag select * from one.bag where v = 'v1' limit 1;
      delete from one.bag where ${oneOf("v = 'v2'")};
      update one.bag set n = n + 100 where ${oneOf("v = 'v3' and length(big) > 100")};
      update one.bag set v = v where ${oneOf("v = 'v4'")};
      update one.bag set n = -1 where v is null;
      begin; delete from one.bag where n = 2; insert into one.bag ${SOME_ROWS} from generate_series(1, 10) i; rollback;
      begin; insert into one.bag values ('x'), ('x'), ('x'); delete from one.bag where ${oneOf("v = 'x'")}; commit;
      insert into one.bag values (null, null, null, null, null, null), (null, null, null, null, null, null);
      delete from one.bag where ${oneOf('v is null and n is null')};`);
    await catchUp(options);
    await expectEqual(options, 'one.bag');
    await database.query(`
      delete from one.bag where v = 'x';
      alter table one.bag add column later text;
      delete from one.bag where ${oneOf("v = 'v1'")};
      update one.bag set later = 'now' where ${oneOf("v = 'v1'")};`);
    await catchUp(options);
    await expectEqual(options, 'one.bag');
    await database.query(`truncate one.bag; insert into one.bag values ('after'), ('after');`);
    await catchUp(options);
    expect(await expectEqual(options, 'one.bag')).toBe(2);
  });

  it('is equal after SIGKILL while it is loaded and while it streams, with changes all the time', async () => {
    await database.query(`
      create schema two;
      create table two.bag (${COLUMNS});
      alter table two.bag replica identity full;
      insert into two.bag ${SOME_ROWS} from generate_series(1, 6000) i;`);
    const options = await pipeline('two', 'two.*');
    const random = seededRandom(Number(process.env['SLUICE_TEST_SEED'] ?? 7));
    let busy = true;
    const work = (async () => {
      while (busy) {
        const [a, b] = [random.below(5), random.below(3)];
        await database.query(`
          insert into two.bag ${SOME_ROWS} from generate_series(${a}, ${a + b}) i;
          delete from two.bag where ctid in (select ctid from two.bag offset ${random.below(3000)} limit 3);
          update two.bag set n = ${b}, v = 'v${a}' where ctid in (select ctid from two.bag offset ${random.below(3000)} limit 2);`);
        await sleep(2);
      }
    })();
    try {
      for (const point of [
        'during-snapshot-chunk:3',
        'after-log-append:9',
        'during-snapshot-chunk:9',
        'after-table-commit:2',
      ]) {
        const child = startSluice(['run'], { ...options, env: { ...options.env, SLUICE_FAILPOINT: point } });
        await Promise.race([child.ended, sleep(8_000)]);
        child.kill('SIGKILL');
        await child.ended;
      }
      for (let kill = 0; kill < 4; kill++) {
        const child = startSluice(['run'], options);
        await sleep(1_000 + random.below(2_500));
        child.kill('SIGKILL');
        await child.ended;
      }
    } finally {
      busy = false;
      await work;
    }
    await catchUp(options);
    await expectEqual(options, 'two.bag');
  });

  it('takes one that comes later, reads it whole when asked, and refuses what needs a key', async () => {
    await database.query(
      `create schema three; create table three.keyed (id int primary key); insert into three.keyed values (1)`,
    );
    const options = await pipeline('three', 'three.*');
    const service = startSluice(['run'], options);
    const sluice = (...args: string[]) => runSluice(args, options);
    try {
      await waitFor('the service', async () => (await sluice('status', '--json')).code === 0);
      await database.query(`
        begin; create table three.bag (${COLUMNS}); alter table three.bag replica identity full;
        insert into three.bag ${SOME_ROWS} from generate_series(1, 700) i; commit;`);
      await waitFor('the new table', async () => (await sluice('status', '--json')).out.includes('three.bag'));
      await database.query(`insert into three.bag ${SOME_ROWS} from generate_series(1, 5) i`);
      await waitFor('equal rows', async () => (await lakeRows(options, 'three.bag')).length === 705);
      await expectEqual(options, 'three.bag');
      const equal = await sluice('verify', '--tables', 'three.*', '--json');
      expect(equal.code, equal.out + equal.err).toBe(0);
      const refused = await sluice('backfill', 'three.bag', '--where', 'n = 1');
      expect(refused.code).not.toBe(0);
      expect(refused.err).toMatch(/has no key/);
      // What the stream never heard of is mended by reading all of it.
      await changeUnheard(database, 'sluice_three', 'three.bag', 'delete from three.bag where n = 1');
      const repaired = await sluice('repair', 'three.bag');
      expect(repaired.out).toContain('it has no key, so its rows are read together');
      expect(repaired.code, repaired.err).toBe(0);
      expect((await sluice('verify', '--tables', 'three.bag')).code).toBe(0);
      await expectEqual(options, 'three.bag');
    } finally {
      service.kill('SIGTERM');
      await service.ended;
    }
  });
});
