import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { propertyRuns } from '../../test/support/row-events.ts';
import { crc32c } from './crc32c.ts';
import { addFetched, encodeRecordBatch } from './kafka-batch.ts';
import type { OutgoingRecord } from './log.ts';
import { murmur2, partitionOf } from './partition.ts';
import { createBatchBuilder } from './record-chunk.ts';

const load = createRequire(import.meta.url);
const stamp = { producerId: 7n, producerEpoch: 3 };
const bytes = fc.option(fc.uint8Array({ maxLength: 300 }).map((b) => Buffer.from(b)));
const records = fc.array(
  fc.record({ topic: fc.constant('t'), key: bytes, value: bytes, header: bytes }) as fc.Arbitrary<OutgoingRecord>,
  { minLength: 1, maxLength: 40 },
);

/** As the broker stores it: with the offset that it assigned. */
function at(batch: Buffer, base: bigint): Buffer {
  const copy = Buffer.from(batch);
  copy.writeBigInt64BE(base, 0);
  return copy;
}

function control(base: bigint, producerId: bigint): Buffer {
  const key = Buffer.from([0, 0, 0, 0]);
  const out = encodeRecordBatch(
    [{ topic: 't', key, value: Buffer.alloc(6), header: null }],
    0,
    1,
    { producerId, producerEpoch: 0 },
    -1,
    1,
  );
  out.writeInt16BE(0x30, 21);
  out.writeUInt32BE(crc32c(out, 21), 17);
  return at(out, base);
}

const one = (value: string): OutgoingRecord[] => [
  { topic: 't', key: Buffer.from('k'), value: Buffer.from(value), header: null },
];
const batchOf = (value: string, base: bigint, producerId: bigint): Buffer =>
  at(encodeRecordBatch(one(value), 0, 1, { producerId, producerEpoch: 0 }, 0, 5), base);

describe('record batches', () => {
  test('CRC-32C has the values of RFC 3720', () => {
    expect(crc32c(Buffer.alloc(32))).toBe(0x8a9136aa);
    expect(crc32c(Buffer.alloc(32, 0xff))).toBe(0x62a8ab43);
    expect(crc32c(Buffer.from(Array.from({ length: 32 }, (_, i) => i)))).toBe(0x46dd794e);
    expect(crc32c(Buffer.from('123456789'))).toBe(0xe3069283);
  });

  test('give back what was put in, from any offset to any other', () => {
    fc.assert(
      fc.property(records, fc.nat(50), fc.nat(50), (list, skip, take) => {
        const batch = at(encodeRecordBatch(list, 0, list.length, stamp, 0, 1_700_000_000_000), 1000n);
        const found = createBatchBuilder();
        const from = 1000n + BigInt(skip);
        const to = from + BigInt(take);
        addFetched(found, batch, [], from, to);
        const expected = list.slice(skip, skip + take);
        expect(found.values).toEqual(expected.map((record) => record.value));
        expect(found.keys).toEqual(expected.map((record) => record.key));
        expect(found.headers).toEqual(expected.map((record) => record.header));
        expect(found.offsets).toEqual(expected.map((_, i) => from + BigInt(i)));
        expect(found.timestampsMs.every((time) => time === 1_700_000_000_000)).toBe(true);
      }),
      { numRuns: propertyRuns(100) },
    );
  });

  test('are read by the client library as we mean them', async () => {
    const Decoder = load('kafkajs/src/protocol/decoder') as new (buffer: Buffer) => object;
    const decodeBatch = load('kafkajs/src/protocol/recordBatch/v0/decoder') as (decoder: object) => Promise<{
      records: { key: Buffer; value: Buffer; offset: string; headers: Record<string, Buffer> }[];
      inTransaction: boolean;
    }>;
    const list = Array.from({ length: 300 }, (_, i) => ({
      topic: 't',
      key: Buffer.from(`k${i}`),
      value: Buffer.alloc(i * 7, 0x61),
      header: Buffer.alloc(32, i),
    }));
    const decoded = await decodeBatch(new Decoder(at(encodeRecordBatch(list, 0, 300, stamp, 5, 99), 40n)));
    expect(decoded.inTransaction).toBe(true);
    expect(decoded.records.map((record) => record.offset)).toEqual(list.map((_, i) => String(40 + i)));
    decoded.records.forEach((record, i) => {
      expect(record.key.equals(list[i]!.key)).toBe(true);
      expect(record.value.equals(list[i]!.value)).toBe(true);
      expect(record.headers['sluice']?.equals(list[i]!.header)).toBe(true);
    });
  });

  test('of aborted transactions and control records are passed over, and the place to read on is behind them', () => {
    const fetched = Buffer.concat([
      batchOf('a', 10n, 1n),
      batchOf('aborted', 11n, 2n),
      batchOf('b', 12n, 1n),
      control(13n, 2n),
      batchOf('again', 14n, 2n),
      control(15n, 1n),
      batchOf('cut off', 16n, 1n).subarray(0, 70),
    ]);
    const found = createBatchBuilder();
    const next = addFetched(found, fetched, [{ producerId: 2n, firstOffset: 11n }], 10n, 100n);
    expect(found.values.map(String)).toEqual(['a', 'b', 'again']);
    expect(next).toBe(16n);
  });

  test('compressed with gzip are read, unknown methods and damage are refused by offset', () => {
    const plain = encodeRecordBatch(one('packed'), 0, 1, stamp, 0, 5);
    const body = gzipSync(plain.subarray(61));
    const packed = Buffer.concat([plain.subarray(0, 61), body]);
    packed.writeInt32BE(packed.length - 12, 8);
    packed.writeInt16BE(1, 21);
    packed.writeUInt32BE(crc32c(packed, 21), 17);
    const found = createBatchBuilder();
    addFetched(found, packed, [], 0n, 9n);
    expect(found.values.map(String)).toEqual(['packed']);

    packed.writeInt16BE(7, 21);
    packed.writeUInt32BE(crc32c(packed, 21), 17);
    expect(() => addFetched(createBatchBuilder(), packed, [], 0n, 9n)).toThrow(
      /offset 0, compressed with 7, cannot be read/,
    );
    const damaged = batchOf('x', 77n, 1n);
    damaged[65] = (damaged[65] ?? 0) ^ 1;
    expect(() => addFetched(createBatchBuilder(), damaged, [], 77n, 99n)).toThrow(/offset 77 does not match/);
  });
});

test('keys go to the partitions that other Kafka clients choose', () => {
  const reference = load('kafkajs/src/producer/partitioners/default/murmur2') as (key: Buffer) => number;
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (key) => {
      expect(murmur2(key)).toBe(reference(Buffer.from(key)));
    }),
    { numRuns: propertyRuns(300) },
  );
  // Kafka's own test vector (UtilsTest.testMurmur2): "21" is -973932308.
  expect(murmur2(Buffer.from('21'))).toBe(-973932308);
  expect(partitionOf(Buffer.from('21'), 10)).toBe((-973932308 & 0x7fffffff) % 10);
  expect(partitionOf(null, 10)).toBe(0);
});
