/**
 * Several workers of one pipeline in one process, with a group that the test steers: who joins, who goes, and who is cut off
 * and still believes that its tables are its own. Money goes from table to table: every cut of all tables adds up to the same
 * sum, and at the end every table is what was written.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { scan } from '../../lakehouse/read/scan.ts';
import { StoreError } from '../../lakehouse/store/store.ts';
import { subStore } from '../../lakehouse/store/sub-store.ts';
import { openSnapshot } from '../../lakehouse/table/snapshot.ts';
import type { IngestHandle } from '../../services/ingest/pipeline.ts';
import type { GroupOptions, JoinGroup } from '../../services/log/membership.ts';
import { columnOf, shapeOf } from '../support/row-events.ts';
import { waitFor } from '../support/wait-for.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];
const START = 1000n;
const shapes = NAMES.map((table, i) =>
  shapeOf([columnOf('id', 'integer', 1, { notNull: true }), columnOf('balance', 'bigint')], { table, version: i + 1 }),
);

/** Shares out as the brokers would, some milliseconds after anything has changed. */
function createGroup() {
  const members = new Map<string, GroupOptions>();
  let next = 0;
  let due = false;
  function round(): void {
    due = false;
    const [leader] = members.values();
    const claims = new Map([...members].map(([id, member]) => [id, member.describe()]));
    const shares = leader?.share(claims) ?? new Map<string, Buffer>();
    for (const [id, share] of shares) members.get(id)?.onShare(share);
  }
  function change(): void {
    if (!due) setTimeout(round, 5);
    due = true;
  }
  const join: JoinGroup = (options) => {
    const id = `m${next++}`;
    members.set(id, options);
    change();
    return {
      again: () => void (members.has(id) && change()),
      leave: async () => {
        members.delete(id);
        change();
        return Promise.resolve();
      },
    };
  };
  return {
    join,
    /** The first member no longer answers: the others share without it. Gives what tells it so, and lets it join again. */
    cutOff(): () => void {
      const [[id, options]] = [...members] as [[string, GroupOptions]];
      members.delete(id);
      change();
      return () => {
        options.onLost();
        members.set(id, options);
        change();
      };
    },
  };
}

let parts: Parts;
let balances: Map<string, bigint>;
let atMs: number;
beforeEach(async () => {
  parts = await createParts();
  balances = new Map();
  atMs = 10_000;
  for (const shape of shapes) await parts.reader.addShape(shape, 2);
  for (const shape of shapes) {
    for (const id of [1, 2, 3]) balances.set(`${shape.table}/${id}`, START);
    await parts.reader.commit(
      [1, 2, 3].map((id) => ({ shape, op: 'c' as const, after: [String(id), String(START)] })),
      { atMs: (atMs += 300) },
    );
  }
});
afterEach(() => parts.close());

async function transfer(i: number): Promise<void> {
  const amount = BigInt((i * 7919) % 97);
  const changes = [];
  for (const [table, by] of [
    [i % NAMES.length, -amount],
    [(i * 5 + 1 + (i % 4)) % NAMES.length, amount],
  ] as const) {
    const shape = shapes[table] as (typeof shapes)[number];
    const id = 1 + (i % 3);
    const key = `${shape.table}/${id}`;
    const balance = (balances.get(key) ?? 0n) + by;
    balances.set(key, balance);
    changes.push({ shape, op: 'u' as const, after: [String(id), String(balance)], ord: changes.length });
  }
  await parts.reader.commit(changes, { atMs: (atMs += 100) });
}

interface Cut {
  readonly markSequence: number;
  readonly tables: Readonly<Record<string, { readonly path: string; readonly version: number }>>;
}
async function readCut(): Promise<Cut | null> {
  const bytes = await parts.lake.get('_sluice/consistent.json').catch(() => null);
  return bytes === null ? null : (JSON.parse(Buffer.from(bytes).toString('utf8')) as Cut);
}
async function sumAt(cut: Cut): Promise<bigint> {
  let sum = 0n;
  for (const { path, version } of Object.values(cut.tables)) {
    const snapshot = await openSnapshot(subStore(parts.lake, path), { version: BigInt(version) });
    for await (const { columns, rowCount } of scan(snapshot, { columns: ['balance'] })) {
      const [column] = columns;
      if (column?.kind !== 'int64') throw new Error('balance is no long');
      for (let row = 0; row < rowCount; row++) sum += column.values[row] ?? 0n;
    }
  }
  return sum;
}

/** The workers' lake and log: a store that all reach, and a group. */
const worker = (join: JoinGroup, name: string): Promise<IngestHandle> =>
  parts.start({
    log: { ...parts.log, join },
    lake: { ...parts.lake, uri: 's3://lake' },
    stateFolder: `${parts.folder}/${name}`,
    trigger: { kind: 'interval', intervalMs: 20 },
  });
