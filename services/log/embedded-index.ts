/**
 * The embedded log's index, in LMDB: topics, partitions, where each chunk lies, and who may write. Records themselves are
 * in segment files (embedded-segments.ts), except those of compacted topics, which are few and are kept here whole.
 *
 * What makes the log atomic and fenced is one LMDB transaction: it checks the writer's epoch and makes an append's chunks
 * visible, all or none, under LMDB's own lock, which holds across processes and is freed when its holder dies.
 */
import { createHash, randomUUID } from 'node:crypto';
import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { createLockNote, holding, waitForLock, type LockNote } from './embedded-lock.ts';
import { LogError, type TopicSettings } from './log.ts';

export const LOG_FORMAT = 1;

export interface TopicEntry {
  readonly id: number;
  readonly name: string;
  readonly settings: TopicSettings;
}

export interface PartitionState {
  /** First offset still kept. */
  readonly earliest: bigint;
  readonly next: bigint;
  /** Records below may go: the lake has committed them. */
  readonly released: bigint;
  /** Bytes of the chunks that are kept. */
  readonly bytes: bigint;
}

export interface ChunkPlace {
  readonly base: bigint;
  readonly count: number;
  readonly segment: number;
  readonly position: number;
  readonly length: number;
  readonly timestampMs: number;
}

export interface SegmentState {
  readonly id: number;
  readonly identity: string;
  readonly epoch: number;
  /** Nothing is added any more. */
  readonly sealed: boolean;
  readonly liveBytes: bigint;
}

export interface LogIndex {
  readonly db: RootDatabase<Buffer, Buffer>;
  readonly lock: LockNote;
  readonly logId: string;
}

/** Key prefixes; the rest of each key is big-endian, so that keys sort by number. */
const META = 'M';
const WRITER = 'W';
const TOPIC = 'T';
const PARTITION = 'P'.charCodeAt(0);
const CHUNK = 'C'.charCodeAt(0);
const SEGMENT = 'S'.charCodeAt(0);
const KEPT = 'K'.charCodeAt(0);
const LATEST = 'L'.charCodeAt(0);
const MAX_OFFSET = 0xffff_ffff_ffff_ffffn;

const nameKey = (prefix: string, name: string): Buffer => Buffer.from(prefix + name);

function numberKey(prefix: number, topic: number, partition: number, offset?: bigint): Buffer {
  const key = Buffer.allocUnsafe(offset === undefined ? 9 : 17);
  key[0] = prefix;
  key.writeUInt32BE(topic, 1);
  key.writeUInt32BE(partition, 5);
  if (offset !== undefined) key.writeBigUInt64BE(offset, 9);
  return key;
}

function segmentKey(id: number): Buffer {
  const key = Buffer.allocUnsafe(5);
  key[0] = SEGMENT;
  key.writeUInt32BE(id, 1);
  return key;
}

/** @throws LogError FORMAT_NEWER, CORRUPT, UNAVAILABLE */
export async function openIndex(directory: string): Promise<LogIndex> {
  const path = join(directory, 'index.mdb');
  checkMagic(path);
  const lock = createLockNote(directory);
  await waitForLock(lock);
  let db: RootDatabase<Buffer, Buffer>;
  try {
    // Without overlapping sync, a commit is on disk before it is visible: no reader ever runs ahead of a power cut.
    db = holding(lock, () =>
      open<Buffer, Buffer>({ path, noSubdir: true, encoding: 'binary', keyEncoding: 'binary', overlappingSync: false }),
    );
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    if (/MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH)/.test(text)) throw corruptIndex(path, text);
    throw new LogError('LOG_UNAVAILABLE', `the embedded log's index ${path} cannot be opened: ${text}`, { cause });
  }
  const found = await write({ db, lock, logId: '' }, () => {
    const format = db.get(nameKey(META, 'format'));
    if (format !== undefined) {
      return { format: format.readUInt32BE(0), id: db.get(nameKey(META, 'logId'))?.toString() ?? '' };
    }
    const id = randomUUID();
    db.putSync(nameKey(META, 'format'), u32(LOG_FORMAT));
    db.putSync(nameKey(META, 'logId'), Buffer.from(id));
    return { format: LOG_FORMAT, id };
  });
  if (found.format > LOG_FORMAT) {
    await db.close();
    throw new LogError(
      'LOG_FORMAT_NEWER',
      `the embedded log ${path} has format ${found.format}, this version reads up to ${LOG_FORMAT}; upgrade first`,
    );
  }
  return { db, lock, logId: found.id };
}

