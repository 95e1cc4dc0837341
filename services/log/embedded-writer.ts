/**
 * Appending to the embedded log. An append is: chunks written to this writer's own segment and synced, then one index
 * transaction that checks the writer's epoch and makes all of them visible. A crash before the transaction leaves bytes
 * that nothing names; a writer that was overtaken fails the epoch check, and its bytes are such leftovers too.
 */
import { LogError, type LogWriter, type NextOffsets, type OutgoingRecord } from './log.ts';
import type { LogOffset } from './position.ts';
import { partitionOf } from './partition.ts';
import { encodeBlockChunk, encodeChunk, recordBytes } from './record-chunk.ts';
import {
  nextNumber,
  partitionState,
  putChunk,
  putKept,
  putPartitionState,
  putSegment,
  refresh,
  removeSegment,
  segments,
  segmentState,
  setWriterEpoch,
  topicOf,
  write,
  writerEpoch,
  type LogIndex,
  type TopicEntry,
} from './embedded-index.ts';
import { createSegment, deleteSegment, storageError, writeChunks, type SegmentWriter } from './embedded-segments.ts';

export interface EmbeddedWriterOptions {
  readonly directory: string;
  readonly identity: string;
  readonly clock: () => number;
  /** Largest record value, bytes. */
  readonly recordBytesMax: number;
  /** Records are put together into chunks of about this size. */
  readonly chunkBytes: number;
  /** A segment that has reached this size is sealed and another one begun. */
  readonly segmentBytes: number;
  /** Called after every append that became visible. */
  readonly onAppend: () => void;
  readonly onClosed: () => void;
}

interface WriterState {
  readonly index: LogIndex;
  readonly options: EmbeddedWriterOptions;
  readonly epoch: number;
  segment: SegmentWriter | null;
}

/** Records of one partition in one append, with the offsets that they get. */
interface Lane {
  readonly topic: TopicEntry;
  readonly partition: number;
  readonly base: bigint;
  readonly records: OutgoingRecord[];
  /** Offsets that the records take. */
  count: number;
}

/** By topic name. */
type Lanes = Map<string, { readonly topic: TopicEntry; readonly byPartition: Map<number, Lane> }>;

interface PlannedChunk {
  readonly lane: Lane;
  /** Index of its first record in the lane, that record's offset, and how many offsets the chunk covers. */
  readonly from: number;
  readonly offset: bigint;
  readonly count: number;
  /** One behind the other. */
  readonly parts: readonly Buffer[];
  readonly bytes: number;
}

/** Takes the identity over: every older writer of it is fenced before this resolves. */
export async function openEmbeddedWriter(index: LogIndex, options: EmbeddedWriterOptions): Promise<LogWriter> {
  const { directory, identity } = options;
  const taken = await guarded(directory, 'the writer cannot be opened', () =>
    write(index, () => {
      const epoch = writerEpoch(index, identity) + 1;
      setWriterEpoch(index, identity, epoch);
      const empty: number[] = [];
      for (const segment of segments(index)) {
        // A sealed segment in which nothing is kept: left by a crash between its making and its use.
        const leftover = segment.sealed && segment.liveBytes === 0n;
        if (!leftover && (segment.identity !== identity || segment.sealed)) continue;
        const emptied = sealSegment(index, segment.id);
        if (emptied !== null) empty.push(emptied);
      }
      return { epoch, empty };
    }),
  );
  for (const id of taken.empty) await deleteSegment(directory, id);

  const state: WriterState = { index, options, epoch: taken.epoch, segment: null };
  let last: Promise<unknown> = Promise.resolve();
  let closed = false;
  return {
    recordBytesMax: options.recordBytesMax,
    rowBlocks: true,
    append(records, controls) {
      if (closed) return Promise.reject(new LogError('LOG_UNAVAILABLE', 'the writer is closed', { retriable: false }));
      const result = last.then(() => append(state, records, controls));
      last = result.catch(() => undefined);
      return result;
    },
    async close() {
      closed = true;
      await last;
      await state.segment?.file.close();
      state.segment = null;
      options.onClosed();
    },
  };
}

