/** The `contracts` command on a real PostgreSQL and a real Delta table, through the ports that the command is wired with. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Ports } from '../../contracts/cli/ports.ts';
import { openLakeSession } from '../../services/cli/contracts/lake-table.ts';
import { openCatalog } from '../../services/cli/contracts/live-catalog.ts';
import { parseConnection } from '../../services/reader/connection.ts';
import { openPostgresSource } from '../../services/reader/pg-source.ts';
import { createFileStore } from '../../lakehouse/store/file-store.ts';
import { createTable } from '../../lakehouse/table/create.ts';
import type { PrimitiveName, StructType } from '../../lakehouse/table/schema.ts';
import { appendBatch } from '../../lakehouse/write/append-batch.ts';
import { columnFrom } from '../support/column-from.ts';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import type { CellText } from '../support/row-events.ts';
import { createFakeReader } from '../ingest/fake-reader.ts';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import { openStream } from '../../services/cli/contracts/log-stream.ts';
import { getPostgres } from '../support/postgres.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { contracts } from './command-run.ts';
import { ordersContract, version } from './shop-contract.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const NOW = 1_767_225_600_000_000n;
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'contracts-live-')));
const lakeFolder = join(folder, 'lake');
mkdirSync(join(folder, 'contracts'));
const write = (text: string): void => writeFileSync(join(folder, 'contracts/public.orders.odcs.yaml'), text);

const ports: Partial<Ports> = {
  catalog: async (url) => openCatalog(await openPostgresSource(() => parseConnection(url)), () => NOW),
  lake: () =>
    Promise.resolve(
      openLakeSession(
        createFileStore(lakeFolder),
        () => NOW,
        (text) => text,
      ),
    ),
};

describe('on PostgreSQL', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await getPostgres();
    await database.query(`
create type order_status as enum ('new', 'paid', 'shipped');
create domain cents as bigint check (value >= 0);
create table orders (order_id bigint primary key, status order_status not null default 'new', total numeric(12,2) not null,
  email text, paid_at timestamptz);
comment on column orders.total is 'with tax';
create table parts (tenant int, code varchar(20) not null, price cents, tags text[], at timestamp with time zone,
  seen date, body jsonb, unique (tenant, code), check (tenant > 0), primary key (code, tenant));
insert into orders select i, 'paid', i, null, now() from generate_series(1, 10) i;`);
  });
  afterAll(() => database.close());

  it('finds no drift where there is none, and what an ALTER TABLE changed', async () => {
    write(ordersContract());
    const args = ['check', 'contracts', '--source', database.url];
    expect(await contracts(folder, args, ports)).toMatchObject({ exit: 0 });
    await database.query(`alter table orders add column x text; alter table orders alter column total type numeric(14,2);
alter type order_status add value 'lost'; alter table orders replica identity full`);
    const run = await contracts(folder, args, ports);
    expect(run.exit).toBe(1);
    for (const code of ['COLUMN_EXTRA', 'TYPE_DRIFT', 'ENUM_DRIFT']) expect(run.out).toContain(code);
  });

  it('infers with time zones, enum labels, UNIQUE, CHECK, defaults, arrays and domains kept (report 6)', async () => {
    const args = ['infer', '--from', 'postgres', database.url, '--table', 'public.*', '--out', 'made', '--strict'];
    const run = await contracts(folder, args, ports);
    expect([run.exit, run.err]).toEqual([0, expect.stringContaining('wrote made/public.orders.odcs.yaml')]);
    const orders = readFileSync(join(folder, 'made/public.orders.odcs.yaml'), 'utf8');
    const parts = readFileSync(join(folder, 'made/public.parts.odcs.yaml'), 'utf8');
    expect(orders).toContain('validValues: [new, paid, shipped, lost]');
    expect(orders).toContain('{property: default, value: new}');
    expect(orders).toContain('description: with tax');
    expect(orders).toMatch(/name: paid_at\n +logicalType: timestamp\n +logicalTypeOptions: \{timezone: true\}/);
    expect(parts).toMatch(/duplicateValues, arguments: \{properties: \[tenant, code\]\}/);
    expect(parts).toMatch(/name: tags\n +logicalType: array/);
    expect(parts).toMatch(/name: price\n.*\n +logicalTypeOptions: \{format: i64, minimum: 0\}/);
    expect((await contracts(folder, ['check', 'made', '--source', database.url], ports)).exit).toBe(0);
  });

  it('tests rules at the source, on the rows of the table itself', async () => {
    // A SELECT from orders gives these rows, too; the lake has them in another table.
    await database.query(`create table old_orders () inherits (orders);
insert into old_orders (order_id, status, total, paid_at) select i, 'new', i, now() from generate_series(1, 5) i`);
    write(
      ordersContract([
        /( {6}- \{id: orders_rows.*\n)/,
        '$1      - {id: paid_all, type: sql, query: "SELECT count(*) FROM {object} WHERE status <> \'paid\'", mustBe: 0}\n',
      ]),
    );
    const args = ['test', 'contracts', '--stage', 'source', '--source', database.url];
    const good = await contracts(folder, args, ports);
    expect([good.exit, good.out]).toEqual([0, expect.stringMatching(/ok +orders_rows +rowCount 10 > 0 +\(scan\)/)]);
    // A row rule sees the values in the forms that the gate sees.
    write(
      ordersContract([
        /( {6}- \{id: orders_rows.*\n)/,
        '$1      - {id: dear, type: custom, engine: cel, implementation: row.total > decimal("1.00") && row.paid_at > timestamp("2024-01-01T00:00:00Z")}\n',
      ]),
    );
    expect((await contracts(folder, args, ports)).out).toMatch(/FAIL +dear +cel 1 of 10 rows fail/);
    write(
      ordersContract([
        /( {6}- \{id: orders_rows.*\n)/,
        '$1      - {id: paid_all, type: sql, query: "SELECT count(*) FROM {object} WHERE status <> \'paid\'", mustBe: 0}\n',
      ]),
    );
    await database.query("update orders set status = 'new' where order_id = 3");
    const bad = await contracts(folder, args, ports);
    expect([bad.exit, bad.out]).toEqual([1, expect.stringMatching(/FAIL +paid_all +sql 1 /)]);
  });
});

describe('on a Delta table', () => {
  const types: readonly [string, PrimitiveName][] = [
    ['order_id', 'long'],
    ['status', 'string'],
    ['total', 'decimal(12,2)'],
    ['email', 'string'],
    ['paid_at', 'timestamp'],
    ['_sluice_committed_at', 'timestamp'],
  ];
  const schema: StructType = {
    type: 'struct',
    fields: types.map(([name, type]) => ({ name, type, nullable: true, metadata: {} })),
  };
  beforeAll(async () => {
    const table = await createTable(createFileStore(join(lakeFolder, 'public/orders')), { schema });
    const day = 86_400_000_000n;
    const value = (name: string, row: number): bigint | string | null => {
      if (name === 'order_id') return BigInt(row);
      if (name === 'status') return row < 3 ? 'shipped' : 'paid';
      if (name === 'total') return BigInt(row * 100);
      // One row a day: the first is the oldest.
      return name === '_sluice_committed_at' ? NOW - BigInt(19 - row) * day : null;
    };
    const columns = types.map(([name, type]) =>
      columnFrom(
        type,
        Array.from({ length: 20 }, (_, row) => value(name, row)),
      ),
    );
    await appendBatch(table, { rowCount: 20, names: types.map(([name]) => name), columns });
  });

  it('finds no drift, and counts the rows of the last days that a tighter contract would hold back', async () => {
    const base = join(folder, 'base.odcs.yaml');
    writeFileSync(base, ordersContract());
    write(ordersContract([/minimum: 0/, 'minimum: 15'], version('1.1.0')));
    const args = ['check', 'contracts', '--against', base, '--lake', lakeFolder];
    const wide = await contracts(folder, [...args, '--data', '30d'], ports);
    expect(wide.out).toContain('minimum 0 -> 15; last 30 days: 15 of 20 rows (75.00%) would be quarantined');
    expect(wide.out).toContain('0 errors, 1 warning');
    const narrow = await contracts(folder, [...args, '--data', '7d'], ports);
    expect(narrow.out).toContain('last 7 days: 3 of 8 rows (37.50%) would be quarantined');
  });

  it('tests rules by Delta statistics, scan, SQL and for the last days only', async () => {
    const more = [
      '      - {id: cheap, type: sql, query: "SELECT count(*) FROM {object} WHERE total > 100", mustBe: 0}',
      '      - {id: positive, type: custom, engine: cel, implementation: row.total > decimal("0"), severity: warning}',
      '',
    ].join('\n');
    const sla =
      'slaProperties:\n  - {id: lat, property: latency, value: 5, unit: minutes, element: orders._sluice_committed_at}\n';
    write(`${ordersContract([/( {6}- \{id: orders_rows.*\n)/, `$1${more}`])}${sla}`);
    const args = ['test', 'contracts', '--stage', 'lake', '--lake', lakeFolder];
    const run = await contracts(folder, args, ports);
    expect(run.out).toMatch(/^orders {2}1\.0\.0 {2}v1 of the table\n/);
    expect(run.out).toMatch(/ok +orders_rows +rowCount 20 > 0 +\(delta stats\)/);
    expect(run.out).toMatch(/ok +cheap +sql 0 = 0 +\(sql\)/);
    expect(run.out).toMatch(/warning +positive +cel 1 of 20 rows fail +\(scan\)/);
    expect(run.out).toMatch(/ok +status_ok +invalidValues 0 = 0 +\(scan\)/);
    expect(run.out).toMatch(/ok +lat +latency 00:00:00 <= 5 minutes +\(delta stats\)/);
    expect(run.exit).toBe(0);
    const recent = await contracts(folder, [...args, '--since', '7d'], ports);
    expect(recent.out).toMatch(/ok +orders_rows +rowCount 8 > 0 +\(scan\)/);
    expect(recent.out).toMatch(/ok +positive +cel 0 of 8 rows fail/);
  });

  it('infers from the table', async () => {
    const run = await contracts(
      folder,
      ['infer', '--from', 'delta', lakeFolder, '--table', 'public.orders', '--key', 'order_id'],
      ports,
    );
    expect(run.exit).toBe(0);
    expect(run.out).toMatch(/name: total\n +logicalType: number\n +physicalType: numeric\(12,2\)/);
    expect(run.out).not.toContain('_sluice_');
  });

  it('knows the key from the contract of the last batch', async () => {
    const args = ['infer', '--from', 'delta', lakeFolder, '--table', 'public.orders'];
    expect((await contracts(folder, args, ports)).out).not.toContain('primaryKey');
    const kept = join(lakeFolder, '_sluice', 'contracts', 'last');
    mkdirSync(kept, { recursive: true });
    writeFileSync(join(kept, 'public.orders.odcs.yaml'), ordersContract());
    expect((await contracts(folder, args, ports)).out).toMatch(/name: order_id\n(?: {8}.*\n)*? {8}primaryKey: true/);
    rmSync(join(lakeFolder, '_sluice'), { recursive: true });
  });
});

describe('on the log', () => {
  const shape = shapeOf([
    columnOf('order_id', 'bigint', 1),
    columnOf('status', 'order_status', 0, { kind: 'enum', enumLabels: ['new', 'paid', 'shipped'] }),
    columnOf('total', 'numeric(12,2)'),
    columnOf('email', 'text'),
    columnOf('paid_at', 'timestamp with time zone'),
  ]);
  beforeAll(async () => {
    const log = await openEmbeddedLog({ directory: join(folder, 'log') });
    const reader = await createFakeReader(log, 'shop');
    await reader.addShape(shape);
    const after = (id: number, status: CellText, total: string): CellText[] => [
      String(id),
      status,
      total,
      UNCHANGED,
      null,
    ];
    await reader.commit([
      { shape, op: 'c', after: ['1', 'new', '5.00', 'a@example.org', null] },
      { shape, op: 'u', after: after(1, 'paid', '5.00') },
      { shape, op: 'c', after: ['2', 'lost', '20.00', null, null] },
      { shape, op: 'd', before: after(1, 'paid', '5.00') },
    ]);
    await reader.close();
    await log.close();
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `name: shop\nlog: {kind: embedded, path: ${join(folder, 'log')}}\nlake: {uri: ${lakeFolder}}\n`,
    );
  });
  const onLog: Partial<Ports> = { stream: (config) => openStream(config, { cwd: folder, env: {} }) };

  it('tests rules on events, deletes left out', async () => {
    write(ordersContract());
    const run = await contracts(folder, ['test', 'contracts', '--stage', 'stream'], onLog);
    expect(run.out).toMatch(/^orders {2}1\.0\.0 {2}3 events of shop\.public\.orders\n/);
    expect(run.out).toMatch(/FAIL +status_ok +invalidValues 1 /);
    expect(run.exit).toBe(1);
  });

  it('counts events that a tighter contract would hold back', async () => {
    const base = join(folder, 'base.odcs.yaml');
    writeFileSync(base, ordersContract());
    write(ordersContract([/minimum: 0/, 'minimum: 10'], version('1.1.0')));
    const args = ['check', 'contracts', '--against', base, '--config', 'sluice.yaml', '--data', '2000d'];
    const run = await contracts(folder, args, onLog);
    expect(run.out).toContain('minimum 0 -> 10; last 2000 days: 2 of 3 rows (66.67%) would be quarantined');
    expect(run.out).toContain('BLAST_RADIUS');
  });

  it('infers from a topic', async () => {
    const run = await contracts(folder, ['infer', '--from', 'topic', '--table', 'public.orders'], onLog);
    expect(run.exit).toBe(0);
    expect(run.out).toMatch(/name: order_id\n(.*\n){1,3} +physicalType: integer\n +primaryKey: true/);
  });
});

describe('the command itself', () => {
  const main = join(REPOSITORY, 'services/cli/contracts/main.ts');
  it('ends with 0 on the contracts that are shipped', () => {
    const text = execFileSync(process.execPath, ['--import', 'tsx', main, 'check', 'contracts/', '--format', 'json'], {
      cwd: REPOSITORY,
      encoding: 'utf8',
    });
    const report = JSON.parse(text) as { schemaVersion: number; exit: number; contracts: unknown[] };
    const shipped = readdirSync(join(REPOSITORY, 'contracts')).filter((name) => name.endsWith('.odcs.yaml'));
    expect(report).toMatchObject({ schemaVersion: 1, exit: 0 });
    expect(report.contracts).toHaveLength(shipped.length);
  });

  it('a database that does not answer ends with 3 and shows no password', () => {
    const url = 'postgres://me:hunter2@127.0.0.1:1/shop';
    let failure: { status?: number; stdout?: string; stderr?: string } = {};
    try {
      execFileSync(process.execPath, ['--import', 'tsx', main, 'check', 'contracts', '--source', url], {
        cwd: REPOSITORY,
        encoding: 'utf8',
        stdio: 'pipe',
      });
    } catch (error) {
      failure = error as typeof failure;
    }
    expect(failure.status).toBe(3);
    expect(failure.stdout?.match(/SOURCE_UNREADABLE/g)).toHaveLength(1);
    expect(`${failure.stdout ?? ''}${failure.stderr ?? ''}`).not.toContain('hunter2');
  });
});
