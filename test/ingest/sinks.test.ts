/** foreachBatch and the other sinks, beside the merge sink, on one log. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadForeachBatch } from '../../services/stream/sinks/foreach-batch.ts';
import { consoleSink } from '../../services/stream/sinks/console-sink.ts';
import { filesSink } from '../../services/stream/sinks/files-sink.ts';
import { foreachWriterSink } from '../../services/stream/sinks/foreach-writer.ts';
import { kafkaSink } from '../../services/stream/sinks/kafka-sink.ts';
import type { StreamRow } from '../../services/stream/sink.ts';
import { columnOf, shapeOf, UNCHANGED } from '../support/row-events.ts';
import { createParts } from './bench-of-parts.ts';
import type { Parts } from './bench-of-parts.ts';

const t = shapeOf(
  [columnOf('id', 'bigint', 1, { notNull: true }), columnOf('total', 'numeric(12,2)'), columnOf('body', 'text')],
  { table: 't', version: 1 },
);

let parts: Parts;
beforeEach(async () => {
  parts = await createParts();
  await parts.reader.addShape(t);
  await parts.reader.commit([
    { shape: t, op: 'c', after: ['9007199254740993', '1.50', 'a'] },
    { shape: t, op: 'c', after: ['2', null, 'b'] },
    { shape: t, op: 'c', after: ['3', 'NaN', 'bad'] },
  ]);
  await parts.reader.commit([
    { shape: t, op: 'u', after: ['2', '2.00', UNCHANGED] },
    { shape: t, op: 'd', before: ['9007199254740993', null, null] },
  ]);
});
afterEach(() => parts.close());

test('a module’s foreachBatch gets typed columns and rows; a failed batch comes again under its number', async () => {
  const module = join(parts.folder, 'mine.mjs');
  await writeFile(
    module,
    `export const seen = []; let failures = 1;
     export async function foreachBatch(batch, batchId) {
       if (failures-- > 0) throw new Error('down');
       seen.push({ batchId, queryId: batch.queryId, columns: batch.columns.map(({ kind }) => kind), rows: [...batch.rows()] });
     }`,
  );
  const ingest = await parts.start({ queries: [{ name: 'mine', sink: await loadForeachBatch(module) }] });
  await ingest.drain();
  const { seen } = (await import(module)) as {
    readonly seen: readonly {
      readonly batchId: bigint;
      readonly columns: readonly string[];
      readonly rows: readonly StreamRow[];
    }[];
  };
  expect(seen).toHaveLength(1);
  expect(seen[0]).toMatchObject({ batchId: 0n, columns: ['int64', 'decimal', 'utf8', 'int64'] });
  const committed = '2023-11-14T22:13:20.123456Z';
  expect(seen[0]?.rows.map(({ op, values }) => [op, values])).toEqual([
    ['insert', { id: 9007199254740993n, total: '1.50', body: 'a', _sluice_committed_at: committed }],
    ['insert', { id: 2n, total: null, body: 'b', _sluice_committed_at: committed }],
    // Absent is not NULL: the event did not carry `body`.
    ['update', { id: 2n, total: '2.00', _sluice_committed_at: committed }],
    ['delete', { id: 9007199254740993n }],
  ]);
  expect([...(await parts.rows('public/t')).keys()]).toEqual(['2']);
  await ingest.stop();
  // Its checkpoint is its own: after a restart nothing comes twice.
  await (await parts.start({ queries: [{ name: 'mine', sink: await loadForeachBatch(module) }] })).drain();
  expect(seen).toHaveLength(1);
});

test('a module without the function is refused by name', async () => {
  const module = join(parts.folder, 'none.mjs');
  await writeFile(module, 'export const x = 1;');
  await expect(loadForeachBatch(module)).rejects.toMatchObject({ code: 'SINK_INVALID' });
  await expect(loadForeachBatch(join(parts.folder, 'absent.mjs'))).rejects.toMatchObject({ code: 'SINK_INVALID' });
});

test('files, foreach writer, console and topic sinks each get the rows', async () => {
  let printed = '';
  const written: string[] = [];
  const writer = await parts.log.writer('sinks');
  await parts.log.admin.ensureTopics({
    copies: { partitions: 1, replicationFactor: 1, retentionMs: -1, compacted: false },
  });
  const ingest = await parts.start({
    queries: [
      { name: 'files', sink: filesSink({ store: parts.lake, folder: 'out' }) },
      { name: 'print', sink: consoleSink({ write: (text) => (printed += text), rows: 1 }) },
      { name: 'copy', sink: kafkaSink({ writer, topicOf: () => 'copies' }) },
      {
        name: 'rows',
        sink: foreachWriterSink({
          open: () => true,
          process: ({ op, values }) => void written.push(`${op} ${String(values['id'])}`),
          close: (error) => void written.push(String(error)),
        }),
      },
    ],
  });
  await ingest.drain();
  expect(written).toEqual(['insert 9007199254740993', 'insert 2', 'update 2', 'delete 9007199254740993', 'null']);
  expect(printed).toContain('4 rows');
  const keys: string[] = [];
  for await (const { key } of parts.lake.list('out/')) keys.push(key);
  expect(keys).toHaveLength(1);
  const lines = Buffer.from(await parts.lake.get(keys[0]!))
    .toString('utf8')
    .trim()
    .split('\n');
  expect(lines).toHaveLength(4);
  expect(lines[0]).toContain('"id":9007199254740993,"total":"1.50"');
  const bounds = (await parts.log.reader.bounds('copies')).get(0);
  expect(bounds?.end).toBe(4n);
  await writer.close();
});
