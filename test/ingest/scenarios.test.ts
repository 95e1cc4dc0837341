/** What cases.md 1-3, 11, 16, 28, 30, 31, 35 and 44 ask, through the real log, merge writer and contract engine. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseDocument } from 'yaml';
import { RecordFlags } from '../../services/log/event.ts';
import { lsn } from '../../services/log/position.ts';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import type { CellText } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';
import type { FakeChange } from './fake-reader.ts';

const t = shapeOf(
  [columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'integer'), columnOf('body', 'text')],
  { table: 't', version: 1 },
);
const put = (id: number, n: number | null, body: CellText, op: FakeChange['op'] = 'c'): FakeChange => ({
  shape: t,
  op,
  after: [String(id), n === null ? null : String(n), body],
});
const remove = (id: number): FakeChange => ({ shape: t, op: 'd', before: [String(id), null, null] });
const SNAPSHOTTING = { snapshotting: ['public.t'] };

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(t);
});
afterEach(() => parts.close());

/** What a person would do in the contract: n may be at most this. */
async function boundN(maximum: number): Promise<void> {
  const file = join(parts.folder, 'contracts', 'public.t.odcs.yaml');
  const document = parseDocument(await readFile(file, 'utf8'));
  document.setIn(['schema', 0, 'properties', 1, 'logicalTypeOptions', 'maximum'], maximum);
  await writeFile(file, document.toString());
}

const cells = async (): Promise<Record<string, unknown[]>> => {
  const rows = await parts.rows('public/t');
  return Object.fromEntries([...rows].map(([key, row]) => [key, [row['n'], row['body']]]));
};

describe('unchanged TOAST', () => {
  test('keeps its value alone, beside rows that send it, and right behind its insert', async () => {
    const { reader } = parts;
    await reader.commit([put(1, 1, 'one'), put(2, 2, 'two')]);
    const ingest = await parts.start();
    await ingest.drain();
    await reader.commit([put(1, 10, UNCHANGED, 'u')]);
    await ingest.drain();
    await reader.commit([put(2, 20, UNCHANGED, 'u'), put(3, 3, 'three'), put(3, 30, UNCHANGED, 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [10, 'one'], 2: [20, 'two'], 3: [30, 'three'] });
  });

  test('insert, delete and re-insert in one batch, then a partial update', async () => {
    await parts.reader.commit([
      put(1, 1, 'long'),
      { ...remove(1), ord: 2 },
      { ...put(1, 2, 'small'), ord: 4 },
      { ...put(1, 3, UNCHANGED, 'u'), ord: 6 },
    ]);
    await (await parts.start()).drain();
    expect(await cells()).toEqual({ 1: [3, 'small'] });
  });

  test('travels with a key change, from the batch and from the table', async () => {
    const { reader } = parts;
    const move = (from: number, to: number, n: number): FakeChange[] => [
      { ...remove(from), ord: 0, otherKey: [String(to), null, null] },
      { ...put(to, n, UNCHANGED), ord: 1, otherKey: [String(from), null, null] },
    ];
    await reader.commit([put(1, 1, 'in the table')]);
    const ingest = await parts.start();
    await ingest.drain();
    await reader.commit(move(1, 2, 5));
    await ingest.drain();
    expect(await cells()).toEqual({ 2: [5, 'in the table'] });
    await reader.commit([put(7, 7, 'in the batch')]);
    await reader.commit(move(7, 8, 9));
    await reader.commit(move(8, 9, 10));
    await ingest.drain();
    expect(await cells()).toEqual({ 2: [5, 'in the table'], 9: [10, 'in the batch'] });
  });

  test('without any base it is quarantined, never NULL', async () => {
    await parts.reader.commit([put(1, 1, UNCHANGED, 'u'), put(2, 2, 'x')]);
    const ingest = await parts.start();
    await ingest.drain();
    expect(await cells()).toEqual({ 2: [2, 'x'] });
    const parked = [...(await parts.rows('public/t__quarantine')).values()];
    expect(parked).toMatchObject([{ status: 'parked', rule_ids: ['base:missing'], absent_columns: ['body'] }]);
    expect(ingest.status().tables[0]?.ledger).toMatchObject({ read: 2, applied: 1, quarantined: 1 });
  });
});

describe('while the table is snapshotting', () => {
  test('an update without base waits for the snapshot row', async () => {
    const { reader } = parts;
    await reader.commit([put(1, 5, UNCHANGED, 'u'), put(2, 6, UNCHANGED, 'u'), put(3, 7, 'c')], SNAPSHOTTING);
    const ingest = await parts.start();
    await ingest.drain();
    expect(await cells()).toEqual({ 3: [7, 'c'] });
    expect(ingest.status().tables[0]).toMatchObject({ awaiting: 2, state: 'SNAPSHOTTING' });
    // Row 1 comes whole; of row 2 only what no event of its window carried.
    await reader.commit(
      [put(1, 5, 'a', 'r'), { shape: t, op: 'r', flags: RecordFlags.fill, after: ['2', UNCHANGED, 'b'] }],
      SNAPSHOTTING,
    );
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [5, 'a'], 2: [6, 'b'], 3: [7, 'c'] });
    await reader.commit([]);
    await ingest.drain();
    expect(ingest.status().tables[0]).toMatchObject({ awaiting: 0, staleKeys: 0, state: 'STREAMING' });
  });

  test('what waits is still known after a restart, and parks when the snapshot ends without its row', async () => {
    const { reader } = parts;
    await reader.commit([put(1, 5, UNCHANGED, 'u'), put(2, 6, UNCHANGED, 'u')], SNAPSHOTTING);
    const first = await parts.start();
    await first.drain();
    await first.stop();
    const second = await parts.start();
    await reader.commit([{ shape: t, op: 'r', flags: RecordFlags.fill, after: ['2', UNCHANGED, 'b'] }], SNAPSHOTTING);
    await second.drain();
    expect(await cells()).toEqual({ 2: [6, 'b'] });
    await reader.commit([put(9, 9, 'i')]);
    await second.drain();
    expect(await cells()).toEqual({ 2: [6, 'b'], 9: [9, 'i'] });
    expect(second.status().tables[0]).toMatchObject({ awaiting: 0, staleKeys: 1 });
  });
});

