/**
 * The Kappa way: the shop replayed into a second table by another contract, compared, switched in and back, while a workload
 * goes on at the source. Killed at each step of a build and of a switch. Rows are compared with the source's own.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SHOP_SCHEMA_SQL } from '../../services/cli/demo/shop-schema.ts';
import { loadShop, runWorkload } from '../../services/cli/demo/shop-workload.ts';
import { getPostgres, type TestDatabase } from '../support/postgres.ts';
import { requires } from '../support/requirements.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { waitFor } from '../support/wait-for.ts';
import { createReplayPipeline, type ReplayPipeline } from './replay-pipeline.ts';

const suite = await requires('replay into a second table', 'pg18');
const KEY = ['tenant_id', 'order_id'];
/** table-switch.test.ts meets every point in one process; SLUICE_TEST_POINTS=all kills a real one at each of them here, too. */
const EVERY = process.env['SLUICE_TEST_POINTS'] === 'all';
const MORE = EVERY ? ['after-swap-record', 'before-swap-commit'] : [];
const LAST = EVERY ? ['after-swap-commit'] : [];

suite('replay into a second table', () => {
  const folder = temporaryFolder('replay-switch');
  let database: TestDatabase;
  let pipeline: ReplayPipeline;
  let session = 0;

  /** Changes at the source until the work is done. */
  async function beside<T>(work: () => Promise<T>): Promise<T> {
    const stop = new AbortController();
    session++;
    const load = runWorkload(database, {
      seed: session,
      transactions: 1_000_000,
      signal: stop.signal,
      rows: 600,
      violationEvery: 0,
      session,
      pace: () => sleep(20),
    });
    try {
      return await work();
    } finally {
      stop.abort();
      await load;
    }
  }
  const sourceNotes = async (): Promise<Map<string, string | null>> => {
    const rows = await database.query(`select tenant_id || '/' || order_id as key, total::text as total from orders`);
    return new Map(rows.map((row) => [String(row['key']), row['total'] ?? null]));
  };
  const lakeColumn = async (column: string): Promise<Map<string, unknown>> => {
    const rows = await pipeline.rows('public.orders', KEY);
    return new Map([...rows].map(([key, row]) => [key, (JSON.parse(row) as Record<string, unknown>)[column]]));
  };

  beforeAll(async () => {
    database = await getPostgres();
    await database.query(SHOP_SCHEMA_SQL);
    await loadShop(database, 600);
    pipeline = await createReplayPipeline(folder, 'switch', database);
    await pipeline.start();
    await waitFor('the snapshot', () => pipeline.equal());
    await beside(() => sleep(2_000));
    await pipeline.expectEqual('orders');
    // Another contract: the note does not come to the lake.
    const other = parseDocument(pipeline.contract('orders'));
    const columns = other.getIn(['schema', 0, 'properties']) as YAMLSeq<YAMLMap>;
    const note = columns.items.find((column) => column.get('name') === 'note');
    note?.set('customProperties', other.createNode([{ property: 'piiAction', value: 'drop' }]));
    pipeline.write('other.odcs.yaml', other.toString());
  });
  afterAll(async () => {
    await pipeline.stop();
    await database.close();
  });

  it('builds the same rows by the head contract, and finds nothing to change', async () => {
    await beside(async () => {
      const built = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_same', '--json');
      expect(built.json, built.err).toMatchObject({ kind: 'into', base: 'beginning', resumed: false });
      const found = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_same', '--diff', '--json');
      expect(found.json, found.err).toMatchObject({ equal: true, atOneLsn: true, added: 0, removed: 0, changed: 0 });
      expect(found.code).toBe(0);
    });
  });

  it('goes on where it was killed, by another contract, and says what would change', async () => {
    // Marks of their own, so that there are batches enough to be killed in.
    for (let part = 0; part < 8; part++) {
      await database.query(`update orders set note = note || '.' where order_id % 8 = ${part}`);
      await sleep(300);
    }
    await pipeline.expectEqual('orders');
    for (const point of [
      'after-offset-log-write:2',
      'after-data-files:2',
      'after-table-commit:2',
      'after-replay-build',
    ]) {
      const killed = await pipeline.sluiceIn(
        // Small batches, for the points are of the second one.
        { SLUICE_FAILPOINT: point, SLUICE_STREAM_MAX_OFFSETS_PER_TRIGGER: '20' },
        'replay',
        'orders',
        '--into',
        'public.orders_new',
        '--contract',
        'other.odcs.yaml',
      );
      expect(killed.signal, `${point}: ${killed.err}`).toBe('SIGKILL');
    }
    await beside(async () => {
      const built = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_new', '--json');
      expect(built.json, built.err).toMatchObject({ resumed: true });
      const found = await pipeline.sluice('replay', '--diff', 'public.orders', '--into', 'orders_new', '--json');
      expect(found.code, found.err).toBe(1);
      expect(found.json).toMatchObject({ atOneLsn: true, added: 0, removed: 0, changed: 0 });
      expect(found.json['columns']).toEqual([{ column: 'note', change: 'dropped', before: 'string', after: null }]);
    });
    const other = await pipeline.sluice('replay', 'customers', '--into', 'public.orders_new');
    expect(other).toMatchObject({ code: 2, err: expect.stringContaining('a replay builds it from public.orders') });
  });

  it('switches it in while rows come, goes on in it, and switches back and catches up', async () => {
    await beside(async () => {
      const swapped = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_new', '--swap', '--json');
      expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap', table: 'public.orders', contractChanged: true });
      await sleep(1_500);
    });
    await pipeline.expectEqual('orders');
    expect((await lakeColumn('note')).values().next().value).toBeUndefined();
    expect([...(await lakeColumn('total')).keys()].toSorted()).toEqual([...(await sourceNotes()).keys()].toSorted());
    expect(pipeline.contract('orders')).toContain('piiAction');
    await beside(async () => {
      const undone = await pipeline.sluice('replay', 'orders', '--undo', '--json');
      expect(undone.json, undone.err).toMatchObject({ kind: 'undo', contractChanged: true });
      await sleep(1_500);
    });
    await pipeline.expectEqual('orders');
    expect(pipeline.contract('orders')).not.toContain('piiAction');
    expect([...(await lakeColumn('note')).values()].some((note) => typeof note === 'string')).toBe(true);
    const twice = await pipeline.sluice('replay', 'orders', '--undo');
    expect(twice).toMatchObject({ code: 1, err: expect.stringContaining('was not swapped') });
  });

  describe.each([
    ['swap', ['during-swap-copy', 'after-swap-commit', ...MORE]],
    ['undo', ['before-swap-commit', ...MORE.filter((point) => point !== 'before-swap-commit'), ...LAST]],
  ] as const)('a killed %s', (kind, points) => {
    it.each(points)('at %s leaves one table or the other, and is finished or taken back', async (point) => {
      const args = kind === 'swap' ? ['--into', 'public.orders_new', '--swap'] : ['--undo'];
      if (kind === 'undo') {
        const swapped = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_new', '--swap', '--json');
        expect(swapped.json, swapped.err).toMatchObject({ kind: 'swap' });
      }
      if (point === 'during-swap-copy') {
        // What an earlier swap copied is there: only what the build has had since is copied.
        await beside(() => sleep(500));
        const built = await pipeline.sluice('replay', 'orders', '--into', 'public.orders_new', '--json');
        expect(built.json, built.err).toMatchObject({ resumed: true });
      }
      await pipeline.stop();
      await pipeline.start({ SLUICE_FAILPOINT: point });
      await beside(async () => {
        const lost = await pipeline.sluice('replay', 'orders', ...args);
        expect([1, 3], lost.err).toContain(lost.code);
        await pipeline.died();
      });
      await pipeline.start();
      await pipeline.expectEqual('orders');
      const committed = point === 'after-swap-commit';
      const dropped = (kind === 'swap') === committed;
      expect(pipeline.contract('orders').includes('piiAction')).toBe(dropped);
      expect([...(await lakeColumn('note')).values()].every((note) => note === undefined)).toBe(dropped);
      if (dropped) {
        const undone = await pipeline.sluice('replay', 'orders', '--undo', '--json');
        expect(undone.json, undone.err).toMatchObject({ kind: 'undo' });
        await pipeline.expectEqual('orders');
      }
    });
  });

  it('is removed when it is given up', async () => {
    const gone = await pipeline.sluice('replay', '--discard', '--into', 'public.orders_same', '--json');
    expect(gone.json, gone.err).toMatchObject({ kind: 'discard', into: 'public.orders_same' });
    const list = await pipeline.sluice('replay', '--list');
    expect(list.out).toContain('public.orders_new  built from public.orders');
    expect(list.out).not.toContain('orders_same');
  });
});
