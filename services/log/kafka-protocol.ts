/**
 * The requests that are written and read by hand, in the form in which kafkajs's connections take them (Kafka protocol
 * guide; Produce 7, Fetch 11, InitProducerId 3, Metadata 10).
 */
import { createRequire } from 'node:module';
import type { AbortedTransaction, ProducerStamp } from './kafka-batch.ts';

const load = createRequire(import.meta.url);
/** The client's own error for a broker's error code: `type` is its name, such as OFFSET_OUT_OF_RANGE. */
export const createErrorFromCode = (
  load('kafkajs/src/protocol/error') as { createErrorFromCode: (code: number) => Error }
).createErrorFromCode;
const READ_COMMITTED = 1;
const PRODUCE_KEY = 0;
const FETCH_KEY = 1;
export const METADATA_KEY = 3;
export const METADATA_WITH_IDS = 10;
const INIT_PRODUCER_KEY = 22;

export interface ProduceRequest {
  readonly transactionalId: string;
  readonly timeoutMs: number;
  /** At most one batch a partition. */
  readonly batches: readonly { readonly topic: string; readonly partition: number; readonly bytes: Buffer }[];
}

export interface ProducedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly baseOffset: bigint;
}

export interface FetchRequest {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly bytesMax: number;
  readonly waitMsMax: number;
}

export interface FetchedRecords {
  readonly highWatermark: bigint;
  readonly lastStableOffset: bigint;
  readonly logStartOffset: bigint;
  readonly aborted: readonly AbortedTransaction[];
  readonly records: Buffer;
}

/** The shape in which kafkajs takes an encoded body. */
const body = (buffer: Buffer): { readonly buf: Buffer; readonly buffer: Buffer } => ({ buf: buffer, buffer });

function stringBytes(text: string): Buffer {
  const bytes = Buffer.from(text);
  const out = Buffer.allocUnsafe(2 + bytes.length);
  out.writeInt16BE(bytes.length, 0);
  bytes.copy(out, 2);
  return out;
}

function int32(value: number): Buffer {
  const out = Buffer.allocUnsafe(4);
  out.writeInt32BE(value, 0);
  return out;
}

/** Produce, version 7 (Kafka protocol guide). */
export function produceRequest(request: ProduceRequest): object {
  const byTopic = new Map<string, { readonly partition: number; readonly bytes: Buffer }[]>();
  for (const batch of request.batches) {
    const list = byTopic.get(batch.topic);
    if (list === undefined) byTopic.set(batch.topic, [batch]);
    else list.push(batch);
  }
  const parts: Buffer[] = [stringBytes(request.transactionalId)];
  const head = Buffer.allocUnsafe(6);
  head.writeInt16BE(-1, 0); // acks: all
  head.writeInt32BE(request.timeoutMs, 2);
  parts.push(head, int32(byTopic.size));
  for (const [topic, batches] of byTopic) {
    parts.push(stringBytes(topic), int32(batches.length));
    for (const { partition, bytes } of batches) parts.push(int32(partition), int32(bytes.length), bytes);
  }
  return {
    request: { apiKey: PRODUCE_KEY, apiVersion: 7, apiName: 'Produce', encode: async () => body(Buffer.concat(parts)) },
    response: {
      decode: async (raw: Buffer) => decodeProduced(raw),
      parse: async (data: DecodedProduce) => data.batches,
    },
    logResponseError: false,
  };
}

interface DecodedProduce {
  readonly clientSideThrottleTime: number;
  readonly batches: readonly ProducedBatch[];
}

function decodeProduced(raw: Buffer): DecodedProduce {
  const batches: ProducedBatch[] = [];
  let at = 4;
  for (let topics = raw.readInt32BE(0); topics > 0; topics--) {
    const length = raw.readInt16BE(at);
    const topic = raw.toString('utf8', at + 2, at + 2 + length);
    at += 2 + length;
    const partitions = raw.readInt32BE(at);
    at += 4;
    for (let i = 0; i < partitions; i++, at += 30) {
      const code = raw.readInt16BE(at + 4);
      if (code !== 0) throw createErrorFromCode(code);
      batches.push({ topic, partition: raw.readInt32BE(at), baseOffset: raw.readBigInt64BE(at + 6) });
    }
  }
  return { clientSideThrottleTime: raw.readInt32BE(at), batches };
}

/** Fetch, version 11, of one partition and without a session. */
export function fetchRequest(request: FetchRequest): object {
  const head = Buffer.allocUnsafe(25);
  head.writeInt32BE(-1, 0);
  head.writeInt32BE(request.waitMsMax, 4);
  head.writeInt32BE(1, 8);
  head.writeInt32BE(request.bytesMax, 12);
  head.writeInt8(READ_COMMITTED, 16);
  head.writeInt32BE(0, 17);
  head.writeInt32BE(-1, 21);
  const partition = Buffer.allocUnsafe(28);
  partition.writeInt32BE(request.partition, 0);
  partition.writeInt32BE(-1, 4);
  partition.writeBigInt64BE(request.offset, 8);
  partition.writeBigInt64BE(-1n, 16);
  partition.writeInt32BE(request.bytesMax, 24);
  const parts = [head, int32(1), stringBytes(request.topic), int32(1), partition, int32(0), stringBytes('')];
  return {
    request: { apiKey: FETCH_KEY, apiVersion: 11, apiName: 'Fetch', encode: async () => body(Buffer.concat(parts)) },
    response: { decode: async (raw: Buffer) => decodeFetched(raw), parse: async (data: FetchedRecords) => data },
    logResponseError: false,
  };
}

