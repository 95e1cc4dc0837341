/**
 * `piiStage: before-log`: no byte of a personal value stands in the log — records, old rows, keys, claim checks, parked rows,
 * the reader's own state — while the lake has its replacement and verify says that it is the right one. Through both logs.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createHasher } from '../../contracts/engine/privacy.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { freePort } from '../../ops/local/free-port.ts';
import { openLog } from '../../services/cli/assemble/log.ts';
import { parseConfig } from '../../services/runtime/config.ts';
import { tableRows } from '../ingest/bench-of-parts.ts';
import { getKafka } from '../support/kafka.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { runSluice, startSluice, type SluiceProcess } from '../support/sluice-process.ts';
import { waitFor } from '../support/wait-for.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const KEY = '0123456789abcdef0123456789abcdef';
/** Stands in every personal value, and nowhere else. */
const SECRET = 'Xq7Zsecret';
const ITS_BYTES = Buffer.from(SECRET);

const column = (name: string, physicalType: string, action: string | null, more = ''): string =>
  `      - {name: ${name}, physicalType: ${physicalType}${more}${action === null ? '' : `, customProperties: [{property: piiAction, value: '${action}'}, {property: piiStage, value: before-log}]`}}\n`;
const contract = (table: string, columns: string, rules = ''): string => `apiVersion: v3.1.0
kind: DataContract
id: ${table}
version: 1.0.0
status: active
schema:
  - name: ${table}
    physicalName: ${table}
${rules}    properties:
${columns}`;
const key = ', primaryKey: true, primaryKeyPosition: 1, required: true';

const PEOPLE = contract(
  'people',
  column('id', 'bigint', null, key) +
    column('email', 'text', 'hash') +
    column('phone', 'text', 'mask') +
    column('alias', 'text', 'null') +
    column('note', 'text', 'drop') +
    column('big', 'text', 'hash') +
    column('n', 'integer', null),
  `    quality: [{id: n_small, type: custom, engine: cel, implementation: 'row.n == null || row.n < 100', severity: error}]\n`,
);
const CARDS = contract(
  'cards',
  column('card', 'text', 'hash', key) + column('at', 'timestamptz', 'hash') + column('n', 'integer', null),
);

const suite = await requires('privacy before the log', 'pg15', 'kafka');

