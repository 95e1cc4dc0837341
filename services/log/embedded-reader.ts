/** Reading the embedded log: ranges and following. Any number of processes may read beside the writer. */
import type { FileHandle } from 'node:fs/promises';
import { createIdleTimer } from '../../lakehouse/thread/idle-timer.ts';
import { LogError, type LogBatch, type LogReader, type PartitionBounds } from './log.ts';
import type { LogOffset } from './position.ts';
import {
  addChunk,
  blockOf,
  buildBatch,
  chunkFault,
  createBatchBuilder,
  newerChunk,
  type BatchBuilder,
} from './record-chunk.ts';
import { rowBlockRows } from './row-block.ts';
import {
  chunkAt,
  chunksFrom,
  keptFrom,
  partitionState,
  refresh,
  topicOf,
  type ChunkPlace,
  type LogIndex,
  type PartitionState,
  type TopicEntry,
} from './embedded-index.ts';
import { openSegment, readChunk } from './embedded-segments.ts';

const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** Index entries read at a time. */
const PAGE = 256;

export interface EmbeddedReaderOptions {
  readonly directory: string;
  readonly changes: AppendWatch;
}

/** Tells followers of appends by this process and by others. */
export interface AppendWatch {
  /** Rises with every append that was noticed. */
  readonly version: () => number;
  /** Resolves once the version is another one, or at the signal. */
  readonly changedSince: (version: number, signal: AbortSignal) => Promise<void>;
}

interface Source {
  readonly index: LogIndex;
  readonly directory: string;
}

export function createEmbeddedReader(index: LogIndex, options: EmbeddedReaderOptions): LogReader {
  const source = { index, directory: options.directory };
  return {
    read: (topic, partition, from, to, readOptions) =>
      readRange(source, topic, partition, from, to, {
        batchBytesMax: readOptions?.batchBytesMax ?? BATCH_BYTES_MAX,
        signal: readOptions?.signal,
        rowBlocks: readOptions?.rowBlocks ?? false,
      }),
    follow: (topic, partition, from, { signal, batchBytesMax }) =>
      followPartition(source, options, topic, partition, from, batchBytesMax ?? BATCH_BYTES_MAX, signal),
    bounds: async (topic) => boundsOf(index, topic),
    offsetsAt: async (topic, timestampMs) => offsetsAt(index, topic, timestampMs),
    close: () => Promise.resolve(),
  };
}

function topicEntry(index: LogIndex, name: string): TopicEntry {
  const topic = topicOf(index, name);
  if (topic === null) throw new LogError('LOG_TOPIC_MISSING', `the log has no topic ${name}`);
  return topic;
}

async function* followPartition(
  source: Source,
  options: EmbeddedReaderOptions,
  topic: string,
  partition: number,
  from: LogOffset,
  batchBytesMax: number,
  signal: AbortSignal,
): AsyncGenerator<LogBatch, void, undefined> {
  let at = from;
  while (!signal.aborted) {
    const version = options.changes.version();
    refresh(source.index);
    const { next } = partitionState(source.index, topicEntry(source.index, topic).id, partition);
    if (next === at) {
      await options.changes.changedSince(version, signal);
      continue;
    }
    // A log that was wiped and begun anew ends below: readRange says so.
    const how = { batchBytesMax, signal: undefined, rowBlocks: false };
    for await (const batch of readRange(source, topic, partition, at, next as LogOffset, how)) {
      at = batch.nextOffset;
      yield batch;
      if (signal.aborted) return;
    }
    at = next as LogOffset;
  }
}

