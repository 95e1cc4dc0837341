/** A throw at every named point, then a new pipeline over the same log and lake: nothing lost, nothing twice. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CONSISTENT_KEY } from '../../services/ingest/consistent.ts';
import type { IngestHandle } from '../../services/ingest/pipeline.ts';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';
import type { FakeChange } from './fake-reader.ts';

const t = shapeOf(
  [columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'integer'), columnOf('body', 'text')],
  { table: 't', version: 1 },
);
const POINTS = [
  'after-offset-log-write',
  'before-quarantine-commit',
  'after-quarantine-commit',
  'after-data-files',
  'before-table-commit',
  'after-table-commit',
];

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(t);
});
afterEach(() => parts.close());

const put = (id: number, n: string, body: string | typeof UNCHANGED, op: FakeChange['op'] = 'c'): FakeChange => ({
  shape: t,
  op,
  after: [String(id), n, body],
});
const remove = (id: number): FakeChange => ({ shape: t, op: 'd', before: [String(id), null, null] });

async function workload(): Promise<void> {
  const { reader } = parts;
  await reader.commit([put(1, '1', 'one'), put(2, '2', 'two'), put(3, '3', 'three')]);
  await reader.commit([put(1, '10', UNCHANGED, 'u'), put(77, '7', UNCHANGED, 'u'), remove(2)]);
  await reader.commit([put(4, '4', 'four'), put(3, '30', UNCHANGED, 'u'), put(2, '22', 'again')]);
}
const EXPECTED = { 1: ['10', 'one'], 2: ['22', 'again'], 3: ['30', 'three'], 4: ['4', 'four'] };

const cells = async (): Promise<Record<string, string[]>> => {
  const rows = await parts.rows('public/t');
  return Object.fromEntries([...rows].map(([key, row]) => [key, [String(row['n']), String(row['body'])]]));
};

async function settled(ingest: IngestHandle): Promise<void> {
  await ingest.drain();
  expect(await cells()).toEqual(EXPECTED);
  const parked = [...(await parts.rows('public/t__quarantine')).values()];
  expect(parked.map((row) => [row['status'], row['key']])).toEqual([['parked', 'n77']]);
}

describe.each(POINTS)('a crash at %s', (point) => {
  test.each([1, 2, 3])('passage %i, then a restart', async (passage) => {
    let left = passage;
    let reached = (): void => undefined;
    const dead = new Promise<void>((resolve) => (reached = resolve));
    const first = await parts.start({
      maxOffsetsPerTrigger: 3,
      failpoint: (name) => {
        if (name !== point || --left !== 0) return undefined;
        reached();
        // A killed process never comes back from here.
        return new Promise(() => undefined);
      },
    });
    await workload();
    await Promise.race([dead, first.drain()]);
    await first.stop(50);
    await settled(await parts.start({ maxOffsetsPerTrigger: 3 }));
  });
});

describe.each([
  ['the state folder', async () => rm(join(parts.folder, 'state'), { recursive: true, force: true })],
  [
    'the checkpoints',
    async () => rm(join(parts.folder, 'lake', '_sluice', 'checkpoints'), { recursive: true, force: true }),
  ],
  [
    'the contracts that were kept',
    async () => rm(join(parts.folder, 'lake', '_sluice', 'contracts'), { recursive: true, force: true }),
  ],
  [
    'both the state folder and the checkpoints',
    async () => {
      await rm(join(parts.folder, 'state'), { recursive: true, force: true });
      await rm(join(parts.folder, 'lake', '_sluice', 'checkpoints'), { recursive: true, force: true });
    },
  ],
])('after losing %s', (_, lose) => {
  test('the stream goes on where the table stands', async () => {
    const { reader } = parts;
    await reader.commit([put(1, '1', 'one'), put(2, '2', 'two'), put(3, '3', 'three')]);
    const first = await parts.start();
    await first.drain();
    await first.stop();
    await lose();
    await reader.commit([put(1, '10', UNCHANGED, 'u'), put(77, '7', UNCHANGED, 'u'), remove(2)]);
    await reader.commit([put(4, '4', 'four'), put(3, '30', UNCHANGED, 'u'), put(2, '22', 'again')]);
    const second = await parts.start();
    await settled(second);
    expect(second.status().tables[0]?.ledger.read).toBe(6);
  });
});

test('the checkpoint is in Spark’s form', async () => {
  await workload();
  const ingest = await parts.start();
  await ingest.drain();
  const read = async (key: string): Promise<string> => Buffer.from(await parts.lake.get(key)).toString('utf8');
  const root = '_sluice/checkpoints/public.t';
  expect(JSON.parse(await read(`${root}/metadata`))).toEqual({ id: expect.any(String) as string });
  const [version, metadata, offsets] = (await read(`${root}/offsets/0`)).split('\n');
  expect(version).toBe('v1');
  expect(JSON.parse(metadata ?? '')).toMatchObject({
    batchWatermarkMs: 0,
    batchTimestampMs: expect.any(Number) as number,
  });
  expect(offsets).toMatch(/^\{"shop\.public\.t":\{"0":[369]\}\}$/);
  expect(await read(`${root}/commits/0`)).toBe('v1\n{"nextBatchWatermarkMs":0}');
});

test('two tables are cut at one mark, and a stopped one stops nobody', async () => {
  const { reader, lake } = parts;
  const other = { ...t, table: 'other', oid: 9, version: 2 };
  await reader.addShape(other);
  const ingest = await parts.start();
  for (let i = 1; i <= 20; i++) await reader.commit([put(i, '1', 'x'), { ...put(i, '1', 'x'), shape: other, ord: 2 }]);
  await ingest.drain();
  await expect.poll(async () => (await lake.head(CONSISTENT_KEY)) !== null, { timeout: 240_000 }).toBe(true);
  const body = JSON.parse(Buffer.from(await lake.get(CONSISTENT_KEY)).toString('utf8')) as {
    readonly tables: Record<string, unknown>;
  };
  expect(Object.keys(body.tables)).toEqual(['public.other', 'public.t']);
  ingest.pause('public.t');
  await reader.commit([put(50, '1', 'x'), { ...put(50, '1', 'x'), shape: other, ord: 2 }]);
  await expect.poll(async () => (await parts.rows('public/other')).size, { timeout: 240_000 }).toBe(21);
  expect((await parts.rows('public/t')).size).toBe(20);
  ingest.resume('public.t');
  await ingest.drain();
  expect((await parts.rows('public/t')).size).toBe(21);
});
