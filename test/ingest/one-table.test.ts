import { afterEach, beforeEach, expect, test } from 'vitest';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';

const orders = shapeOf(
  [
    columnOf('id', 'integer', 1, { notNull: true }),
    columnOf('n', 'bigint'),
    columnOf('total', 'numeric(12,2)'),
    columnOf('body', 'jsonb'),
    columnOf('tags', 'text[]'),
    columnOf('at', 'timestamp with time zone'),
  ],
  { version: 1 },
);
const full = (id: number, n: string, body: string): string[] => [
  String(id),
  n,
  '12.50',
  body,
  '{a,"b,c",NULL}',
  '2024-01-02 03:04:05.123456+00',
];

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(orders);
});
afterEach(() => parts.close());

test('inserts, updates, deletes and unchanged TOAST reach the table', async () => {
  const { reader } = parts;
  await reader.commit([
    { shape: orders, op: 'c', after: full(1, '1', '{"a":1}') },
    { shape: orders, op: 'c', after: full(2, '9007199254740993', '{"b":2}') },
    { shape: orders, op: 'c', after: full(3, '3', '{"c":3}') },
  ]);
  const ingest = await parts.start();
  await ingest.drain();
  await reader.commit([
    { shape: orders, op: 'u', after: ['1', '7', '12.51', UNCHANGED, '{}', null] },
    { shape: orders, op: 'd', before: ['3', null, null, null, null, null] },
  ]);
  await ingest.drain();
  const rows = await parts.rows('public/orders');
  expect([...rows.keys()].sort()).toEqual(['1', '2']);
  expect(rows.get('1')).toMatchObject({ n: 7n, total: '12.51', body: '{"a":1}', tags: [], at: null });
  expect(rows.get('2')).toMatchObject({
    n: 9007199254740993n,
    total: '12.50',
    tags: ['a', 'b,c', null],
    at: '2024-01-02T03:04:05.123456Z',
    _sluice_epoch: 1,
  });
  const [status] = ingest.status().tables;
  expect(status).toMatchObject({ table: 'public.orders', state: 'STREAMING', lagRecords: 0n });
  expect(status?.ledger).toMatchObject({ read: 5, applied: 5 });
});