/** LMDB's mark, at the start of its first page (lmdb.h, MDB_MAGIC). The native code does not survive a file without it. */
function checkMagic(path: string): void {
  if (!existsSync(path)) return;
  const head = Buffer.alloc(64);
  const file = openSync(path, 'r');
  try {
    if (readSync(file, head, 0, head.length, 0) === 0) return;
  } finally {
    closeSync(file);
  }
  if (head.indexOf(Buffer.from('dec0efbe', 'hex')) < 0) throw corruptIndex(path, 'it is not an LMDB file');
}

function corruptIndex(path: string, what: string): LogError {
  return new LogError(
    'LOG_CORRUPT',
    `the embedded log's index ${path} cannot be read: ${what}; restore it or start a new log`,
  );
}

function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value, 0);
  return bytes;
}

/** Runs `action` as one durable transaction: an exception undoes all of it. Blocks for one small fsync. */
export async function write<T>(index: LogIndex, action: () => T): Promise<T> {
  await waitForLock(index.lock);
  return holding(index.lock, () => index.db.transactionSync(action));
}

/** Forgets the snapshot that reads would otherwise go on seeing within one turn of the event loop. */
export function refresh(index: LogIndex): void {
  index.db.resetReadTxn();
}

/** The next number of a counter kept in the index, from 1. Inside `write`. */
export function nextNumber(index: LogIndex, counter: string): number {
  const key = nameKey(META, counter);
  const value = (index.db.get(key)?.readUInt32BE(0) ?? 0) + 1;
  index.db.putSync(key, u32(value));
  return value;
}

export function numberOf(index: LogIndex, counter: string): number {
  return index.db.get(nameKey(META, counter))?.readUInt32BE(0) ?? 0;
}

export function writerEpoch(index: LogIndex, identity: string): number {
  return index.db.get(nameKey(WRITER, identity))?.readUInt32BE(0) ?? 0;
}

export function setWriterEpoch(index: LogIndex, identity: string, epoch: number): void {
  index.db.putSync(nameKey(WRITER, identity), u32(epoch));
}

export function topicOf(index: LogIndex, name: string): TopicEntry | null {
  const bytes = index.db.get(nameKey(TOPIC, name));
  if (bytes === undefined) return null;
  const stored = JSON.parse(bytes.toString()) as { id: number; settings: TopicSettings };
  return { id: stored.id, name, settings: stored.settings };
}

export function putTopic(index: LogIndex, topic: TopicEntry): void {
  index.db.putSync(nameKey(TOPIC, topic.name), Buffer.from(JSON.stringify({ id: topic.id, settings: topic.settings })));
}

export function topicNames(index: LogIndex): string[] {
  const names: string[] = [];
  for (const key of index.db.getKeys({ start: Buffer.from(TOPIC), end: Buffer.from('U') })) {
    names.push(key.subarray(1).toString());
  }
  return names;
}

export function partitionState(index: LogIndex, topic: number, partition: number): PartitionState {
  const bytes = index.db.get(numberKey(PARTITION, topic, partition));
  if (bytes === undefined) return { earliest: 0n, next: 0n, released: 0n, bytes: 0n };
  return {
    earliest: bytes.readBigUInt64BE(0),
    next: bytes.readBigUInt64BE(8),
    released: bytes.readBigUInt64BE(16),
    bytes: bytes.readBigUInt64BE(24),
  };
}

export function putPartitionState(index: LogIndex, topic: number, partition: number, state: PartitionState): void {
  const bytes = Buffer.allocUnsafe(32);
  bytes.writeBigUInt64BE(state.earliest, 0);
  bytes.writeBigUInt64BE(state.next, 8);
  bytes.writeBigUInt64BE(state.released, 16);
  bytes.writeBigUInt64BE(state.bytes, 24);
  index.db.putSync(numberKey(PARTITION, topic, partition), bytes);
}

export function putChunk(index: LogIndex, topic: number, partition: number, chunk: ChunkPlace): void {
  const bytes = Buffer.allocUnsafe(28);
  bytes.writeUInt32BE(chunk.segment, 0);
  bytes.writeBigUInt64BE(BigInt(chunk.position), 4);
  bytes.writeUInt32BE(chunk.length, 12);
  bytes.writeUInt32BE(chunk.count, 16);
  bytes.writeDoubleBE(chunk.timestampMs, 20);
  index.db.putSync(numberKey(CHUNK, topic, partition, chunk.base), bytes);
}

function chunkPlace(key: Buffer, value: Buffer): ChunkPlace {
  return {
    base: key.readBigUInt64BE(9),
    segment: value.readUInt32BE(0),
    position: Number(value.readBigUInt64BE(4)),
    length: value.readUInt32BE(12),
    count: value.readUInt32BE(16),
    timestampMs: value.readDoubleBE(20),
  };
}