const tablesOf = (handle: IngestHandle): string[] => handle.status().tables.map(({ table }) => table);
const settled = (handles: readonly IngestHandle[]): Promise<boolean> =>
  waitFor('an even share', () => {
    const all = handles.map(tablesOf);
    return all.flat().length === NAMES.length && all.every((tables) => tables.length === NAMES.length / handles.length);
  });

/** Cuts that were looked at so far. */
let looked = 0;
/** Writes transfers and looks at every new cut until `action` is over. */
async function underTransfers(action: () => Promise<void>): Promise<void> {
  let over = false;
  let i = 0;
  const writing = (async (): Promise<void> => {
    while (!over) {
      await transfer(i++);
      await sleep(4);
    }
  })();
  const seen = new Set<number>();
  looked = 0;
  const looking = (async (): Promise<void> => {
    while (!over) {
      const cut = await readCut();
      // Earlier cuts are right, too, and lack the tables that had no row yet.
      if (cut !== null && cut.markSequence >= NAMES.length && !seen.has(cut.markSequence)) {
        expect({ cut, sum: await sumAt(cut), tables: Object.keys(cut.tables).length }).toMatchObject({
          sum: START * BigInt(3 * NAMES.length),
          tables: NAMES.length,
        });
        seen.add(cut.markSequence);
        looked = seen.size;
      }
      await sleep(5);
    }
  })();
  try {
    await Promise.race([action(), looking]);
  } finally {
    over = true;
    await writing;
  }
  await looking;
}
async function newCuts(): Promise<void> {
  const wanted = looked + 3;
  await waitFor('new cuts that add up', () => looked >= wanted);
}
async function expectAll(handles: readonly IngestHandle[]): Promise<void> {
  for (const handle of handles) await handle.drain();
  for (const { table } of shapes) {
    const rows = await parts.rows(`public/${table}`);
    for (const id of ['1', '2', '3'])
      expect([table, id, rows.get(id)?.['balance']]).toEqual([table, id, balances.get(`${table}/${id}`)]);
  }
}

test('a store that does not answer while tables are taken over is asked again which of them are paused', async () => {
  const group = createGroup();
  let asked = 0;
  const one = await parts.start({
    log: { ...parts.log, join: group.join },
    lake: { ...parts.lake, uri: 's3://lake' },
    trigger: { kind: 'interval', intervalMs: 20 },
    async pausedTables() {
      asked++;
      if (asked <= 2) throw new StoreError('STORE_UNAVAILABLE', '_sluice/paused.json', '503');
      return Promise.resolve(new Set(['public.c']));
    },
  });
  await settled([one]);
  const paused = one.status().tables.filter(({ state }) => state === 'PAUSED');
  expect(paused.map(({ table }) => table)).toEqual(['public.c']);
});

test('a table that was resumed while another worker had it is not paused for what was so before', async () => {
  const group = createGroup();
  let asked = (): void => undefined;
  const one = await parts.start({
    log: { ...parts.log, join: group.join },
    lake: { ...parts.lake, uri: 's3://lake' },
    trigger: { kind: 'interval', intervalMs: 20 },
    // As the document stands when the tables are taken over.
    pausedTables: () => new Promise((resolve) => (asked = () => resolve(new Set(['public.c'])))),
  });
  // As it stood when this worker started.
  for (const id of ['public.b', 'public.c']) one.pause(id);
  await waitFor('the tables to be taken over', () => {
    asked();
    return tablesOf(one).length === NAMES.length;
  });
  const paused = one.status().tables.filter(({ state }) => state === 'PAUSED');
  expect(paused.map(({ table }) => table)).toEqual(['public.c']);
});

test('workers come and go, and each cut is one state of all tables', async () => {
  const group = createGroup();
  const one = await worker(group.join, 'one');
  await settled([one]);
  let two: IngestHandle | null = null;
  let three: IngestHandle | null = null;
  await underTransfers(async () => {
    await newCuts();
    two = await worker(group.join, 'two');
    await settled([one, two]);
    await newCuts();
    three = await worker(group.join, 'three');
    await settled([one, two, three]);
    await newCuts();
    await one.stop();
    await settled([two, three]);
    await newCuts();
    await three.stop();
    await settled([two]);
    await newCuts();
  });
  expect(looked).toBeGreaterThan(8);
  await expectAll([two as unknown as IngestHandle]);
});

test('a worker that is cut off and goes on harms nothing, and takes its share again', async () => {
  const group = createGroup();
  const zombie = await worker(group.join, 'zombie');
  const other = await worker(group.join, 'other');
  await settled([zombie, other]);
  await underTransfers(async () => {
    await newCuts();
    for (let round = 0; round < 2; round++) {
      const tell = group.cutOff();
      await waitFor(
        'the other to have all',
        () => tablesOf(other).length === NAMES.length || tablesOf(zombie).length === NAMES.length,
      );
      // Both write the same tables for a while.
      await sleep(1500);
      tell();
      await settled([zombie, other]);
      await newCuts();
    }
  });
  await expectAll([zombie, other]);
});
