/**
 * Schema changes at the source under contracts, with rows in flight (cases 14, 46, 47): each has its defined result in the
 * contract and in the table, nothing is started again, and an edit of a contract is taken up while the pipeline runs.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { freePort } from '../../ops/local/free-port.ts';
import type { RowValue } from '../../services/stream/sink.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('schema changes under contracts', 'pg15');

suite('schema changes under contracts', () => {
  const folder = temporaryFolder('evolution');
  const lake = createFileStore(join(folder, 'lake'));
  let database: TestDatabase;
  let env: Record<string, string>;
  let running: SluiceProcess;

  const file = (table: string): string => join(folder, `contracts/public.${table}.odcs.yaml`);
  const edit = (table: string, change: (text: string) => string): void => {
    const before = readFileSync(file(table), 'utf8');
    const after = change(before);
    expect(after, `the edit of ${table} changes nothing:\n${before}`).not.toBe(before);
    writeFileSync(file(table), after);
  };
  const rows = (table: string): Promise<Map<string, Record<string, RowValue>>> => tableRows(lake, `public/${table}`);
  interface Status {
    readonly tables: readonly { readonly table: string; readonly state: string; readonly reason?: unknown }[];
  }
  const status = async (): Promise<string> => (await runSluice(['status', '--json'], { cwd: folder, env })).out;
  const stateOf = async (table: string): Promise<string | undefined> => {
    const found = JSON.parse(await status()) as Status;
    return found.tables.find((each) => each.table === `public.${table}`)?.state;
  };
  const until = (table: string, probe: (found: Map<string, Record<string, RowValue>>) => boolean): Promise<unknown> =>
    waitFor(`the lake's ${table}`, async () => probe(await rows(table)), { everyMs: 200 });
  /** What the pipeline itself says: row for row at one LSN. */
  const verified = async (table: string): Promise<void> => {
    const result = await runSluice(['verify', '--json', '--tables', `public.${table}`], { cwd: folder, env });
    expect(JSON.parse(result.out || '{}'), result.out + result.err).toMatchObject({ equal: true });
  };

  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
    env = { PGURL: database.url };
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: evo
source: {postgres: "\${PGURL}", tables: ["public.*"]}
lake: {uri: ./lake}
stream: {trigger: 200ms}
http: {port: ${await freePort()}}
logging: {level: warn}
`,
    );
    const tables = ['added', 'refused', 'ignored', 'parked', 'dropped', 'gone', 'renamed', 'wider', 'retyped', 'moods'];
    await database.query(`
create type mood as enum ('sad', 'happy');
${tables.map((name) => `create table ${name} (id int primary key, a int, b text not null, m mood);`).join('\n')}
${tables.map((name) => `insert into ${name} select i, i, 'b' || i, 'sad' from generate_series(1, 30) i;`).join('\n')}`);
    running = startSluice(['run'], { cwd: folder, env });
    for (const table of tables) await until(table, (found) => found.size === 30);
    for (const [table, policy] of [
      ['refused', 'fail'],
      ['ignored', 'ignore'],
      ['parked', 'quarantine'],
    ] as const)
      edit(table, (text) => text.replace('value: evolve', `value: ${policy}`));
  });
  afterAll(async () => {
    running.kill();
    await database.close();
  });

  it('evolve: takes new columns, old rows of a default included, between rows in flight', async () => {
    await database.query(`update added set a = a + 1;