describe('quarantine', () => {
  test('a bad row is parked, a later partial event of its key too, a complete one heals it', async () => {
    const { reader } = parts;
    const ingest = await parts.start();
    await reader.commit([put(1, 1, 'one'), put(2, 2, 'two')]);
    await ingest.drain();
    await boundN(100);
    await reader.commit([put(1, 500, 'big', 'u'), put(2, 3, 'ok', 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [1, 'one'], 2: [3, 'ok'] });
    await reader.commit([put(1, 50, UNCHANGED, 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [1, 'one'], 2: [3, 'ok'] });
    expect(ingest.status().tables[0]).toMatchObject({ staleKeys: 1 });
    const parked = [...(await parts.rows('public/t__quarantine')).values()];
    expect(parked).toHaveLength(2);
    await reader.commit([put(1, 60, 'good', 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [60, 'good'], 2: [3, 'ok'] });
    expect(ingest.status().tables[0]).toMatchObject({ staleKeys: 0 });
    const after = [...(await parts.rows('public/t__quarantine')).values()];
    expect(after.map((row) => row['status'])).toEqual(['healed', 'healed']);
  });

  test('an event that the lake has no place for heals nothing', async () => {
    const { reader } = parts;
    const dated = shapeOf(
      [columnOf('id', 'integer', 1, { notNull: true }), columnOf('at', 'timestamp without time zone')],
      {
        table: 'dated',
        version: 2,
      },
    );
    const at = (text: string): FakeChange => ({ shape: dated, op: 'u', after: ['1', text] });
    await reader.addShape(dated);
    await reader.commit([at('0001-01-01 00:00:00 BC')]);
    const ingest = await parts.start();
    await ingest.drain();
    await reader.commit([at('294276-12-31 23:59:59.999999')]);
    await ingest.drain();
    const parked = [...(await parts.rows('public/dated__quarantine')).values()];
    expect(Object.fromEntries(parked.map((row) => [row['rule_ids'], row['status']]))).toEqual({
      'representable:at': 'parked',
      'type:at': 'parked',
    });
  });

  test('a retry after a contract fix releases in order, survives a kill, and never brings an old value back', async () => {
    const { reader } = parts;
    let kill = false;
    const ingest = await parts.start({
      failpoint: (name) => {
        if (kill && name === 'after-retry-commit') throw new Error('killed');
      },
    });
    await reader.commit([put(1, 1, 'one'), put(2, 2, 'two'), put(3, 3, 'three')]);
    await ingest.drain();
    await boundN(100);
    await reader.commit([put(1, 500, 'big', 'u'), put(2, 700, 'b2', 'u'), put(3, 900, 'b3', 'u')]);
    await reader.commit([put(1, 501, UNCHANGED, 'u'), put(3, 950, 'b4', 'u')]);
    await ingest.drain();
    // A later good event of key 2 heals it: the parked one must stay buried.
    await reader.commit([put(2, 5, 'newer', 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [1, 'one'], 2: [5, 'newer'], 3: [3, 'three'] });
    const quarantine = ingest.quarantine('public.t');
    if (quarantine === null) throw new Error('no such table');
    const parkedOnly = { statuses: new Set(['parked'] as const), ruleId: null, limit: 100 };
    expect(await quarantine.list(parkedOnly)).toHaveLength(4);
    expect(await quarantine.retry(null)).toMatchObject({ retried: 4, applied: 0, parkedAgain: 4 });
    await boundN(920);
    kill = true;
    await expect(quarantine.retry(null)).rejects.toThrow('killed');
    kill = false;
    expect(await cells()).toEqual({ 1: [501, 'big'], 2: [5, 'newer'], 3: [900, 'b3'] });
    expect(await quarantine.retry(null)).toMatchObject({ retried: 4, applied: 0, superseded: 3, parkedAgain: 1 });
    const [left] = await quarantine.list(parkedOnly);
    expect(left).toMatchObject({ attempts: 2, value: '950' });
    expect(await quarantine.show(left!.id)).toMatchObject({ columns: { id: '3', n: '950', body: 'b4' } });
    expect(await quarantine.drop(new Set([left!.id]))).toBe(1);
    expect(ingest.status().tables[0]).toMatchObject({ staleKeys: 0 });
    await reader.commit([put(3, 7, UNCHANGED, 'u')]);
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [501, 'big'], 2: [5, 'newer'], 3: [7, 'b3'] });
  });

  test('what is no envelope, no JSON or has no key is parked with its reason, tombstones are no error', async () => {
    const topic = 'shop.public.t';
    const { reader } = parts;
    await reader.commit([put(1, 1, 'one')]);
    await reader.raw([
      { topic, key: Buffer.from('{"id":2}'), value: Buffer.from('not json'), header: null },
      { topic, key: Buffer.from('{"id":3}'), value: Buffer.from('{"a":1}'), header: null },
      {
        topic,
        key: null,
        value: Buffer.from('{"before":null,"after":{"id":4,"n":1,"body":"x"},"op":"c"}'),
        header: null,
      },
      { topic, key: Buffer.from('{"id":99}'), value: null, header: null },
    ]);
    const ingest = await parts.start();
    await ingest.drain();
    expect(await cells()).toEqual({ 1: [1, 'one'] });
    const codes = [...(await parts.rows('public/t__quarantine')).values()].map((row) => String(row['codes'])).sort();
    expect(codes).toEqual(['DECODE', 'DECODE', 'KEY_NULL']);
    expect((await parts.log.reader.bounds(`${topic}.quarantine`)).get(0)?.end).toBe(3n);
    expect(ingest.status().tables[0]?.ledger).toMatchObject({ read: 5, applied: 1, quarantined: 3, noop: 1 });
  });
});

test('a truncate is a barrier in the batch', async () => {
  const { reader } = parts;
  await reader.commit([put(1, 1, 'a'), put(2, 2, 'b')]);
  const ingest = await parts.start();
  await ingest.drain();
  await reader.commit([put(3, 3, 'older')]);
  await reader.commit([
    { shape: t, op: 't' },
    { ...put(4, 4, 'newer'), ord: 2 },
  ]);
  await ingest.drain();
  expect(await cells()).toEqual({ 4: [4, 'newer'] });
});

test('only (LSN, ordinal) orders: as numbers, whatever the text says', async () => {
  const { reader } = parts;
  const at = (text: bigint, n: number, ord = 0): Promise<unknown> =>
    reader.commit([{ ...put(1, n, 'x', 'u'), ord }], { lsn: lsn(text) });
  await reader.commit([put(1, 0, 'x')], { lsn: lsn(1n) });
  const ingest = await parts.start();
  await at(0x9ff_ffffn, 1);
  await at(0x1000_0000n, 2);
  await ingest.drain();
  await at(0x1_0000_0000n, 3, 9);
  await at(0x1_0000_0000n, 4, 10);
  await at(0x2000_0000n, 5);
  await ingest.drain();
  expect(await cells()).toEqual({ 1: [4, 'x'] });
});

test('a restored source starts with lower LSNs in a new epoch, and its events count', async () => {
  const { reader } = parts;
  await reader.commit([put(1, 1, 'old'), put(2, 2, 'old')], { lsn: lsn(0x9000n) });
  const ingest = await parts.start();
  await ingest.drain();
  await reader.commit([put(1, 10, 'restored', 'u')], { epoch: 2, lsn: lsn(0x100n) });
  await ingest.drain();
  await ingest.stop();
  await reader.commit([put(2, 20, 'restored', 'u')], { epoch: 2, lsn: lsn(0x110n) });
  const again = await parts.start();
  await again.drain();
  expect(await cells()).toEqual({ 1: [10, 'restored'], 2: [20, 'restored'] });
  expect(again.status().tables[0]).toMatchObject({ batchId: 2n, ledger: { read: 1, applied: 1 } });
});

test('offsets advance when nothing applies, and idle time makes no version', async () => {
  const { reader } = parts;
  await reader.commit([put(1, 1, 'a')]);
  const ingest = await parts.start();
  await ingest.drain();
  await reader.commit([remove(77)]);
  await ingest.drain();
  const version = ingest.status().tables[0]?.version;
  for (let i = 0; i < 5; i++) await reader.commit([]);
  await ingest.drain();
  expect(ingest.status().tables[0]).toMatchObject({ version, lagRecords: 0n });
  await ingest.stop();
  const again = await parts.start();
  await again.drain();
  expect(again.status().tables[0]).toMatchObject({ version, ledger: { read: 0 } });
});

test('a column arrives by the shape that has it, however the shapes are numbered: one known from the catalog comes last in the stream', async () => {
  const { reader } = parts;
  const wider = { ...t, version: 2, columns: [...t.columns, columnOf('extra', 'integer')] };
  const between = { ...t, version: 3, columns: [...t.columns, columnOf('other', 'integer')] };
  await reader.addShape(wider);
  await reader.addShape(between);
  await reader.commit([{ shape: between, op: 'c', after: ['1', '1', 'a', '11'] }]);
  const ingest = await parts.start();
  await ingest.drain();
  // In force again: the reader notes it once more.
  await reader.addShape(wider);
  await reader.commit([{ shape: wider, op: 'c', after: ['2', '2', 'b', '22'] }]);
  await ingest.drain();
  await reader.commit([{ shape: wider, op: 'c', after: ['3', '3', 'c', '33'] }]);
  await ingest.drain();
  const rows = await parts.rows('public/t');
  expect([...rows].map(([key, row]) => [key, row['other'], row['extra'] ?? null])).toEqual([
    ['1', 11, null],
    ['2', null, 22],
    ['3', null, 33],
  ]);
});

test('a column that the source adds arrives; one that it drops becomes NULL', async () => {
  const { reader } = parts;
  await reader.commit([put(1, 1, 'a')]);
  const ingest = await parts.start();
  await ingest.drain();
  const wider = { ...t, version: 2, columns: [...t.columns, columnOf('extra', 'numeric(10,2)')] };
  await reader.addShape(wider);
  await reader.commit([put(2, 2, 'b'), { shape: wider, op: 'c', after: ['3', '3', 'c', '1.50'] }]);
  await ingest.drain();
  const narrow = { ...wider, version: 3, columns: wider.columns.filter(({ name }) => name !== 'n') };
  await reader.addShape(narrow);
  await reader.commit([
    { shape: narrow, op: 'c', after: ['4', 'd', '2.25'] },
    { shape: narrow, op: 'u', after: ['3', 'c2', '9.99'], ord: 2 },
  ]);
  await ingest.drain();
  const rows = await parts.rows('public/t');
  const byId = [...rows.values()].sort((a, b) => Number(a['id']) - Number(b['id']));
  expect(byId.map(({ id, n, body, extra }) => [id, n, body, extra])).toEqual([
    [1, 1, 'a', null],
    [2, 2, 'b', null],
    [3, null, 'c2', '9.99'],
    [4, null, 'd', '2.25'],
  ]);
});