async function* readRange(
  source: Source,
  topicName: string,
  partition: number,
  from: LogOffset,
  to: LogOffset,
  how: { readonly batchBytesMax: number; readonly signal: AbortSignal | undefined; readonly rowBlocks: boolean },
): AsyncGenerator<LogBatch, void, undefined> {
  const { index } = source;
  const { batchBytesMax, signal } = how;
  refresh(index);
  const topic = topicEntry(index, topicName);
  checkRange(topic, partition, from, to, partitionState(index, topic.id, partition));
  if (topic.settings.compacted) {
    yield* readKept(index, topic, partition, from, to, batchBytesMax);
    return;
  }
  // Blocks come one behind the other into the same memory; a reader that asked for them is told so.
  const segment: OpenSegment = { id: -1, file: null, room: how.rowBlocks ? spareRoom : null, reuses: how.rowBlocks };
  if (segment.reuses) spareRoom = null;
  try {
    let batch = createBatchBuilder();
    let at: bigint = from;
    while (at < to) {
      signal?.throwIfAborted();
      refresh(index);
      for (const place of chunksAt(index, topic, partition, at)) {
        if (place.base >= to) break;
        const chunk = await chunkOf(source, segment, topic, partition, place, at);
        const block = how.rowBlocks ? blockOf(chunk) : null;
        if (block !== null) {
          if (batch.offsets.length > 0) yield finish(batch, topicName, partition, at);
          batch = createBatchBuilder();
          const rows = blockBatch(block, { topic: topicName, partition, base: place.base, from: at, to });
          at = rows.nextOffset;
          yield rows;
          continue;
        }
        addChunk(batch, how.rowBlocks ? Buffer.from(chunk) : chunk, at, to);
        at = place.base + BigInt(place.count);
        if (batch.bytes < batchBytesMax) continue;
        signal?.throwIfAborted();
        yield finish(batch, topicName, partition, at < to ? at : to);
        batch = createBatchBuilder();
      }
    }
    if (batch.offsets.length > 0) yield finish(batch, topicName, partition, to);
  } finally {
    if (segment.reuses) keepRoom(segment.room);
    await segment.file?.close();
  }
}

/** Memory for the blocks of a read, for the next one: those of a load follow one another, and each would leave it as garbage. */
let spareRoom: Buffer | null = null;
const SPARE_BYTES_MAX = 8 * 1024 * 1024;
const SPARE_IDLE_MS = 2_000;
const spareIsIdle = createIdleTimer(SPARE_IDLE_MS, () => (spareRoom = null));

function keepRoom(room: Buffer | null): void {
  if (room === null || room.length > SPARE_BYTES_MAX) return;
  spareRoom = room;
  spareIsIdle.touch();
}

function finish(batch: BatchBuilder, topic: string, partition: number, next: bigint): LogBatch {
  return buildBatch(batch, topic, partition, next as LogOffset);
}

function blockBatch(
  bytes: Buffer,
  at: { readonly topic: string; readonly partition: number; base: bigint; from: bigint; to: bigint },
): LogBatch {
  const rows = rowBlockRows(bytes);
  const from = at.from > at.base ? Number(at.from - at.base) : 0;
  const to = at.to - at.base < BigInt(rows) ? Number(at.to - at.base) : rows;
  return {
    topic: at.topic,
    partition: at.partition,
    offsets: new BigInt64Array(0),
    keys: [],
    values: [],
    headers: [],
    timestampsMs: new Float64Array(0),
    nextOffset: (at.base + BigInt(to)) as LogOffset,
    bytes: Math.ceil((bytes.length * (to - from)) / Math.max(1, rows)),
    block: { bytes, base: at.base as LogOffset, from, to },
  };
}

function checkRange(topic: TopicEntry, partition: number, from: bigint, to: bigint, state: PartitionState): void {
  if (partition >= topic.settings.partitions) {
    throw new LogError('LOG_TOPIC_MISSING', `topic ${topic.name} has no partition ${partition}`);
  }
  if (from >= state.earliest && from <= state.next && to <= state.next) return;
  throw outOfRange(topic, partition, from, to, state);
}

function outOfRange(topic: TopicEntry, partition: number, from: bigint, to: bigint, state: PartitionState): LogError {
  return new LogError(
    'LOG_OFFSET_OUT_OF_RANGE',
    `${topic.name}[${partition}] holds offsets ${state.earliest} to ${state.next}, not all of ${from} to ${to}`,
  );
}

/** Chunks from the one that holds `at` on; at least one. */
function chunksAt(index: LogIndex, topic: TopicEntry, partition: number, at: bigint): ChunkPlace[] {
  const first = chunkAt(index, topic.id, partition, at);
  if (first === null || first.base + BigInt(first.count) <= at) {
    const state = partitionState(index, topic.id, partition);
    if (at < state.earliest) throw outOfRange(topic, partition, at, state.next, state);
    throw corrupt(topic, partition, at, 'the index names no chunk for it');
  }
  return chunksFrom(index, topic.id, partition, first.base, PAGE);
}

interface OpenSegment {
  id: number;
  file: FileHandle | null;
  /** Memory for one chunk after the other, when `reuses`. */
  room: Buffer | null;
  readonly reuses: boolean;
}

