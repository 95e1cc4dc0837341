/** `sluice replay` in place, beside a running service and without one. What it did is told by the rows themselves. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { changeUnheard } from '../support/unheard-change.ts';
import { waitFor } from '../support/wait-for.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('replay in place', 'pg18');

const contractOf = (rule: string): string => `apiVersion: v3.1.0
kind: DataContract
id: orders
version: 1.0.0
status: active
schema:
  - name: orders
    physicalName: orders
    properties:
      - {name: id, logicalType: integer, physicalType: bigint, primaryKey: true, primaryKeyPosition: 1}
      - {name: note, logicalType: string, physicalType: text}
      - {name: amount, logicalType: number, physicalType: "numeric(12,2)"}
    quality:
      - {type: custom, engine: cel, id: amount_bound, implementation: "${rule}"}
`;

suite('replay in place', () => {
  const folder = temporaryFolder('replay-in-place');
  let database: TestDatabase;
  let pipeline: ReplayPipeline;

  const parked = async (): Promise<number> => {
    const { json } = await pipeline.sluice('quarantine', 'list', '--json');
    return (json['rows'] as unknown[]).length;
  };
  const replayed = (answer: { json: Record<string, unknown>; err: string }) => {
    const tables = answer.json['tables'] as Record<string, unknown>[] | undefined;
    expect(tables, answer.err).toBeDefined();
    return tables ?? [];
  };

  beforeAll(async () => {
    database = await getPostgres();
    await database.query(`
      create table orders (id bigint primary key, note text, amount numeric(12,2));
      alter table orders alter column note set storage external;
      create table lines (order_id int, part text, n int, primary key (order_id, part));
      insert into orders select i, repeat(md5(i::text), 100), i from generate_series(1, 1200) i;
      insert into lines select i, 'part ''' || i % 3, i from generate_series(1, 300) i;`);
    pipeline = await createReplayPipeline(folder, 'inplace', database);
    pipeline.write('contracts/public.orders.odcs.yaml', contractOf('row.amount < 1000000'));
    await pipeline.start();
    await waitFor('the snapshot', () => pipeline.equal());
    for (let i = 1; i <= 40; i++)
      await database.query(`
        begin; update orders set amount = amount + 1 where id % 40 = ${i % 40}; delete from lines where order_id = ${i};
        insert into lines values (${i + 5000}, 'new', ${i}); commit`);
    await database.query(`update orders set id = id + 10000 where id <= 20; delete from orders where id between 21 and 30;
      truncate lines; insert into lines values (1, 'after', 1)`);
    await pipeline.expectEqual('orders', 'lines');
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('changes nothing of what was applied: key changes, deletes, a truncate and unchanged columns included', async () => {
    const before = [
      await pipeline.rows('public.orders', ['id']),
      await pipeline.rows('public.lines', ['order_id', 'part']),
    ];
    const versions = [await pipeline.version('orders'), await pipeline.version('lines')];
    const done = await pipeline.sluice('replay', '--json');
    expect(done.code, done.err).toBe(0);
    for (const table of replayed(done))
      expect(table).toMatchObject({ applied: 0, released: 0, refused: 0, unsettledKeys: 0, settled: true });
    expect(replayed(done).map(({ read }) => Number(read) > 100)).toEqual([true, true]);
    expect(await pipeline.rows('public.orders', ['id'])).toEqual(before[0]);
    expect(await pipeline.rows('public.lines', ['order_id', 'part'])).toEqual(before[1]);
    expect([await pipeline.version('orders'), await pipeline.version('lines')]).toEqual(versions);
    await pipeline.expectEqual('orders', 'lines');
  });

  it('begins anywhere: at an offset, an LSN, a time, a batch', async () => {
    const { json } = await pipeline.sluice('replay', 'orders', '--dry-run', '--json');
    const [estimate] = json['tables'] as { toOffset: string; records: number; batches: number; bytes: number }[];
    expect(estimate?.records).toBeGreaterThan(2000);
    expect(estimate?.bytes).toBeGreaterThan(100_000);
    const lsn = String((await database.query('select pg_current_wal_lsn()::text as lsn'))[0]?.['lsn']);
    await database.query(`update orders set amount = amount + 1 where id = 500`);
    await pipeline.expectEqual('orders');
    for (const from of ['offset:100', `lsn:${lsn}`, '2026-01-01T00:00:00Z', 'batch:1', 'earliest']) {
      const done = await pipeline.sluice('replay', 'orders', '--from', from, '--json');
      expect(done.code, `${from}: ${done.err}`).toBe(0);
      expect(replayed(done)[0], from).toMatchObject({ applied: 0, unsettledKeys: 0 });
    }
    const some = await pipeline.sluice('replay', 'orders', '--from', 'offset:100', '--to', 'offset:200', '--json');
    expect(Number(replayed(some)[0]?.['read'])).toBeLessThan(2000);
    await pipeline.expectEqual('orders');
  });

  it('applies parked events that a corrected contract lets through, in order, and parks nothing twice', async () => {
    await database.query(`
      insert into orders values (20001, 'a', 2000000), (20002, 'b', 2000000), (20003, 'c', 2000000), (20004, 'd', 2000000);
      update orders set amount = 5 where id = 20002;
      update orders set amount = 3000000 where id = 20003;
      delete from orders where id = 20004;`);
    await waitFor('the parked rows', async () => (await parked()) >= 2);
    const again = await pipeline.sluice('replay', 'orders', '--json');
    expect(replayed(again)[0], again.err).toMatchObject({ applied: 0, released: 0, refused: 0 });
    const stillParked = await parked();
    pipeline.write('contracts/public.orders.odcs.yaml', contractOf('row.amount < 100000000'));
    const done = await pipeline.sluice('replay', 'orders', '--json');
    expect(done.code, done.err).toBe(0);
    expect(replayed(done)[0]).toMatchObject({ released: stillParked, parkedAgain: 0, refused: 0 });
    expect(await parked()).toBe(0);
    await pipeline.expectEqual('orders');
    const rows = await pipeline.rows('public.orders', ['id']);
    expect(rows.get('20001')).toContain('2000000');
    expect(rows.get('20003')).toContain('3000000');
    expect(rows.has('20004')).toBe(false);
    expect(replayed(await pipeline.sluice('replay', 'orders', '--json'))[0]).toMatchObject({ applied: 0, released: 0 });
  });

  it('tells of rows that a stricter contract would refuse, and leaves them', async () => {
    const before = await pipeline.rows('public.orders', ['id']);
    pipeline.write('contracts/public.orders.odcs.yaml', contractOf('row.amount < 100'));
    const done = await pipeline.sluice('replay', 'orders', '--json');
    expect(Number(replayed(done)[0]?.['refused'])).toBeGreaterThan(100);
    expect(await parked()).toBe(0);
    expect(await pipeline.rows('public.orders', ['id'])).toEqual(before);
    pipeline.write('contracts/public.orders.odcs.yaml', contractOf('row.amount < 100000000'));
  });

  it('meets an event whose unchanged column lies before all that the log has', async () => {
    // A row that the stream never heard of: its update leaves the unchanged note out, and the reader is asked for the row.
    await changeUnheard(
      database,
      'sluice_inplace',
      'orders',
      `insert into orders values (30001, repeat('long', 1000), 1)`,
    );
    const lsn = String((await database.query('select pg_current_wal_lsn()::text as lsn'))[0]?.['lsn']);
    await database.query(`update orders set amount = 2 where id = 30001`);
    await waitFor('the row', () => pipeline.equal('orders'));
    const done = await pipeline.sluice('replay', 'orders', '--from', `lsn:${lsn}`, '--json');
    expect(done.code, done.err).toBe(0);
    expect(replayed(done)[0]).toMatchObject({ applied: 0, unsettledKeys: 0, settled: true });
    expect((await pipeline.rows('public.orders', ['id'])).get('30001')).toContain('longlong');
    await pipeline.expectEqual('orders');
  });

  it('refuses positions that do not exist, with the fix', async () => {
    const cases: [string[], number, RegExp][] = [
      [['orders', '--from', 'yesterday'], 2, /expected: beginning/],
      [['orders', '--from', '2026-02-30'], 2, /--from cannot be/],
      [['orders', '--from', 'lsn:FFFFFFFF/0'], 2, /has not come to LSN/],
      [['orders', '--from', '2999-01-01'], 2, /has not come to/],
      [['orders', '--from', 'offset:99999999'], 2, /ends at offset/],
      [['orders', '--from', 'batch:99999999'], 2, /its newest is/],
      [['orders', '--from', 'offset:200', '--to', 'offset:100'], 2, /--to lies before --from/],
      [['nothere'], 2, /no table public.nothere/],
      [['orders', 'lines', '--into', 'public.x'], 2, /builds one table/],
      [['orders', '--swap'], 2, /needs --into/],
      [['orders', '--undo'], 1, /was not swapped/],
      [
        ['orders', '--into', 'public.lines'],
        2,
        /pipeline itself keeps public.lines there\n {2}choose another name for --into\n$/,
      ],
      [['orders', '--into', 'public.x', '--contract', 'nofile.yaml'], 2, /cannot be read/],
      [['--discard', '--into', 'public.x'], 2, /no replay built/],
    ];
    for (const [args, code, message] of cases) {
      const done = await pipeline.sluice('replay', ...args);
      expect({ args, code: done.code, err: done.err }).toMatchObject({
        args,
        code,
        err: expect.stringMatching(message),
      });
    }
  });

  it('runs where no service does, goes on after SIGKILL, and takes the table only for itself', async () => {
    await pipeline.stop();
    const killed = await pipeline.sluiceIn({ SLUICE_FAILPOINT: 'after-replay-batch:1' }, 'replay', 'orders', '--json');
    expect(killed.signal).toBe('SIGKILL');
    const done = await pipeline.sluice('replay', 'orders', '--json');
    expect(done.code, done.err).toBe(0);
    expect(replayed(done)[0]).toMatchObject({ resumed: true, applied: 0 });
    await pipeline.start();
    await pipeline.expectEqual('orders', 'lines');
  });
});
