/** A contract file that goes while nothing runs takes no privacy with it, and another key is said by name with what mends it. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createHasher } from '../../contracts/engine/privacy.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { freePort } from '../../ops/local/free-port.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const suite = await requires('a contract that is gone', 'pg15');
const KEY = 'a key of thirty-two bytes or so.';
const OTHER_KEY = 'another key of 32 bytes or so ..';
const CONTRACT = `apiVersion: v3.1.0
kind: DataContract
id: gone.public.people
version: 1.3.0
status: active
schema:
  - name: people
    physicalName: public.people
    properties:
      - {name: id, logicalType: integer, physicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
      - {name: email, logicalType: string, physicalType: text, classification: restricted, customProperties: [{property: piiAction, value: hash}]}
      - {name: phone, logicalType: string, physicalType: text, classification: restricted, customProperties: [{property: piiAction, value: drop}]}
`;

suite('a contract that is gone', () => {
  const folder = temporaryFolder('gone');
  const lake = createFileStore(join(folder, 'lake'));
  const file = join(folder, 'contracts/public.people.odcs.yaml');
  let database: TestDatabase;
  let env: Record<string, string>;
  let running: SluiceProcess | null = null;

  const until = async (what: string, id: string): Promise<void> => {
    await waitFor(what, async () => (await tableRows(lake, 'public/people')).has(id), { everyMs: 200 });
  };
  const stop = async (): Promise<string> => {
    running?.kill('SIGTERM');
    const ended = await running?.ended;
    running = null;
    expect(ended?.code, ended?.err).toBe(0);
    return `${ended?.out}${ended?.err}`;
  };

  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
    env = { PGURL: database.url, PII_KEY: KEY };
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(file, CONTRACT);
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: gone
source: {postgres: "\${PGURL}", tables: ["public.*"]}
lake: {uri: ./lake}
stream: {trigger: 200ms}
privacy: {key: "\${PII_KEY}"}
http: {port: ${await freePort()}}
logging: {level: warn}
`,
    );
    await database.query(`create table people (id int primary key, email text, phone text);
insert into people select i, 'p' || i, 'tel' || i from generate_series(1, 20) i;`);
    running = startSluice(['run'], { cwd: folder, env });
    await until('the first rows', '20');
    await stop();
  });
  afterAll(async () => {
    running?.kill();
    await database.close();
  });

  it('comes back with its privacy, and the rows that follow are hashed', async () => {
    rmSync(file);
    running = startSluice(['run'], { cwd: folder, env });
    await database.query(`insert into people values (21, 'p21', 'tel21')`);
    await until('the next row', '21');
    expect(readFileSync(file, 'utf8')).toBe(CONTRACT);
    const rows = await tableRows(lake, 'public/people');
    expect(rows.get('21')).toEqual(expect.objectContaining({ email: createHasher(Buffer.from(KEY))('p21') }));
    expect(rows.get('21')).not.toHaveProperty('phone');
    rmSync(file);
    await database.query(`insert into people values (22, 'p22', 'tel22')`);
    await until('a row while it runs', '22');
    expect((await tableRows(lake, 'public/people')).get('22')).not.toHaveProperty('phone');
    expect(await stop()).toMatch(/people: its contract file was gone; version 1\.3\.0/);
  });

  it('names a table that another key left with old pseudonyms, and the command mends it', async () => {
    env = { ...env, PII_KEY: OTHER_KEY };
    running = startSluice(['run'], { cwd: folder, env });
    await database.query(`insert into people values (23, 'p23', 'tel23')`);
    await until('a row of the new key', '23');
    const hasher = createHasher(Buffer.from(OTHER_KEY));
    const before = await tableRows(lake, 'public/people');
    expect(before.get('23')).toMatchObject({ email: hasher('p23') });
    expect(before.get('1')).toMatchObject({ email: createHasher(Buffer.from(KEY))('p1') });
    const mended = await runSluice(['backfill', 'public.people', '--exact'], { cwd: folder, env });
    expect(mended.code, mended.out + mended.err).toBe(0);
    await waitFor(
      'the new pseudonyms',
      async () => (await tableRows(lake, 'public/people')).get('1')?.['email'] === hasher('p1'),
      { everyMs: 300 },
    );
    const told = await stop();
    expect(told).toMatch(/privacy\.key is another one than before.*email/);
    expect(told).toContain('sluice backfill public.people --exact');
  });
});