/** The chunk that holds `offset`, or the last one before it; null when there is none. */
export function chunkAt(index: LogIndex, topic: number, partition: number, offset: bigint): ChunkPlace | null {
  const range = index.db.getRange({
    start: numberKey(CHUNK, topic, partition, offset),
    end: numberKey(CHUNK, topic, partition),
    reverse: true,
    limit: 1,
  });
  for (const { key, value } of range) return chunkPlace(key, value);
  return null;
}

/** Chunks with base >= `from`, in order, at most `limit`. */
export function chunksFrom(
  index: LogIndex,
  topic: number,
  partition: number,
  from: bigint,
  limit: number,
): ChunkPlace[] {
  const places: ChunkPlace[] = [];
  const range = index.db.getRange({
    start: numberKey(CHUNK, topic, partition, from),
    end: numberKey(CHUNK, topic, partition, MAX_OFFSET),
    limit,
  });
  for (const { key, value } of range) places.push(chunkPlace(key, value));
  return places;
}

export function removeChunk(index: LogIndex, topic: number, partition: number, base: bigint): void {
  index.db.removeSync(numberKey(CHUNK, topic, partition, base));
}

export function segmentState(index: LogIndex, id: number): SegmentState | null {
  const bytes = index.db.get(segmentKey(id));
  return bytes === undefined ? null : readSegment(id, bytes);
}

function readSegment(id: number, bytes: Buffer): SegmentState {
  return {
    id,
    liveBytes: bytes.readBigUInt64BE(0),
    epoch: bytes.readUInt32BE(8),
    sealed: bytes[12] === 1,
    identity: bytes.subarray(13).toString(),
  };
}

export function putSegment(index: LogIndex, segment: SegmentState): void {
  const identity = Buffer.from(segment.identity);
  const bytes = Buffer.allocUnsafe(13 + identity.length);
  bytes.writeBigUInt64BE(segment.liveBytes, 0);
  bytes.writeUInt32BE(segment.epoch, 8);
  bytes[12] = segment.sealed ? 1 : 0;
  identity.copy(bytes, 13);
  index.db.putSync(segmentKey(segment.id), bytes);
}

export function removeSegment(index: LogIndex, id: number): void {
  index.db.removeSync(segmentKey(id));
}

export function segments(index: LogIndex): SegmentState[] {
  const found: SegmentState[] = [];
  for (const { key, value } of index.db.getRange({ start: segmentKey(0), end: Buffer.from('T') })) {
    found.push(readSegment(key.readUInt32BE(1), value));
  }
  return found;
}

/** One record of a compacted topic: the one it replaces goes. Returns the change of kept bytes. Inside `write`. */
export function putKept(
  index: LogIndex,
  topic: number,
  partition: number,
  offset: bigint,
  recordKey: Buffer,
  chunk: Buffer,
): bigint {
  const latest = Buffer.concat([
    numberKey(LATEST, topic, partition),
    createHash('sha256').update(recordKey).digest().subarray(0, 16),
  ]);
  let change = BigInt(chunk.length);
  const before = index.db.get(latest);
  if (before !== undefined) {
    const replaced = numberKey(KEPT, topic, partition, before.readBigUInt64BE(0));
    change -= BigInt(index.db.get(replaced)?.length ?? 0);
    index.db.removeSync(replaced);
  }
  index.db.putSync(numberKey(KEPT, topic, partition, offset), chunk);
  const at = Buffer.allocUnsafe(8);
  at.writeBigUInt64BE(offset, 0);
  index.db.putSync(latest, at);
  return change;
}

/** Records of a compacted topic with from <= offset < to, as chunks of one record each, at most `limit`. */
export function keptFrom(
  index: LogIndex,
  topic: number,
  partition: number,
  from: bigint,
  to: bigint,
  limit: number,
): { readonly offset: bigint; readonly chunk: Buffer }[] {
  const found: { readonly offset: bigint; readonly chunk: Buffer }[] = [];
  const range = index.db.getRange({
    start: numberKey(KEPT, topic, partition, from),
    end: numberKey(KEPT, topic, partition, to),
    limit,
  });
  for (const { key, value } of range) found.push({ offset: key.readBigUInt64BE(9), chunk: value });
  return found;
}

/** Forgets a topic: every entry under its number. Chunk bytes are the caller's to subtract. Inside `write`. */
export function removeTopic(index: LogIndex, topic: TopicEntry): void {
  for (const prefix of [PARTITION, CHUNK, KEPT, LATEST]) {
    const range = { start: numberKey(prefix, topic.id, 0), end: numberKey(prefix, topic.id + 1, 0) };
    const keys = Array.from(index.db.getKeys(range));
    for (const key of keys) index.db.removeSync(key);
  }
  index.db.removeSync(nameKey(TOPIC, topic.name));
}