async function chunkOf(
  source: Source,
  segment: OpenSegment,
  topic: TopicEntry,
  partition: number,
  place: ChunkPlace,
  at: bigint,
): Promise<Buffer> {
  if (segment.id !== place.segment || segment.file === null) {
    await segment.file?.close();
    segment.id = place.segment;
    segment.file = await openSegment(source.directory, place.segment);
  }
  if (segment.file === null) {
    // Since the index was read, retention may have taken the file, or its kept chunks were moved to another.
    refresh(source.index);
    const state = partitionState(source.index, topic.id, partition);
    if (at < state.earliest) throw outOfRange(topic, partition, at, state.next, state);
    const now = chunkAt(source.index, topic.id, partition, place.base);
    if (now?.base === place.base && now.segment !== place.segment) {
      return chunkOf(source, segment, topic, partition, now, at);
    }
    throw corrupt(topic, partition, place.base, `its segment file ${place.segment} is missing`);
  }
  if (segment.reuses && (segment.room?.length ?? 0) < place.length) {
    segment.room = Buffer.allocUnsafeSlow(place.length + (place.length >> 3));
  }
  const chunk = await readChunk(segment.file, place.position, place.length, segment.room);
  const newer = chunk.length === place.length ? newerChunk(chunk) : null;
  if (newer !== null) {
    throw new LogError(
      'LOG_FORMAT_NEWER',
      `${topic.name}[${partition}], the chunk at offset ${place.base} has format ${newer}, which this version does not read: upgrade this process first`,
    );
  }
  const fault =
    chunk.length === place.length ? chunkFault(chunk, place.base) : `it is cut off after ${chunk.length} bytes`;
  if (fault !== null) throw corrupt(topic, partition, place.base, fault);
  return chunk;
}

function corrupt(topic: TopicEntry, partition: number, offset: bigint, what: string): LogError {
  return new LogError(
    'LOG_CORRUPT',
    `${topic.name}[${partition}], the chunk at offset ${offset} cannot be read: ${what}; check the disk, then repair the table from its source`,
  );
}

function* readKept(
  index: LogIndex,
  topic: TopicEntry,
  partition: number,
  from: bigint,
  to: bigint,
  batchBytesMax: number,
): Generator<LogBatch, void, undefined> {
  let at = from;
  for (;;) {
    const batch = createBatchBuilder();
    let found = 0;
    for (const { offset, chunk } of keptFrom(index, topic.id, partition, at, to, PAGE)) {
      const fault = chunkFault(chunk, offset);
      if (fault !== null) throw corrupt(topic, partition, offset, fault);
      addChunk(batch, chunk, at, to);
      found++;
      at = offset + 1n;
      if (batch.bytes >= batchBytesMax) break;
    }
    if (found === 0) return;
    yield finish(batch, topic.name, partition, at);
    refresh(index);
  }
}

function boundsOf(index: LogIndex, name: string): Map<number, PartitionBounds> {
  refresh(index);
  const topic = topicEntry(index, name);
  const bounds = new Map<number, PartitionBounds>();
  for (let partition = 0; partition < topic.settings.partitions; partition++) {
    const { earliest, next } = partitionState(index, topic.id, partition);
    bounds.set(partition, { earliest: earliest as LogOffset, end: next as LogOffset });
  }
  return bounds;
}

function offsetsAt(index: LogIndex, name: string, timestampMs: number): Map<number, LogOffset> {
  refresh(index);
  const topic = topicEntry(index, name);
  const found = new Map<number, LogOffset>();
  for (let partition = 0; partition < topic.settings.partitions; partition++) {
    found.set(partition, offsetAt(index, topic, partition, timestampMs) as LogOffset);
  }
  return found;
}

/** Halves the range of offsets: a chunk's records share its append time, which does not fall along a partition. */
function offsetAt(index: LogIndex, topic: TopicEntry, partition: number, timestampMs: number): bigint {
  const { earliest, next } = partitionState(index, topic.id, partition);
  if (topic.settings.compacted) {
    for (const { offset, chunk } of keptFrom(index, topic.id, partition, earliest, next, 0x7fff_ffff)) {
      if (chunk.readDoubleBE(24) >= timestampMs) return offset;
    }
    return next;
  }
  // `low` and `high` stay on chunk borders; chunks of one partition stand without gaps.
  let low = earliest;
  let high = next;
  while (low < high) {
    const place = chunkAt(index, topic.id, partition, low + (high - low) / 2n);
    if (place === null) return low;
    if (place.timestampMs >= timestampMs) high = place.base;
    else low = place.base + BigInt(place.count);
  }
  return low;
}
