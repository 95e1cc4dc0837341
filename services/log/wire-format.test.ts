/**
 * What is persisted in the log, pinned by hash. A changed hash means that logs written by earlier versions, or read by them,
 * are concerned: raise the format version named beside it, keep reading the old form, and only then change the hash.
 */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { columnOf, dataRowOf, rowEvent, shapeOf, tupleOf, UNCHANGED } from '../../test/support/row-events.ts';
import { compileShapeEncoder, createEnvelopeEncoder } from './envelope-encode.ts';
import { ENVELOPE_FORMAT, MARK_FORMAT, READER_STATE_FORMAT, RECORD_HEADER_BYTES } from './event.ts';
import { encodeRecordBatch } from './kafka-batch.ts';
import { lsn } from './position.ts';
import { BLOCK_CHUNK_FORMAT, CHUNK_FORMAT, encodeBlockChunk, encodeChunk } from './record-chunk.ts';
import { createRowBlockBuilder, openRowBlock, ROW_BLOCK_FORMAT, rowBlockRecords } from './row-block.ts';

const hashOf = (parts: readonly (Buffer | null)[]): string => {
  const hash = createHash('sha256');
  for (const part of parts) {
    hash.update(`${part === null ? -1 : part.length};`);
    if (part !== null) hash.update(part);
  }
  return hash.digest('hex').slice(0, 32);
};

/** One column of each wire form, and one event of each operation. */
function records(): (Buffer | null)[] {
  const shape = shapeOf([
    columnOf('tenant', 'integer', 2),
    columnOf('id', 'bigint', 1),
    columnOf('f', 'double precision'),
    columnOf('b', 'boolean'),
    columnOf('raw', 'bytea'),
    columnOf('at', 'timestamp without time zone'),
    columnOf('atz', 'timestamp with time zone'),
    columnOf('body', 'jsonb'),
    columnOf('tags', 'text[]'),
    columnOf('grid', 'integer[]'),
  ]);
  const full = tupleOf([
    '3',
    '9007199254740993',
    '-0',
    't',
    '\\x00ff',
    '2024-01-02 03:04:05.1',
    '0044-03-15 00:00:00+00 BC',
    '{"a": "é\n"}',
    '{a,NULL,"NULL"}',
    '{{1},{2}}',
  ]);
  const key = tupleOf(['3', '4', null, null, null, null, null, null, null, null]);
  const partial = tupleOf(['3', '5', 'NaN', null, '\\x', 'infinity', '-infinity', UNCHANGED, '{}', UNCHANGED]);
  const encoder = createEnvelopeEncoder();
  const compiled = compileShapeEncoder(shape, { name: 'shop', database: 'shop' });
  const events = [
    rowEvent({ after: full }),
    rowEvent({ op: 'u', ord: 2, after: partial }),
    rowEvent({ op: 'u', ord: 4, after: partial, before: full, beforeIs: 'row' }),
    rowEvent({ op: 'd', ord: 6, before: key, otherKey: partial }),
    rowEvent({ op: 'r', ord: 8, after: full, xid: 0, totalOrder: 0 }),
    rowEvent({ op: 't', ord: 10 }),
  ];
  return events.flatMap((event) => {
    const { key: recordKey, value, header } = encoder.encode(compiled, event);
    return [recordKey, value, header];
  });
}

test('the envelope, the record key and the record header', () => {
  expect([ENVELOPE_FORMAT, RECORD_HEADER_BYTES]).toEqual([1, 32]);
  expect(hashOf(records())).toBe('fe008f6bbd03299a7c6bf92eb750d765');
});

const outgoing = [
  { topic: 't', key: Buffer.from('{"id":1}'), value: Buffer.from('value'), header: Buffer.alloc(32, 7) },
  { topic: 't', key: null, value: null, header: null },
];

test('a chunk of the embedded log', () => {
  expect(CHUNK_FORMAT).toBe(1);
  expect(hashOf([encodeChunk(outgoing, 0, 2, 1000n, 1_700_000_000_000)])).toBe('ef5f75586af6d731fb523e2ecdc1e3f6');
});