suite.each(['embedded', 'kafka'] as const)('privacy before the %s log', (kind) => {
  const folder = temporaryFolder(`before-log-${kind}`);
  const lake = createFileStore(join(folder, 'lake'));
  let database: TestDatabase;
  let env: Record<string, string>;
  let running: SluiceProcess | null = null;
  const configText = { text: '' };

  beforeAll(async () => {
    database = await getPostgres({ major: 15 });
    const { brokers, prefix } = await getKafka();
    configText.text = `name: ${prefix}
source: {postgres: "\${PGURL}", tables: ["public.*"]}
log: ${kind === 'embedded' ? '{kind: embedded}' : `{kind: kafka, brokers: ["${brokers.join('", "')}"], partitions: 2}`}
lake: {uri: ./lake}
privacy: {key: "\${PII_KEY}"}
stream: {trigger: 200ms}
http: {port: ${await freePort()}}
logging: {level: info}
`;
    mkdirSync(join(folder, 'contracts'));
    writeFileSync(join(folder, 'sluice.yaml'), configText.text);
    writeFileSync(join(folder, 'contracts/public.people.odcs.yaml'), PEOPLE);
    writeFileSync(join(folder, 'contracts/public.cards.odcs.yaml'), CARDS);
    env = { PGURL: database.url, PII_KEY: KEY };
    await database.query(`
create table people (id bigint primary key, email text, phone text, alias text, note text, big text, n int);
alter table people alter column big set storage external;
create table cards (card text primary key, at timestamptz, n int);
create table late (id int primary key, email text);
alter table late replica identity full;
insert into people select i, '${SECRET}' || i, '${SECRET}', '${SECRET}', '${SECRET}', repeat('${SECRET}' || i, 300), i from generate_series(1, 50) i;
insert into cards select '${SECRET}' || i, now(), i from generate_series(1, 50) i;
insert into late select i, 'open' || i from generate_series(1, 20) i;`);
  });
  afterAll(async () => {
    running?.kill();
    await database.close();
  });

  /** Every byte that the log keeps: files of the embedded log, records of Kafka's topics, envelopes by claim check. */
  async function logHolds(bytes: Buffer): Promise<string[]> {
    const found: string[] = [];
    const walk = (path: string): void => {
      for (const entry of readdirSync(path, { withFileTypes: true })) {
        const full = join(path, entry.name);
        if (entry.isDirectory()) walk(full);
        else if (readFileSync(full).includes(bytes)) found.push(full);
      }
    };
    if (kind === 'embedded') walk(join(folder, '.sluice'));
    walk(join(folder, 'lake'));
    const config = parseConfig({ text: configText.text, file: 'sluice.yaml', env, readFile: () => '' });
    const log = await openLog({ ...config, log: { ...config.log, path: join(folder, config.log.path) } }, () => config);
    let records = 0;
    try {
      for (const topic of await log.admin.topics()) {
        if (!topic.startsWith(config.name)) continue;
        for (const [partition, { earliest, end }] of await log.reader.bounds(topic))
          for await (const batch of log.reader.read(topic, partition, earliest, end))
            for (const [i, value] of batch.values.entries()) {
              records++;
              if (value?.includes(bytes) === true || batch.keys[i]?.includes(bytes) === true) found.push(topic);
            }
      }
    } finally {
      await log.close();
    }
    expect(records).toBeGreaterThan(100);
    return found;
  }
  const verify = async (): Promise<Record<string, unknown>> => {
    const result = await runSluice(['verify', '--json'], { cwd: folder, env });
    return JSON.parse(result.out || JSON.stringify({ err: result.err })) as Record<string, unknown>;
  };
  const stop = async (): Promise<string> => {
    running?.kill('SIGTERM');
    const ended = await running?.ended;
    running = null;
    expect(ended?.code, ended?.err).toBe(0);
    return `${ended?.out}${ended?.err}`;
  };

  it('keeps every form of the value out, in snapshot and stream', async () => {
    const first = await runSluice(['run', '--available-now'], { cwd: folder, env });
    expect(first.code, first.err).toBe(0);
    running = startSluice(['run'], { cwd: folder, env });
    await database.query(`
update people set n = n + 1 where id % 2 = 0;
update people set email = '${SECRET}new', big = repeat('${SECRET}', ${kind === 'kafka' ? 150_000 : 1_000}) where id = 3;
update people set id = -id where id = 4;
update people set email = null, phone = null where id = 5;
delete from people where id = 6;
alter table people replica identity full;
update people set n = 7 where id = 7;
delete from people where id = 8;
insert into people values (1000, '${SECRET}bad', '${SECRET}', '${SECRET}', '${SECRET}', '${SECRET}', 500);
update cards set n = n + 1;
update cards set card = card || 'x' where n % 5 = 0;
delete from cards where n % 7 = 0;`);
    const result = await verify();
    expect(result, JSON.stringify(result)).toMatchObject({ equal: true });
    const tables = result['tables'] as { table: string; left: unknown[] }[];
    expect(tables.find(({ table }) => table === 'public.people')?.left).toEqual([
      { column: 'note', reason: 'dropped by its piiAction' },
    ]);
    expect(await stop()).not.toContain(SECRET);
    expect(await logHolds(ITS_BYTES)).toEqual([]);
    const rows = await tableRows(lake, 'public/people');
    const hasher = createHasher(Buffer.from(KEY));
    expect(rows.get('3')).toMatchObject({ email: hasher(`${SECRET}new`), phone: '***', alias: null });
    expect(rows.get('5')).toMatchObject({ email: null, phone: null });
    expect(rows.get('3')).not.toHaveProperty('note');
    expect(rows.get('-4')).toMatchObject({ email: hasher(`${SECRET}4`) });
    expect((await tableRows(lake, 'public/cards')).has(hasher(`${SECRET}1`))).toBe(true);
  });

  it('finds a hash that is not the right one', async () => {
    running = startSluice(['run'], { cwd: folder, env });
    const wrong = await runSluice(['verify', '--json'], { cwd: folder, env: { ...env, PII_KEY: `${KEY}x` } });
    const report = JSON.parse(wrong.out) as { equal: boolean; tables: { table: string; differences: unknown[] }[] };
    expect(report.equal).toBe(false);
    expect(report.tables.find(({ table }) => table === 'public.people')?.differences.length).toBeGreaterThan(5);
  });

  it('takes an action up that the contract gets while it runs', async () => {
    writeFileSync(
      join(folder, 'contracts/public.late.odcs.yaml'),
      contract('late', column('id', 'integer', null, key) + column('email', 'text', 'hash')),
    );
    await waitFor('the reader to take it up', () =>
      running?.output().includes('what is kept out of the log of public.late has changed'),
    );
    await database.query(`insert into late select i, '${SECRET}' || i from generate_series(100, 120) i;
update late set email = '${SECRET}' || id where id < 5; delete from late where id = 101;`);
    const repaired = await runSluice(['repair', 'public.late'], { cwd: folder, env });
    expect(repaired.code, repaired.err).toBe(0);
    expect(await verify()).toMatchObject({ equal: true });
    expect(await stop()).not.toContain(SECRET);
    expect(await logHolds(ITS_BYTES)).toEqual([]);
  });

  it('reads hashed tables again when the key was exchanged, and stops by name without one', async () => {
    env = { ...env, PII_KEY: 'another key, of 32 bytes or so ..' };
    running = startSluice(['run'], { cwd: folder, env });
    await database.query(`update cards set n = n + 1 where n % 3 = 0`);
    await waitFor('the tables to be read again', async () => (await verify())['equal'] === true);
    await stop();
    writeFileSync(join(folder, 'sluice.yaml'), configText.text.replace(/^privacy:.*\n/m, ''));
    running = startSluice(['run'], { cwd: folder, env });
    await database.query(`insert into cards values ('${SECRET}no key', now(), 1)`);
    await waitFor(
      'the table to stop without a key',
      async () => (await runSluice(['status', '--json'], { cwd: folder, env })).out.includes('PII_KEY_MISSING'),
      { everyMs: 500 },
    );
    await stop();
    writeFileSync(join(folder, 'sluice.yaml'), configText.text);
    running = startSluice(['run'], { cwd: folder, env });
    await waitFor('the table to be read again', async () => (await verify())['equal'] === true);
    await stop();
    expect(await logHolds(ITS_BYTES)).toEqual([]);
  });
});
