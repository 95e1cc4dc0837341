/** A topic that Debezium wrote, without our reader: placeholders, tombstones, compaction, restarts (cases 3 and 28). */
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { LogWriter, OutgoingRecord } from '../../services/log/log.ts';
import type { IngestHandle } from '../../services/ingest/pipeline.ts';
import { columnOf, shapeOf } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';

const TOPIC = 'dbz.public.t';
const UNAVAILABLE = '__debezium_unavailable_value';
const shape = shapeOf(
  [columnOf('id', 'integer', 1, { notNull: true }), columnOf('n', 'bigint'), columnOf('body', 'text')],
  { table: 't', version: 1 },
);

let parts: Parts;
let writer: LogWriter;
let lsn = 1000;
beforeEach(async () => {
  parts = await createParts();
  await parts.log.admin.ensureTopics({
    [TOPIC]: { partitions: 2, replicationFactor: 1, retentionMs: -1, compacted: false },
  });
  writer = await parts.log.writer('debezium');
});
afterEach(async () => {
  await writer.close();
  await parts.close();
});

function change(op: string, id: number, n: number | null, body: string | null): OutgoingRecord {
  lsn += 8;
  const row = { id, n, body };
  const value = {
    before: op === 'd' ? { id, n: null, body: null } : null,
    after: op === 'd' ? null : row,
    source: { connector: 'postgresql', lsn, ts_ms: 1_700_000_000_000, schema: 'public', table: 't' },
    op,
    ts_ms: 1,
  };
  return {
    topic: TOPIC,
    key: Buffer.from(JSON.stringify({ id })),
    value: Buffer.from(JSON.stringify(value)),
    header: null,
  };
}
const tombstone = (id: number): OutgoingRecord => ({
  topic: TOPIC,
  key: Buffer.from(JSON.stringify({ id })),
  value: null,
  header: null,
});
const start = (): Promise<IngestHandle> => parts.start({ foreign: [{ topic: TOPIC, shape }], maxOffsetsPerTrigger: 4 });
const cells = async (): Promise<Record<string, unknown[]>> =>
  Object.fromEntries([...(await parts.rows('public/t'))].map(([key, row]) => [key, [row['n'], row['body']]]));

test('changes, placeholders, deletes and tombstones arrive, over a restart, too', async () => {
  await writer.append([
    change('r', 1, 1, 'one'),
    change('r', 2, 2, UNAVAILABLE),
    change('c', 3, 3, 'three'),
    change('u', 1, 10, UNAVAILABLE),
    change('c', 4, 4, 'four'),
  ]);
  const first = await start();
  await first.drain();
  // A row that was inserted with that very text has it; only an update can lack a column.
  expect(await cells()).toEqual({ 1: [10n, 'one'], 2: [2n, UNAVAILABLE], 3: [3n, 'three'], 4: [4n, 'four'] });
  await first.stop();
  await writer.append([change('d', 3, null, null), tombstone(3), change('u', 1, 11, UNAVAILABLE), tombstone(77)]);
  const second = await start();
  await second.drain();
  expect(await cells()).toEqual({ 1: [11n, 'one'], 2: [2n, UNAVAILABLE], 4: [4n, 'four'] });
  const [status] = second.status().tables;
  expect(status?.ledger).toMatchObject({ read: 4, applied: 2, noop: 2 });
  expect(status?.lagRecords).toBe(0n);
  // Compaction left the tombstone alone: it still deletes.
  await writer.append([tombstone(4)]);
  await second.drain();
  expect(Object.keys(await cells())).toEqual(['1', '2']);
  expect(await parts.lake.head('_sluice/consistent.json')).toBeNull();
});