const blockShape = shapeOf([columnOf('id', 'bigint', 1), columnOf('body', 'text')]);
const blockRows = [
  ['1', 'a text'],
  ['22', null],
];

function rowBlock(): Buffer {
  const block = createRowBlockBuilder();
  for (const cells of blockRows) {
    const row = dataRowOf(cells);
    block.add(row, 0, row.length, 1);
  }
  const head = { shape: blockShape, source: { name: 'shop', database: 'db' }, epoch: 2, lsn: lsn(77n), firstOrd: 6 };
  return Buffer.concat(block.finish({ ...head, committedAtMicros: 1_700_000_000_123_456n, atMs: 1_700_000_000_500 }));
}

test('a chunk of rows, and the block in it', () => {
  expect([BLOCK_CHUNK_FORMAT, ROW_BLOCK_FORMAT]).toEqual([2, 2]);
  const bytes = rowBlock();
  expect(hashOf([Buffer.concat(encodeBlockChunk([bytes], 2, 1000n, 1_700_000_000_000))])).toBe(
    '9ab81246d808ddadfb4b945b6a3b1018',
  );
  const newer = Buffer.from(bytes);
  newer.writeUInt8(ROW_BLOCK_FORMAT + 1, 0);
  expect(() => openRowBlock(newer)).toThrow(/format 3.*upgrade/);
});

test('a block of format 1, column by column, is read as the same rows', () => {
  const written = [
    'AQACAAIAAAACAAAABgAAAE0AAAAAAAAAQCIgGCQKBgAAQJ9W/rx4QgcAAACLAQAAeyJuYW1lIjoic2hvcCIsImRhdGFiYXNlIjoiZGIiLCJzaG',
    'FwZSI6eyJzY2hlbWEiOiJwdWJsaWMiLCJ0YWJsZSI6Im9yZGVycyIsIm9pZCI6NDcxMSwidmVyc2lvbiI6NywiY29sdW1ucyI6W3sibmFtZSI6',
    'ImlkIiwidHlwZU9pZCI6MCwidHlwZU1vZGlmaWVyIjotMSwicGdUeXBlIjoiYmlnaW50IiwiYmFzZVR5cGUiOm51bGwsImtpbmQiOiJiYXNlIi',
    'wiZW51bUxhYmVscyI6bnVsbCwibm90TnVsbCI6ZmFsc2UsImtleVBvc2l0aW9uIjoxfSx7Im5hbWUiOiJib2R5IiwidHlwZU9pZCI6MCwidHlw',
    'ZU1vZGlmaWVyIjotMSwicGdUeXBlIjoidGV4dCIsImJhc2VUeXBlIjpudWxsLCJraW5kIjoiYmFzZSIsImVudW1MYWJlbHMiOm51bGwsIm5vdE',
    '51bGwiOmZhbHNlLCJrZXlQb3NpdGlvbiI6MH1dfX0DAAAABgAAAAEAAAACAAAAMTIyBgAAAP////9hIHRleHQ=',
  ].join('');
  const [older, now] = [openRowBlock(Buffer.from(written, 'base64')), openRowBlock(rowBlock())];
  for (const row of [0, 1]) expect(rowBlockRecords(older)(row)).toEqual(rowBlockRecords(now)(row));
  const texts = older.columns.map((column) =>
    [0, 1].map((row) => {
      const start = column.starts[row] ?? 0;
      const length = column.lengths[row] ?? 0;
      return length < 0 ? null : column.bytes.toString('utf8', start, start + length);
    }),
  );
  expect(texts).toEqual([blockRows.map(([id]) => id), blockRows.map(([, body]) => body)]);
});

test('a Kafka record batch', () => {
  const stamp = { producerId: 5n, producerEpoch: 1 };
  expect(hashOf([encodeRecordBatch(outgoing, 0, 2, stamp, 9, 1_700_000_000_000)])).toBe(
    'defc3644d0cb05301e3e1d7437b9f483',
  );
});

test('marks and reader state', () => {
  expect([MARK_FORMAT, READER_STATE_FORMAT]).toEqual([1, 1]);
});
