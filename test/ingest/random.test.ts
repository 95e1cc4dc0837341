/**
 * Random histories of two tables (inserts, partial updates, deletes, key changes, truncates; several partitions), streamed while the
 * process is "killed" at random named points. In the end the lake equals the source, and no event is counted twice.
 * The seed is in the test's name; more seeds by SLUICE_TEST_RUNS.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { columnOf, propertyRuns, shapeOf, UNCHANGED } from '../support/row-events.ts';
import type { CellText } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';
import type { FakeChange } from './fake-reader.ts';

const POINTS = [
  'after-offset-log-write',
  'after-quarantine-commit',
  'after-data-files',
  'before-table-commit',
  'after-table-commit',
];
const columns = [
  columnOf('tenant', 'text', 1, { notNull: true }),
  columnOf('id', 'bigint', 2, { notNull: true }),
  columnOf('n', 'integer'),
  columnOf('body', 'text'),
];
const shapes = [
  shapeOf(columns, { table: 'a', version: 1 }),
  shapeOf(columns, { table: 'b', oid: 2, version: 2 }),
] as const;

/** mulberry32 */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) / 4294967296) * below;
  };
}

interface Row {
  readonly n: string | null;
  readonly body: string | null;
}

class Source {
  readonly tables: readonly Map<string, Row>[] = [new Map(), new Map()];
  events = 0;
  private readonly pick: (below: number) => number;
  constructor(pick: (below: number) => number) {
    this.pick = pick;
  }

  transaction(): FakeChange[] {
    const changes: FakeChange[] = [];
    const count = 1 + Math.floor(this.pick(12));
    for (let i = 0; i < count; i++) {
      const which = Math.floor(this.pick(2));
      changes.push(...this.change(which, changes.length * 2));
    }
    this.events += changes.length;
    return changes;
  }

  private change(which: number, ord: number): FakeChange[] {
    const rows = this.tables[which]!;
    const shape = shapes[which]!;
    const key = this.key();
    const cells = key.split('/');
    const row = rows.get(key);
    const roll = this.pick(100);
    if (row === undefined) {
      const fresh = { n: this.number(), body: `body ${Math.floor(this.pick(1e6))}` };
      rows.set(key, fresh);
      return [{ shape, op: 'c', ord, after: [...cells, fresh.n, fresh.body] }];
    }
    if (roll < 15) {
      rows.delete(key);
      return [{ shape, op: 'd', ord, before: [...cells, null, null] }];
    }
    if (roll < 30) {
      const to = this.key();
      if (rows.has(to)) return [];
      const n = this.number();
      rows.delete(key);
      rows.set(to, { n, body: row.body });
      return [
        { shape, op: 'd', ord, before: [...cells, null, null], otherKey: [...to.split('/'), null, null] },
        { shape, op: 'c', ord: ord + 1, after: [...to.split('/'), n, UNCHANGED], otherKey: [...cells, null, null] },
      ];
    }
    const keepsBody = this.pick(2) < 1;
    const next = { n: this.number(), body: keepsBody ? row.body : `new ${Math.floor(this.pick(1e6))}` };
    rows.set(key, next);
    const body: CellText = keepsBody ? UNCHANGED : next.body;
    return [{ shape, op: 'u', ord, after: [...cells, next.n, body] }];
  }

  private key(): string {
    return `${['x', 'yé'][Math.floor(this.pick(2))]}/${Math.floor(this.pick(12))}`;
  }
  private number(): string | null {
    return this.pick(10) < 1 ? null : String(Math.floor(this.pick(1000)));
  }
}

let parts: Parts | null = null;
afterEach(async () => parts?.close());

describe.each(Array.from({ length: propertyRuns(4) }, (_, i) => i + 1))('seed %i', (seed) => {
  test('the lake equals the source after kills at random points', async () => {
    const pick = random(seed * 7919);
    const source = new Source(pick);
    parts = await createParts();
    await parts.reader.addShape(shapes[0], 3);
    await parts.reader.addShape(shapes[1], 2);
    for (let life = 0; life < 4; life++) {
      let left = 1 + Math.floor(pick(6));
      const point = POINTS[Math.floor(pick(POINTS.length))];
      let fallen = (): void => undefined;
      const dead = new Promise<void>((resolve) => (fallen = resolve));
      const ingest = await parts.start({
        maxOffsetsPerTrigger: 5 + Math.floor(pick(40)),
        failpoint: (name) => {
          if (name !== point || --left !== 0) return undefined;
          fallen();
          return new Promise(() => undefined);
        },
      });
      for (let i = 0; i < 15; i++) {
        await parts.reader.commit(source.transaction());
        // A truncate now and then, of every partition, as the reader sends it.
        if (pick(40) < 1) await truncate(source);
      }
      await Promise.race([dead, ingest.drain()]);
      await ingest.stop(30);
    }
    const last = await parts.start();
    await last.drain();
    for (const [which, name] of ['a', 'b'].entries()) {
      const found = new Map<string, Row>();
      for (const row of (await parts.rows(`public/${name}`, ['tenant', 'id'])).values())
        found.set(`${String(row['tenant'])}/${String(row['id'])}`, {
          n: row['n'] === null ? null : String(row['n']),
          body: row['body'] === null ? null : String(row['body']),
        });
      expect([name, sorted(found)]).toEqual([name, sorted(source.tables[which]!)]);
    }
    expect(last.status().tables.every(({ staleKeys, awaiting }) => staleKeys === 0 && awaiting === 0)).toBe(true);
  });
});

async function truncate(source: Source): Promise<void> {
  const changes: FakeChange[] = [];
  shapes.forEach((shape, which) => {
    source.tables[which]?.clear();
    for (let partition = 0; partition < [3, 2][which]!; partition++)
      changes.push({ shape, op: 't', ord: 0, partition });
  });
  await parts?.reader.commit(changes);
}

function sorted(rows: ReadonlyMap<string, Row>): [string, Row][] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
}
