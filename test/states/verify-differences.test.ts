/**
 * Differences planted between source and lake, all found by `sluice verify`: made at the source in a transaction that takes the
 * table out of the publication, so the stream never hears of them. SLUICE_TEST_ROWS makes the large table larger.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../ops/local/free-port.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { changeUnheard } from '../support/unheard-change.ts';
import { waitFor } from '../support/wait-for.ts';

const ROWS = Number(process.env['SLUICE_TEST_ROWS'] ?? 100_000);
const suite = await requires('planted differences', 'pg18');

interface Report {
  readonly equal: boolean;
  readonly tables: readonly {
    readonly sourceRows: number;
    readonly lakeRows: number;
    readonly differing: number;
    readonly sampled: number | null;
    readonly differences: readonly { kind: string; key: string[]; columns?: string[] }[];
  }[];
}

suite('planted differences', { timeout: 600_000 + ROWS / 2 }, () => {
  const folder = temporaryFolder('verify');
  let database: TestDatabase;
  let options: { cwd: string; env: Record<string, string> };
  let service: SluiceProcess;

  const verify = async (...args: string[]) => {
    const { code, out, err } = await runSluice(['verify', '--json', '--show', '50', ...args], options);
    expect(out, err).not.toBe('');
    const { tables, equal } = JSON.parse(out) as Report;
    const [table] = tables;
    const found = (table?.differences ?? []).map(
      ({ kind, key, columns }) => `${kind} ${key.join(',')}${columns === undefined ? '' : ` in ${columns.join(',')}`}`,
    );
    return { code, equal, found: found.toSorted(), table, text: out };
  };
  const unheard = (table: string, sql: string): Promise<unknown> => changeUnheard(database, 'sluice_ver', table, sql);

  beforeAll(
    async () => {
      database = await getPostgres();
      writeFileSync(
        join(folder, 'sluice.yaml'),
        `name: ver
source: {postgres: "\${PGURL}", tables: ["public.*"]}
stream: {trigger: 200ms}
http: {port: ${await freePort()}}
logging: {level: warn}
`,
      );
      options = { cwd: folder, env: { PGURL: database.url } };
      await database.query(`
      create table typed (id int primary key, t text, f float8, n numeric, d numeric(10,2), ts timestamptz, j jsonb, b bytea,
        a text[], i bigint);
      insert into typed select i, 'same', 1.5, 1.0, 1.00, timestamptz '2024-01-01 00:00:00.000001+00', '{"a": [1, null]}',
        '\\x00ff', '{a,NULL,""}', 9007199254740993 from generate_series(1, 40) i;
      create type pair as (n int, t text); create domain whole as int check (value > 0); create domain list as whole[];
      create table nested (id int primary key, pairs pair[], l list, f float8[]);
      insert into nested values (1, array[row(1, 'a,"b')::pair, row(null, null)::pair, null], '{1,2}', '{-0,NaN,NULL,0.1}'),
        (2, '{}', '{}', '{}'), (3, null, null, null);
      create table big (id bigint primary key, grp int not null, note text, amount numeric(12,2));
      insert into big select i, i % 1000, 'note ' || i, i / 7.0 from generate_series(1, ${ROWS}) i;
      create table parts (id int, day date, v text, primary key (id, day)) partition by range (day);
      create table parts_a partition of parts for values from ('2024-01-01') to ('2025-01-01');
      create table parts_b partition of parts for values from ('2025-01-01') to ('2026-01-01');
      insert into parts select i, date '2024-01-01' + i % 700, repeat('x', 1000) from generate_series(1, 5000) i;
      analyze;`);
      service = startSluice(['run'], options);
      await waitFor('the first snapshot', async () => (await verify('--tables', 'public.*')).equal, {
        deadlineMs: 240_000 + ROWS / 3,
        everyMs: 500,
      });
    },
    600_000 + ROWS / 2,
  );

  afterAll(async () => {
    service.kill('SIGTERM');
    await service.ended;
    await database.close();
  });

  it('finds each smallest difference of a value, names its column, and shows no value', async () => {
    const planted: readonly (readonly [number, string, string])[] = [
      [1, `t = null`, 't'],
      [2, `t = ''`, 't'],
      [3, `f = '-0'`, 'f'],
      [4, `f = 'NaN'`, 'f'],
      [5, `n = 1.00`, 'n'],
      [6, `d = 1.01`, 'd'],
      [7, `ts = ts + interval '1 microsecond'`, 'ts'],
      [8, `j = '{"a": [1, "null"]}'`, 'j'],
      [9, `b = '\\x00fe'`, 'b'],
      [10, `b = '\\x'`, 'b'],
      [11, `a = '{a,"NULL",""}'`, 'a'],
      [12, `a = '{}'`, 'a'],
      [13, `i = 9007199254740992`, 'i'],
      [14, `f = 1.5000000000000002`, 'f'],
      [15, `t = 'same '`, 't'],
    ];
    await database.query(`update typed set f = 0 where id = 3`);
    expect((await verify('--tables', 'public.typed')).equal).toBe(true);
    await unheard('typed', planted.map(([id, set]) => `update typed set ${set} where id = ${id}`).join('; '));
    const { code, found, text } = await verify('--tables', 'public.typed');
    expect(code).toBe(1);
    expect(found).toEqual(planted.map(([id, , column]) => `differs ${id} in ${column}`).toSorted());
    expect(text).not.toMatch(/same|00fe|null\\"/);
  });

  it('with --where counts what the condition selects, in the source and in the lake', async () => {
    await unheard(
      'typed',
      `delete from typed where id in (30, 31); insert into typed (id, t) values (50, 'new'), (51, 'same')`,
    );
    expect((await verify('--tables', 'public.typed', '--where', 'typed.id between 5 and 6')).found).toEqual([
      'differs 5 in n',
      'differs 6 in d',
    ]);
    const chosen = await verify(
      '--tables',
      'public.typed',
      '--where',
      `t = 'same' and id > 15 and a[1] = 'a' and f > 1`,
    );
    expect(chosen.found).toEqual(['extra 30', 'extra 31']);
    expect(chosen.table).toMatchObject({ sourceRows: 23, lakeRows: 25 });
    expect((await verify('--tables', 'public.typed', '--where', 'id = 50')).found).toEqual(['missing 50']);
    expect(await verify('--tables', 'public.typed', '--where', 'id between 20 and 29')).toMatchObject({
      code: 0,
      equal: true,
    });
  });

  it('mends just those keys with --repair', async () => {
    const repaired = await runSluice(['verify', '--tables', 'public.typed', '--repair'], options);
    expect(repaired, repaired.err).toMatchObject({ code: 0, out: expect.stringContaining('verified: true') });
    expect((await verify('--tables', 'public.typed')).equal).toBe(true);
  });

  it('finds one changed column, a missing, an extra and a swapped pair in a large table, while writes go on, within 512 MB', async () => {
    const last = ROWS - 3;
    await unheard(
      'big',
      `update big set amount = amount + 0.01 where id = ${last}; delete from big where id = 77;
       insert into big values (${ROWS + 1}, 1, 'unheard', 1);
       update big x set note = y.note from big y where (x.id = 501 and y.id = 502) or (x.id = 502 and y.id = 501)`,
    );
    const stop = new AbortController();
    const writes = (async () => {
      for (let i = 0; !stop.signal.aborted; i += 1) {
        await database.query(
          `update big set note = 'live ${i}' where id between ${1000 + ((i * 211) % (ROWS - 2000))} and ${1100 + ((i * 211) % (ROWS - 2000))} and id < ${last}`,
        );
        await sleep(50);
      }
    })();
    const began = performance.now();
    const walking = startSluice(['verify', '--json', '--tables', 'public.big'], options);
    let peakKb = 0;
    const watch = setInterval(() => {
      try {
        const status = readFileSync(`/proc/${walking.child.pid}/status`, 'utf8');
        peakKb = Math.max(peakKb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0));
      } catch {
        // Ended, or no /proc here.
      }
    }, 100);
    const { code, out, err } = await walking.ended;
    clearInterval(watch);
    stop.abort();
    await writes;
    expect(code, err).toBe(1);
    const [report] = (JSON.parse(out) as Report).tables;
    process.stdout.write(
      `verified ${ROWS} rows in ${((performance.now() - began) / 1000).toFixed(1)} s, peak ${Math.round(peakKb / 1024)} MB\n`,
    );
    expect(report?.differences.map(({ kind, key }) => `${kind} ${key.join(',')}`).toSorted()).toEqual(
      [`differs ${last}`, 'differs 501', 'differs 502', 'extra 77', `missing ${ROWS + 1}`].toSorted(),
    );
    expect(peakKb).toBeLessThan(512 * 1024);
    const repaired = await runSluice(['verify', '--tables', 'public.big', '--repair'], options);
    expect(repaired, repaired.err).toMatchObject({ code: 0 });
  });

  it('compares a sample of the keys', async () => {
    const tenth = await verify('--tables', 'public.big', '--sample', '10%');
    expect(tenth).toMatchObject({ code: 0, equal: true });
    expect(tenth.table?.sampled).toBeCloseTo(0.1, 3);
    const { sourceRows = 0 } = tenth.table ?? {};
    expect(sourceRows / ROWS).toBeGreaterThan(0.08);
    expect(sourceRows / ROWS).toBeLessThan(0.12);
    // The writes of before have left more pages than rows: how many, the machine's speed says.
    await database.query('analyze big');
    const rows = await verify('--tables', 'public.big', '--sample', String(ROWS / 20));
    // Of as many rows as the source's statistics say that there are.
    expect(rows.table?.sampled).toBeGreaterThan(0.035);
    expect(rows.table?.sampled).toBeLessThan(0.065);
    await unheard('typed', `update typed set t = 'x'`);
    expect((await verify('--tables', 'public.typed', '--sample', '0.99999')).code).toBe(1);
    for (const bad of ['0', '101%']) {
      expect(await runSluice(['verify', '--sample', bad], options)).toMatchObject({ code: 2 });
    }
  });

  it('holds the byte rate, over partitions, too', async () => {
    const [size] = await database.query(
      `select sum(pg_table_size(relid))::text as bytes from pg_partition_tree('parts') where isleaf`,
    );
    const bytes = Number(size?.['bytes']);
    const began = performance.now();
    expect((await verify('--tables', 'public.parts', '--rate', '2MB')).equal).toBe(true);
    const seconds = (performance.now() - began) / 1000;
    expect(bytes / seconds).toBeLessThan(2_200_000);
  });
});
