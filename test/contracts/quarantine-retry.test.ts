/**
 * Bad rows, from their parking to the lake: they are parked with their keys stale and their personal values masked, the
 * contract is edited, and `sluice quarantine retry`, killed wherever it can be, makes the lake equal to the source without
 * bringing back anything older.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
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

const suite = await requires('quarantine and retry', 'pg15');
/** Where a retry passes, in its order; each is killed at once. */
const POINTS = ['after-data-files', 'before-table-commit', 'after-table-commit', 'after-retry-commit'] as const;

const contract = (maximum: number): string => `apiVersion: v3.1.0
kind: DataContract
id: q.public.accounts
version: 1.0.0
status: active
schema:
  - name: accounts
    physicalName: public.accounts
    properties:
      - {name: id, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: n, logicalType: integer, physicalType: integer, logicalTypeOptions: {maximum: ${maximum}}}
      - {name: email, logicalType: string, physicalType: text, classification: restricted, logicalTypeOptions: {maxLength: ${maximum}}}
      - {name: body, logicalType: string, physicalType: text}
`;

suite('quarantine and retry', () => {
  const folder = temporaryFolder('retry');
  const lake = createFileStore(join(folder, 'lake'));
  let database: TestDatabase;
  let env: Record<string, string>;
  let running: SluiceProcess | null = null;
  let port = 0;
  const ready = (): Promise<unknown> =>
    waitFor('the service', async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok, { everyMs: 200 });

  const rows = (): Promise<Map<string, Record<string, RowValue>>> => tableRows(lake, 'public/accounts');
  const sluice = (...args: string[]): ReturnType<typeof runSluice> => runSluice(args, { cwd: folder, env });
  const until = (what: string, probe: (found: Map<string, Record<string, RowValue>>) => boolean): Promise<unknown> =>
    waitFor(what, async () => probe(await rows()), { everyMs: 200 });
  const start = (failpoint = ''): SluiceProcess =>
    startSluice(['run'], { cwd: folder, env: { ...env, SLUICE_FAILPOINT: failpoint } });

  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
    env = { PGURL: database.url };
    port = await freePort();
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(join(folder, 'contracts/public.accounts.odcs.yaml'), contract(100));
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: q
source: {postgres: "\${PGURL}", tables: ["public.*"]}
lake: {uri: ./lake}
stream: {trigger: 200ms}
http: {port: ${port}}
logging: {level: info}
`,
    );
    await database.query(`
create table accounts (id int primary key, n int, email text, body text);
alter table accounts alter column body set storage external;
insert into accounts select i, i, 'mail' || i, repeat('b' || i, 3000) from generate_series(1, 30) i;`);
    running = start();
    await until('the snapshot', (found) => found.size === 30);
  });
  afterAll(async () => {
    running?.kill();
    await database.close();
  });

  it('parks bad rows alone, masks what is classified, and says which keys are stale', async () => {
    await database.query(`
update accounts set n = 500 where id <= 6;
update accounts set n = 22, body = 'healed' where id = 2;
delete from accounts where id = 3;
update accounts set n = 600 where id = 4;
update accounts set email = repeat('Secret@', 30) where id = 7;
insert into accounts values (100, 700, 'Secret@new', 'x');
delete from accounts where id = 5; insert into accounts values (5, 55, 'again', 'y');
update accounts set n = -1 where id = 30;`);
    await until('what is good', (found) => found.get('30')?.['n'] === -1 && found.get('5')?.['n'] === 55);
    const found = await rows();
    expect([found.get('1')?.['n'], found.get('2')?.['n'], found.has('3'), found.has('100')]).toEqual([
      1,
      22,
      false,
      false,
    ]);
    const listed = await sluice('quarantine', 'list', '--json');
    const parked = JSON.parse(listed.out) as {
      rows: { id: string; rules: string[]; value: string; status: string }[];
    };
    expect(parked.rows.filter(({ status }) => status === 'parked').length).toBeGreaterThanOrEqual(5);
    const classified = parked.rows.find(({ rules }) => rules.some((rule) => rule.includes('email')));
    expect(classified?.value).toBe('***');
    for (const { id } of parked.rows.filter(({ rules }) => rules.some((rule) => /email|n$/.test(rule))).slice(-2)) {
      const shown = await sluice('quarantine', 'show', id, '--json');
      expect(shown.code, shown.err).toBe(0);
      expect(shown.out).not.toContain('Secret');
      expect(shown.out).not.toMatch(/mail\d/);
    }
    // What becomes private later is masked in what was parked before, too.
    const open = parked.rows.find(({ value }) => value === '500');
    writeFileSync(
      join(folder, 'contracts/public.accounts.odcs.yaml'),
      contract(100).replace('{name: n, ', '{name: n, tags: [pii], '),
    );
    const masked = JSON.parse((await sluice('quarantine', 'list', '--json')).out) as typeof parked;
    expect(masked.rows.find(({ id }) => id === open?.id)?.value).toBe('***');
    const shown = JSON.parse((await sluice('quarantine', 'show', open?.id ?? '', '--json')).out) as {
      row: { value: string; columns: Record<string, string> };
    };
    expect([shown.row.value, shown.row.columns['n'], shown.row.columns['id']]).toEqual(['***', '***', '1']);
    writeFileSync(join(folder, 'contracts/public.accounts.odcs.yaml'), contract(100));
    for (const args of [['quarantine', 'list'], ['status'], ['status', '--json'], ['verify', '--json']])
      expect((await sluice(...args)).out).not.toContain('Secret');
    const status = JSON.parse((await sluice('status', '--json')).out) as { tables: { staleKeys: number }[] };
    // 1, 4, 6, 7 and 100: 2 and 5 were healed, 3 is gone.
    expect(status.tables[0]?.staleKeys).toBe(5);
    const verified = JSON.parse((await sluice('verify', '--json')).out) as { tables: { parkedKeys: number }[] };
    expect(verified.tables[0]?.parkedKeys).toBeGreaterThanOrEqual(4);
  });

  it('changes nothing by a retry under the same contract', async () => {
    const before = await rows();
    const again = await sluice('quarantine', 'retry', '--json');
    expect(again.code).toBe(1);
    expect([...(await rows())].map(([key, row]) => [key, row['n'], row['body']])).toEqual(
      [...before].map(([key, row]) => [key, row['n'], row['body']]),
    );
  });

  it.each(POINTS)('loses nothing when it is killed %s', async (point) => {
    const parkedBefore = (await tableRows(lake, 'public/accounts__quarantine', ['id'])).size;
    writeFileSync(join(folder, 'contracts/public.accounts.odcs.yaml'), contract(1000));
    const id = 200 + POINTS.indexOf(point);
    await database.query(`insert into accounts values (${id}, 5000, 'Secret@' || ${id}, 'z')`);
    await waitFor(
      'the parked row',
      async () => (await tableRows(lake, 'public/accounts__quarantine', ['id'])).size > parkedBefore,
      { everyMs: 300 },
    );
    running?.kill('SIGTERM');
    await running?.ended;
    writeFileSync(join(folder, 'contracts/public.accounts.odcs.yaml'), contract(10_000));
    const killed = start(`${point}:1`);
    await ready();
    const cut = await sluice('quarantine', 'retry');
    const ended = await Promise.race([killed.ended, sleep(60_000).then(() => null)]);
    expect(ended?.signal, `${cut.out}${cut.err}${ended?.err}`).toBe('SIGKILL');
    running = start();
    await ready();
    const retried = await sluice('quarantine', 'retry', '--json');
    expect(retried.code, retried.out + retried.err).toBe(0);
    expect((await rows()).get(String(id))?.['n']).toBe(5000);
    const second = JSON.parse((await sluice('quarantine', 'retry', '--json')).out) as { tables: { retried: number }[] };
    expect(second.tables.reduce((sum, { retried }) => sum + retried, 0)).toBe(0);
  });

  it('equals the source, and nothing old has come back', async () => {
    const verified = JSON.parse((await sluice('verify', '--json')).out) as { tables: { parkedKeys: number }[] };
    expect(verified).toMatchObject({ equal: true });
    expect(verified.tables[0]?.parkedKeys).toBe(0);
    const found = await rows();
    expect([1, 2, 4, 5, 6].map((id) => found.get(String(id))?.['n'])).toEqual([500, 22, 600, 55, 500]);
    expect([found.has('3'), found.get('2')?.['body'], found.get('100')?.['n']]).toEqual([false, 'healed', 700]);
    // Unchanged TOAST of a parked update is the row's own.
    expect(found.get('1')?.['body']).toBe('b1'.repeat(3000));
    const status = JSON.parse((await sluice('status', '--json')).out) as { tables: { staleKeys: number }[] };
    expect(status.tables[0]?.staleKeys).toBe(0);
    running?.kill('SIGTERM');
    const ended = await running?.ended;
    expect(`${ended?.out}${ended?.err}`).not.toContain('Secret');
    running = null;
  });
});