async function append(
  state: WriterState,
  records: readonly OutgoingRecord[],
  controls: ((next: NextOffsets) => readonly OutgoingRecord[]) | undefined,
): Promise<NextOffsets> {
  const { index, options } = state;
  for (;;) {
    refresh(index);
    checkEpoch(state);
    const lanes: Lanes = new Map();
    for (const record of records) addToLane(state, lanes, record);
    if (controls !== undefined) for (const record of controls(nextOffsets(lanes))) addToLane(state, lanes, record);
    if (lanes.size === 0) return new Map();

    const timestampMs = options.clock();
    const segment = await openSegmentFor(state);
    const chunks = planChunks(everyLane(lanes), options.chunkBytes, timestampMs);
    const stored = chunks.filter((chunk) => !chunk.lane.topic.settings.compacted);
    if (stored.length > 0) {
      await writeChunks(
        options.directory,
        segment,
        stored.flatMap((chunk) => chunk.parts),
      );
    }
    const done = await guarded(options.directory, 'an append cannot be committed', () =>
      write(index, () => commit(state, segment, lanes, chunks, timestampMs)),
    );
    // Another identity wrote to one of these partitions in between: the offsets are taken, so all is laid out anew.
    if (!done) continue;
    for (const chunk of stored) segment.end += chunk.bytes;
    options.onAppend();
    return nextOffsets(lanes);
  }
}

function addToLane(state: WriterState, lanes: Lanes, record: OutgoingRecord): void {
  const { index, options } = state;
  let bytes = record.value?.length ?? 0;
  if (record.rest !== undefined) for (const part of record.rest) bytes += part.length;
  if (bytes > options.recordBytesMax) {
    throw new LogError(
      'LOG_RECORD_TOO_LARGE',
      `a record of ${bytes} bytes for ${record.topic} is larger than the log's ${options.recordBytesMax}; it goes by claim check`,
    );
  }
  let known = lanes.get(record.topic);
  if (known === undefined) {
    const topic = topicOf(index, record.topic);
    if (topic === null) throw new LogError('LOG_TOPIC_MISSING', `the log has no topic ${record.topic}`);
    known = { topic, byPartition: new Map() };
    lanes.set(record.topic, known);
  }
  const { partitions } = known.topic.settings;
  const partition = record.partition ?? partitionOf(record.key, partitions);
  const lane = known.byPartition.get(partition);
  if (lane !== undefined) {
    lane.records.push(record);
    lane.count += record.rows ?? 1;
    return;
  }
  if (partition >= partitions) {
    throw new LogError('LOG_TOPIC_MISSING', `topic ${record.topic} has no partition ${partition}, only ${partitions}`);
  }
  const base = partitionState(index, known.topic.id, partition).next;
  known.byPartition.set(partition, { topic: known.topic, partition, base, records: [record], count: record.rows ?? 1 });
}

function everyLane(lanes: Lanes): Lane[] {
  return [...lanes.values()].flatMap((topic) => [...topic.byPartition.values()]);
}

function nextOffsets(lanes: Lanes): NextOffsets {
  const next: NextOffsets = new Map();
  for (const lane of everyLane(lanes)) {
    const partitions = next.get(lane.topic.name) ?? new Map<number, LogOffset>();
    partitions.set(lane.partition, (lane.base + BigInt(lane.count)) as LogOffset);
    next.set(lane.topic.name, partitions);
  }
  return next;
}

/** Compacted topics get a chunk a record, so that each can be replaced alone; a block of rows is a chunk. */
function planChunks(lanes: Iterable<Lane>, chunkBytes: number, timestampMs: number): PlannedChunk[] {
  const chunks: PlannedChunk[] = [];
  for (const lane of lanes) {
    const { records } = lane;
    const bytesMax = lane.topic.settings.compacted ? 0 : chunkBytes;
    let offset = lane.base;
    for (let from = 0; from < records.length;) {
      const { rows, value, rest = [] } = records[from] as OutgoingRecord;
      let to = from + 1;
      let parts: readonly Buffer[];
      if (rows !== undefined && value !== null) parts = encodeBlockChunk([value, ...rest], rows, offset, timestampMs);
      else {
        let bytes = recordBytes(records[from] as OutgoingRecord);
        for (; to < records.length && bytes < bytesMax; to++) {
          const next = records[to] as OutgoingRecord;
          if (next.rows !== undefined) break;
          bytes += recordBytes(next);
        }
        parts = [encodeChunk(records, from, to, offset, timestampMs)];
      }
      const count = rows ?? to - from;
      chunks.push({ lane, from, offset, count, parts, bytes: parts.reduce((sum, part) => sum + part.length, 0) });
      offset += BigInt(count);
      from = to;
    }
  }
  return chunks;
}