function decodeFetched(raw: Buffer): FetchedRecords & { readonly clientSideThrottleTime: number } {
  const clientSideThrottleTime = raw.readInt32BE(0);
  const failed = raw.readInt16BE(4);
  if (failed !== 0) throw createErrorFromCode(failed);
  // throttle, error, session, topics = 14 bytes; then the one topic's name and its one partition.
  let at = 14 + 2 + raw.readInt16BE(14) + 4;
  const code = raw.readInt16BE(at + 4);
  if (code !== 0) throw createErrorFromCode(code);
  const highWatermark = raw.readBigInt64BE(at + 6);
  const lastStableOffset = raw.readBigInt64BE(at + 14);
  const logStartOffset = raw.readBigInt64BE(at + 22);
  const aborted: AbortedTransaction[] = [];
  const count = raw.readInt32BE(at + 30);
  at += 34;
  for (let i = 0; i < count; i++, at += 16) {
    aborted.push({ producerId: raw.readBigInt64BE(at), firstOffset: raw.readBigInt64BE(at + 8) });
  }
  at += 4; // preferred read replica
  const length = Math.max(raw.readInt32BE(at), 0);
  const records = raw.subarray(at + 4, at + 4 + length);
  return { clientSideThrottleTime, highWatermark, lastStableOffset, logStartOffset, aborted, records };
}

/**
 * InitProducerId, version 3, the first that takes the current id and epoch: the broker then raises our own epoch, and refuses
 * when another writer has taken over since. Versions from 2 on are "flexible": compact strings and tagged fields, for which
 * the header's own empty tag list stands first in the body here.
 */
export function initProducerRequest(transactionalId: string, timeoutMs: number, current: ProducerStamp | null): object {
  const id = Buffer.from(transactionalId);
  if (id.length > 126) throw new RangeError(`the writer's identity '${transactionalId}' is longer than 126 bytes`);
  const bytes = Buffer.alloc(2 + id.length + 15);
  bytes[1] = id.length + 1;
  id.copy(bytes, 2);
  const at = 2 + id.length;
  bytes.writeInt32BE(timeoutMs, at);
  bytes.writeBigInt64BE(current?.producerId ?? -1n, at + 4);
  bytes.writeInt16BE(current?.producerEpoch ?? -1, at + 12);
  return {
    request: { apiKey: INIT_PRODUCER_KEY, apiVersion: 3, apiName: 'InitProducerId', encode: async () => body(bytes) },
    response: {
      decode: async (raw: Buffer) => {
        const code = raw.readInt16BE(5);
        if (code !== 0) throw createErrorFromCode(code);
        return { producerId: raw.readBigInt64BE(7), producerEpoch: raw.readInt16BE(15) };
      },
      parse: async (stamp: ProducerStamp) => stamp,
    },
    logResponseError: false,
  };
}

const UNKNOWN_TOPIC = 3;

/** Metadata, version 10 (brokers from 2.8 on), the first that names each topic's id. Gives the ids of the topics that exist. */
export function topicIdsRequest(topics: readonly string[]): object {
  const parts: Buffer[] = [Buffer.from([0]), unsignedVarint(topics.length + 1)];
  for (const topic of topics) {
    const name = Buffer.from(topic);
    // All-zero id: asked by name.
    parts.push(Buffer.alloc(16), unsignedVarint(name.length + 1), name, Buffer.from([0]));
  }
  // No automatic creation, no authorized operations of cluster or topics, no tags.
  parts.push(Buffer.from([0, 0, 0, 0]));
  return {
    request: {
      apiKey: METADATA_KEY,
      apiVersion: METADATA_WITH_IDS,
      apiName: 'Metadata',
      encode: async () => body(Buffer.concat(parts)),
    },
    response: {
      decode: async (raw: Buffer) => decodeTopicIds(raw),
      parse: async (ids: ReadonlyMap<string, string>) => ids,
    },
    logResponseError: false,
  };
}

function decodeTopicIds(raw: Buffer): ReadonlyMap<string, string> {
  const at = new CompactCursor(raw);
  at.skip(1 + 4); // the header's tags, throttle time
  for (let brokers = at.count(); brokers > 0; brokers--) {
    at.skip(4);
    at.text();
    at.skip(4);
    at.text();
    at.tags();
  }
  at.text();
  at.skip(4);
  const ids = new Map<string, string>();
  for (let topics = at.count(); topics > 0; topics--) {
    const code = at.int16();
    const name = at.text() ?? '';
    const id = at.bytes(16).toString('hex');
    at.skip(1);
    for (let partitions = at.count(); partitions > 0; partitions--) {
      at.skip(2 + 4 + 4 + 4);
      for (let lists = 0; lists < 3; lists++) at.skip(at.count() * 4);
      at.tags();
    }
    at.skip(4);
    at.tags();
    if (code === 0) ids.set(name, id);
    else if (code !== UNKNOWN_TOPIC) throw createErrorFromCode(code);
  }
  return ids;
}

function unsignedVarint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** Reads the "flexible" forms: lengths as variable-size numbers, one above the length; 0 = null. */
class CompactCursor {
  private at = 0;
  private readonly raw: Buffer;
  constructor(raw: Buffer) {
    this.raw = raw;
  }

  skip(bytes: number): void {
    this.at += bytes;
  }
  int16(): number {
    this.at += 2;
    return this.raw.readInt16BE(this.at - 2);
  }
  bytes(length: number): Buffer {
    this.at += length;
    return this.raw.subarray(this.at - length, this.at);
  }
  varint(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.raw.readUInt8(this.at++);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  /** Members of an array; a null array has none. */
  count(): number {
    return Math.max(0, this.varint() - 1);
  }
  text(): string | null {
    const length = this.varint();
    return length === 0 ? null : this.bytes(length - 1).toString('utf8');
  }
  tags(): void {
    for (let tags = this.varint(); tags > 0; tags--) {
      this.varint();
      this.skip(this.varint());
    }
  }
}