alter table added add column n int; update added set n = id where id < 10;
alter table added add column d text default 'x'; insert into added (id, b) values (100, 'new');
update added set a = 0 where id = 5;`);
    await until('added', (found) => found.get('20')?.['d'] === 'x');
    const found = await rows('added');
    expect(found.get('5')).toMatchObject({ a: 0, n: 5, d: 'x' });
    expect(found.get('20')).toMatchObject({ a: 21, n: null, d: 'x' });
    expect(found.get('100')).toMatchObject({ b: 'new', n: null, d: 'x' });
    expect(readFileSync(file('added'), 'utf8')).toMatch(/name: d\b/);
    await verified('added');
  });

  it('ignore: leaves the column out of table and contract, and loses no row', async () => {
    await database.query(`alter table ignored add column n int; update ignored set a = -a, n = 1;`);
    await until('ignored', (found) => found.get('30')?.['a'] === -30);
    expect((await rows('ignored')).get('1')).not.toHaveProperty('n');
    await verified('ignored');
  });

  it('quarantine: parks rows that use it, until the contract knows it', async () => {
    await database.query(`alter table parked add column n int; update parked set a = -a, n = 7 where id <= 3;`);
    const list = async (): Promise<string> =>
      (await runSluice(['quarantine', 'list', 'public.parked', '--json'], { cwd: folder, env })).out;
    await waitFor('parked rows', async () => ((await list()).match(/unknown:n/g)?.length ?? 0) >= 3, { everyMs: 300 });
    expect((await rows('parked')).get('1')).toMatchObject({ a: 1 });
    edit('parked', (text) => text.replace('value: quarantine', 'value: evolve'));
    await database.query(`update parked set a = 99 where id = 20`);
    await until('parked', (found) => found.get('20')?.['a'] === 99);
    const retried = await runSluice(['quarantine', 'retry', 'public.parked'], { cwd: folder, env });
    expect(retried.code, retried.err).toBe(0);
    expect((await rows('parked')).get('2')).toMatchObject({ a: -2, n: 7 });
    await verified('parked');
  });

  it('fail: stops the table by name, and goes on by itself after the edit', async () => {
    await database.query(
      `update refused set a = -a where id = 1; alter table refused add column n int; update refused set n = id;`,
    );
    await waitFor('the stop', async () => (await stateOf('refused')) === 'CONTRACT_FAILED', { everyMs: 300 });
    edit('refused', (text) => text.replace('value: fail', 'value: evolve'));
    await until('refused', (found) => found.get('30')?.['n'] === 30 && found.get('1')?.['a'] === -1);
    await verified('refused');
  });

  it('drop: a nullable column stays with NULL from there on, history kept', async () => {
    await database.query(
      `update dropped set a = 1000 where id = 1; alter table dropped drop column a; update dropped set b = 'c' where id <= 2;`,
    );
    await until('dropped', (found) => found.get('2')?.['b'] === 'c');
    const found = await rows('dropped');
    expect([found.get('1')?.['a'], found.get('3')?.['a']]).toEqual([null, 3]);
    await verified('dropped');
  });

  it('drop of a required column: stops with the edit, parks nothing, and goes on behind it', async () => {
    await database.query(
      `update gone set a = -1 where id = 1; alter table gone drop column b; update gone set a = -2 where id = 2;`,
    );
    await waitFor('the stop', async () => (await stateOf('gone')) === 'SCHEMA_CONFLICT', { everyMs: 300 });
    expect(await status()).toContain('column b is required by its contract');
    edit('gone', (text) =>
      text.replace(/(name: b\n(?:\s+(?!- ).*\n)*)/, (block) => block.replace('required: true', 'required: false')),
    );
    await until('gone', (found) => found.get('2')?.['a'] === -2 && found.get('1')?.['a'] === -1);
    expect((await runSluice(['quarantine', 'list', 'public.gone', '--json'], { cwd: folder, env })).out).not.toMatch(
      /"id"/,
    );
    await verified('gone');
  });

  it('rename: the new name has every value, old rows too', async () => {
    await database.query(
      `update renamed set a = a * 2; alter table renamed rename column a to total; update renamed set total = -1 where id = 1;`,
    );
    await until('renamed', (found) => found.get('30')?.['total'] === 60 && found.get('1')?.['total'] === -1);
    // By id: the contract's column takes the new name, and the old one is retired in the table.
    edit('renamed', (text) => {
      const id = /id: (\S+)\n\s+name: a\n/.exec(text)?.[1] ?? '';
      const added = /\n {6}- id: \S+\n {8}name: total\n(?: {8}.*\n)*/.exec(text)?.[0] ?? '';
      return text.replace(added, '\n').replace(new RegExp(`(id: ${id}\\n\\s+name: )a\\n`), '$1total\n');
    });
    await database.query(`update renamed set b = 'after' where id = 2`);
    await until('renamed', (found) => found.get('2')?.['b'] === 'after');
    expect((await rows('renamed')).get('2')).toMatchObject({ total: 4 });
    await verified('renamed');
  });

  it('widen: values that the contract and the table still hold go in, others are parked', async () => {
    await database.query(`alter table wider alter column a type bigint; update wider set a = id + 500;
update wider set a = 5000000000 where id = 1;`);
    await until('wider', (found) => found.get('30')?.['a'] === 530);
    const list = (await runSluice(['quarantine', 'list', 'public.wider', '--json'], { cwd: folder, env })).out;
    expect(list).toContain('"value":"5000000000"');
    await database.query(`update wider set a = 7 where id = 1`);
    await until('wider', (found) => found.get('1')?.['a'] === 7);
    await verified('wider');
  });

  it('another type: stops with the edit instead of parking every row', async () => {
    await database.query(
      `update retyped set a = -1 where id = 1; alter table retyped alter column a type text using 'n' || a; update retyped set a = 'text' where id = 2;`,
    );
    await waitFor('the stop', async () => (await stateOf('retyped')) === 'SCHEMA_CONFLICT', { everyMs: 300 });
    expect(await status()).toContain('column a is integer in its contract');
    expect((await runSluice(['quarantine', 'list', 'public.retyped', '--json'], { cwd: folder, env })).out).not.toMatch(
      /"id"/,
    );
    // Back to what the contract says: it goes on by itself.
    await database.query(
      `alter table retyped alter column a type int using 77; update retyped set b = 'back' where id = 3`,
    );
    await until('retyped', (found) => found.get('3')?.['b'] === 'back' && found.get('30')?.['a'] === 77);
    await verified('retyped');
  });

  it('a new enum label is parked where the contract is closed, and let in where it is open', async () => {
    await database.query(`alter type mood add value 'new'; `);
    await database.query(`update moods set m = 'new' where id = 1; update moods set a = 5 where id = 2;`);
    await until('moods', (found) => found.get('2')?.['a'] === 5);
    expect((await rows('moods')).get('1')?.['m']).toBe('sad');
    edit('moods', (text) =>
      text.replace(/(validValues: \[?[^\]\n]*happy)/, '$1, new').replace(/^(\s+)- happy$/m, '$1- happy\n$1- new'),
    );
    await database.query(`update moods set a = 6 where id = 2`);
    await until('moods', (found) => found.get('2')?.['a'] === 6);
    expect((await runSluice(['quarantine', 'retry', 'public.moods'], { cwd: folder, env })).code).toBe(0);
    expect((await rows('moods')).get('1')?.['m']).toBe('new');
    await verified('moods');
  });
});