/** Inside the index transaction. False when an offset was taken by another writer since the lanes were laid. */
function commit(
  state: WriterState,
  segment: SegmentWriter,
  lanes: Lanes,
  chunks: readonly PlannedChunk[],
  timestampMs: number,
): boolean {
  const { index } = state;
  checkEpoch(state);
  const kept = new Map<Lane, bigint>();
  const all = everyLane(lanes);
  for (const lane of all) {
    const topic = topicOf(index, lane.topic.name);
    if (topic?.id !== lane.topic.id) return false;
    if (partitionState(index, topic.id, lane.partition).next !== lane.base) return false;
  }
  let position = segment.end;
  for (const { lane, from, offset, count, parts, bytes } of chunks) {
    let change = BigInt(bytes);
    if (lane.topic.settings.compacted) {
      const key = (lane.records[from] as OutgoingRecord).key ?? Buffer.alloc(0);
      change = putKept(index, lane.topic.id, lane.partition, offset, key, Buffer.concat(parts));
    } else {
      const place = {
        base: offset,
        count,
        segment: segment.id,
        position,
        length: bytes,
        timestampMs,
      };
      putChunk(index, lane.topic.id, lane.partition, place);
      position += bytes;
    }
    kept.set(lane, (kept.get(lane) ?? 0n) + change);
  }
  for (const lane of all) {
    const before = partitionState(index, lane.topic.id, lane.partition);
    const next = lane.base + BigInt(lane.count);
    putPartitionState(index, lane.topic.id, lane.partition, {
      ...before,
      next,
      bytes: before.bytes + (kept.get(lane) ?? 0n),
    });
  }
  // Followers in other processes watch this count.
  nextNumber(index, 'appends');
  const stored = segmentState(index, segment.id);
  if (stored !== null && position > segment.end) {
    putSegment(index, { ...stored, liveBytes: stored.liveBytes + BigInt(position - segment.end) });
  }
  return true;
}

function checkEpoch(state: WriterState): void {
  const epoch = writerEpoch(state.index, state.options.identity);
  if (epoch !== state.epoch) {
    throw new LogError(
      'LOG_FENCED',
      `another writer took over '${state.options.identity}' (epoch ${epoch}, ours is ${state.epoch}); this one must stop`,
    );
  }
}

/** The segment in work, or a new one when it is full. Its number is in the index before its file exists. */
async function openSegmentFor(state: WriterState): Promise<SegmentWriter> {
  const { index, options } = state;
  const current = state.segment;
  if (current !== null && current.end < options.segmentBytes) return current;
  const begun = await guarded(options.directory, 'a segment cannot be begun', () =>
    write(index, () => {
      checkEpoch(state);
      const emptied = current === null ? null : sealSegment(index, current.id);
      const id = nextNumber(index, 'segments');
      const { identity } = options;
      putSegment(index, { id, identity, epoch: state.epoch, sealed: false, liveBytes: 0n });
      return { id, emptied };
    }),
  );
  await current?.file.close();
  state.segment = null;
  if (begun.emptied !== null) await deleteSegment(options.directory, begun.emptied);
  state.segment = await createSegment(options.directory, begun.id);
  return state.segment;
}

/** Inside `write`: nothing is added any more. Returns the number when nothing in it is kept either. */
function sealSegment(index: LogIndex, id: number): number | null {
  const segment = segmentState(index, id);
  if (segment === null) return null;
  if (segment.liveBytes > 0n) {
    putSegment(index, { ...segment, sealed: true });
    return null;
  }
  removeSegment(index, id);
  return id;
}

async function guarded<T>(directory: string, what: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    throw await storageError(directory, what, cause);
  }
}
