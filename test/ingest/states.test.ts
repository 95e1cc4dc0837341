/** What breaks a table's continuity stops it by name, loses nothing, and leaves the other tables alone (cases 25, 27, 34). */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openEmbeddedLog } from '../../services/log/embedded-log.ts';
import type { LogOffset } from '../../services/log/position.ts';
import type { IngestHandle } from '../../services/ingest/pipeline.ts';
import { columnOf, shapeOf } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';
import { createFakeReader } from './fake-reader.ts';
import type { FakeChange } from './fake-reader.ts';

const columns = [columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'integer')];
const t = shapeOf(columns, { table: 't', version: 1 });
const other = shapeOf(columns, { table: 'other', version: 2 });
const put = (shape: typeof t, id: number, n: string | null = '1'): FakeChange => ({
  shape,
  op: 'c',
  after: [String(id), n],
});

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(t);
  await parts.reader.addShape(other);
});
afterEach(() => parts.close());

const state = (ingest: IngestHandle, table: string): string | undefined =>
  ingest.status().tables.find((row) => row.table === table)?.state;
async function becomes(ingest: IngestHandle, table: string, wanted: string): Promise<void> {
  await expect.poll(() => state(ingest, table), { timeout: 240_000 }).toBe(wanted);
}

test('a topic that was deleted and made again stops its table; the other goes on', async () => {
  const { reader, log } = parts;
  await reader.commit([put(t, 1), { ...put(other, 1), ord: 2 }]);
  const first = await parts.start();
  await first.drain();
  await first.stop();
  await reader.commit([put(t, 2)]);
  await reader.commit([put(t, 3), { ...put(other, 2), ord: 2 }]);
  await log.admin.deleteTopics(['shop.public.t']);
  await log.admin.ensureTopics({
    'shop.public.t': { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
  });
  const second = await parts.start();
  await becomes(second, 'public.t', 'TOPIC_RESET');
  await second.drain();
  expect([...(await parts.rows('public/other')).keys()].sort()).toEqual(['1', '2']);
  expect([...(await parts.rows('public/t')).keys()]).toEqual(['1']);
  expect(second.status().tables.find(({ table }) => table === 'public.t')?.remedy).toContain('sluice repair');
});

test('a new table whose first records are gone does not begin in the middle', async () => {
  const { reader, log } = parts;
  for (let id = 1; id <= 3; id++) await reader.commit([put(t, id)]);
  const bounds = log.reader.bounds.bind(log.reader);
  const shifted: typeof log = {
    ...log,
    reader: {
      read: log.reader.read.bind(log.reader),
      follow: log.reader.follow.bind(log.reader),
      offsetsAt: log.reader.offsetsAt.bind(log.reader),
      close: log.reader.close.bind(log.reader),
      async bounds(topic) {
        const found = await bounds(topic);
        if (topic !== 'shop.public.t') return found;
        return new Map([...found].map(([p, { end }]) => [p, { earliest: 2n as LogOffset, end }]));
      },
    },
  };
  const ingest = await parts.start({ log: shifted });
  await becomes(ingest, 'public.t', 'OFFSETS_EXPIRED');
});

test('another log under the same name is not read on', async () => {
  const { reader } = parts;
  for (let id = 1; id <= 3; id++) await reader.commit([put(t, id)]);
  const first = await parts.start();
  await first.drain();
  await first.stop();
  const fresh = await openEmbeddedLog({ directory: join(parts.folder, 'another-log') });
  const writer = await createFakeReader(fresh, 'shop');
  await writer.addShape(t);
  // More records than the table has read: offsets alone would not tell.
  for (let id = 11; id <= 20; id++) await writer.commit([put(t, id)]);
  const second = await parts.start({ log: fresh });
  await becomes(second, 'public.t', 'TOPIC_RESET');
  expect((await parts.rows('public/t')).size).toBe(3);
  await second.stop();
  await writer.close();
  await fresh.close();
});

test('a rule with action fail stops the table before anything of the batch is committed; a corrected contract goes on', async () => {
  const { reader } = parts;
  await reader.commit([put(t, 1), { ...put(other, 1), ord: 2 }]);
  const ingest = await parts.start();
  await ingest.drain();
  const file = join(parts.folder, 'contracts', 'public.t.odcs.yaml');
  const { readFile } = await import('node:fs/promises');
  const text = await readFile(file, 'utf8');
  const { parseDocument } = await import('yaml');
  const document = parseDocument(text);
  document.setIn(['schema', 0, 'properties', 1, 'logicalTypeOptions', 'maximum'], 10);
  document.setIn(['schema', 0, 'properties', 1, 'customProperties'], [{ property: 'onViolation', value: 'fail' }]);
  await writeFile(file, document.toString());
  await reader.commit([put(t, 2, '5'), put(t, 3, '50'), { ...put(other, 2), ord: 8 }]);
  await becomes(ingest, 'public.t', 'CONTRACT_FAILED');
  await expect.poll(async () => (await parts.rows('public/other')).size, { timeout: 240_000 }).toBe(2);
  expect((await parts.rows('public/t')).size).toBe(1);
  await writeFile(file, text);
  ingest.resume('public.t');
  await ingest.drain();
  expect((await parts.rows('public/t')).size).toBe(3);
});

test('a contract that does not parse stops its table alone', async () => {
  const { reader } = parts;
  const ingest = await parts.start();
  await reader.commit([put(t, 1), { ...put(other, 1), ord: 2 }]);
  await ingest.drain();
  await writeFile(join(parts.folder, 'contracts', 'public.t.odcs.yaml'), 'apiVersion: [');
  await reader.commit([put(t, 2), { ...put(other, 2), ord: 2 }]);
  await becomes(ingest, 'public.t', 'CONTRACT_FAILED');
  await rm(join(parts.folder, 'contracts', 'public.t.odcs.yaml'));
  ingest.resume('public.t');
  await ingest.drain();
  expect((await parts.rows('public/t')).size).toBe(2);
});

test('a type that the lake’s column cannot become is a conflict by name', async () => {
  const { reader } = parts;
  await reader.commit([put(t, 1)]);
  const ingest = await parts.start();
  await ingest.drain();
  await ingest.stop();
  await rm(join(parts.folder, 'contracts'), { recursive: true });
  const changed = { ...t, version: 3, columns: [columns[0]!, columnOf('n', 'jsonb')] };
  await reader.addShape(changed);
  await reader.commit([{ shape: changed, op: 'c', after: ['2', '{}'] }]);
  const again = await parts.start();
  await becomes(again, 'public.t', 'SCHEMA_CONFLICT');
});

test('values that a widened column no longer fits are parked, the others go in', async () => {
  const { reader } = parts;
  await reader.commit([put(t, 1)]);
  const ingest = await parts.start();
  await ingest.drain();
  const wider = { ...t, version: 3, columns: [columns[0]!, columnOf('n', 'bigint')] };
  await reader.addShape(wider);
  await reader.commit([
    { shape: wider, op: 'c', after: ['2', '2147483647'] },
    { shape: wider, op: 'c', after: ['3', '2147483648'], ord: 2 },
  ]);
  await ingest.drain();
  expect([...(await parts.rows('public/t')).keys()].sort()).toEqual(['1', '2']);
  expect((await parts.rows('public/t__quarantine')).size).toBe(1);
});
