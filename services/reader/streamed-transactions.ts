/**
 * Transactions that the server sends while they still run (`source.streaming: on`, protocol 2): kept until they commit, then
 * handed on message by message, without what their aborted sub-transactions did, as if each had come whole. Above a number of
 * bytes, all transactions together, they lie on disk. What is lost in a crash comes again: nothing of it was confirmed.
 *
 * Inside a stream block every message but ORIGIN carries its (sub-)transaction's id behind the tag; it is taken out again.
 */
import { mkdir, open, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ReaderError } from './reader-error.ts';

export interface StreamedOptions {
  readonly bytesMax: number;
  /** Where transactions lie that are larger; emptied at start. */
  readonly folder: string;
}

export interface StreamedTransactions {
  /** Between a stream start and its stop. */
  readonly inBlock: boolean;
  start(xid: number): void;
  stop(): void;
  /** Keeps a message of the open block; a promise where it goes to disk. */
  add(bytes: Buffer, start: number, end: number): Promise<void> | null;
  abort(xid: number, subXid: number): Promise<void> | null;
  /** The transaction's messages in order, as runs of a buffer; it is forgotten behind the last. */
  take(xid: number): AsyncGenerator<StreamedRun>;
  readonly bytesHeld: number;
  readonly bytesOnDisk: number;
  close(): Promise<void>;
}

/** start, end of each message in `bytes`; each begins with its tag. */
export interface StreamedRun {
  readonly bytes: Buffer;
  readonly ranges: readonly number[];
}

interface Streamed {
  /** Messages behind what lies on disk, each `u32 length | message`. */
  parts: Buffer[];
  bytes: number;
  file: FileHandle | null;
  fileBytes: number;
  readonly path: string;
  readonly aborted: Set<number>;
}

const PART_BYTES = 256 * 1024;
const READ_BYTES = 1024 * 1024;
const ORIGIN = 0x4f;
const LENGTH_BYTES = 4;
const XID_BYTES = 4;

export function createStreamedTransactions({ bytesMax, folder }: StreamedOptions): StreamedTransactions {
  const transactions = new Map<number, Streamed>();
  let current: Streamed | null = null;
  /** The part that messages are copied into, and where it is filled up to. */
  let held = 0;
  let onDisk = 0;
  let ready: Promise<unknown> | null = null;

  const prepareFolder = (): Promise<unknown> =>
    (ready ??= rm(folder, { recursive: true, force: true }).then(() =>
      mkdir(folder, { recursive: true, mode: 0o700 }),
    ));

  const spillLargest = async (): Promise<void> => {
    await prepareFolder();
    while (held > bytesMax) {
      let largest: Streamed | null = null;
      for (const each of transactions.values()) if (largest === null || each.bytes > largest.bytes) largest = each;
      if (largest === null || largest.bytes === 0) return;
      await spill(largest);
    }
  };
  const spill = async (streamed: Streamed): Promise<void> => {
    const { parts, bytes } = streamed;
    streamed.parts = [];
    streamed.bytes = 0;
    try {
      streamed.file ??= await open(streamed.path, 'w+', 0o600);
      let at = streamed.fileBytes;
      for (const part of parts) at += (await streamed.file.write(part, 0, part.length, at)).bytesWritten;
    } catch (cause) {
      throw new ReaderError('SOURCE_LOST', `a streamed transaction cannot be kept in ${folder}`, {
        cause,
        remedy: 'make room there, or set source.streaming: off',
      });
    }
    streamed.fileBytes += bytes;
    held -= bytes;
    onDisk += bytes;
  };
  const forget = async (xid: number, streamed: Streamed): Promise<void> => {
    transactions.delete(xid);
    held -= streamed.bytes;
    onDisk -= streamed.fileBytes;
    if (streamed.file === null) return;
    await streamed.file.close();
    await rm(streamed.path, { force: true });
  };

  async function* blocksOf(streamed: Streamed): AsyncGenerator<Buffer> {
    for (let at = 0; at < streamed.fileBytes;) {
      const block = Buffer.allocUnsafe(Math.min(READ_BYTES, streamed.fileBytes - at));
      const { bytesRead } = (await streamed.file?.read(block, 0, block.length, at)) ?? { bytesRead: 0 };
      if (bytesRead === 0) throw new ReaderError('SOURCE_LOST', `${streamed.path} is shorter than what was written`);
      at += bytesRead;
      yield block.subarray(0, bytesRead);
    }
    yield* streamed.parts;
  }

  return {
    get inBlock() {
      return current !== null;
    },
    get bytesHeld() {
      return held;
    },
    get bytesOnDisk() {
      return onDisk;
    },
    start(xid) {
      let streamed = transactions.get(xid);
      if (streamed === undefined) {
        const path = join(folder, `${xid}.stream`);
        streamed = { parts: [], bytes: 0, file: null, fileBytes: 0, path, aborted: new Set() };
        transactions.set(xid, streamed);
      }
      current = streamed;
    },
    stop() {
      current = null;
    },
    add(bytes, start, end) {
      if (current === null) throw new ReaderError('PGOUTPUT_INVALID', 'a streamed message outside of a stream block');
      if (bytes[start] === ORIGIN) return null;
      const length = end - start;
      const need = LENGTH_BYTES + length;
      const part = roomFor(current, need);
      const at = part.used;
      part.buffer.writeUInt32BE(length, at);
      bytes.copy(part.buffer, at + LENGTH_BYTES, start, end);
      commitRoom(current, part, need);
      held += need;
      return held > bytesMax ? spillLargest() : null;
    },
    abort(xid, subXid) {
      const streamed = transactions.get(xid);
      if (streamed === undefined) return null;
      if (xid === subXid) return forget(xid, streamed);
      streamed.aborted.add(subXid);
      return null;
    },
    async *take(xid) {
      const streamed = transactions.get(xid);
      // Nothing of it was ours: the server streams empty transactions, too.
      if (streamed === undefined) return;
      let rest: Buffer = Buffer.alloc(0);
      for await (const block of blocksOf(streamed)) {
        const bytes = rest.length === 0 ? block : Buffer.concat([rest, block]);
        const { ranges, at } = messagesIn(bytes, streamed.aborted);
        rest = bytes.subarray(at);
        if (ranges.length > 0) yield { bytes, ranges };
      }
      if (rest.length > 0) throw new ReaderError('PGOUTPUT_INVALID', 'a streamed transaction ends inside a message');
      await forget(xid, streamed);
    },
    async close() {
      for (const [xid, streamed] of transactions) await forget(xid, streamed).catch(() => undefined);
      current = null;
    },
  };
}

interface Room {
  readonly buffer: Buffer;
  readonly used: number;
}

const rooms = new WeakMap<Streamed, { buffer: Buffer; used: number }>();

/** Room for one more message at the end of the newest part. */
function roomFor(streamed: Streamed, need: number): Room {
  const known = rooms.get(streamed);
  if (known !== undefined && streamed.parts.length > 0 && known.used + need <= known.buffer.length) return known;
  const made = { buffer: Buffer.allocUnsafeSlow(Math.max(PART_BYTES, need)), used: 0 };
  rooms.set(streamed, made);
  streamed.parts.push(made.buffer.subarray(0, 0));
  return made;
}

function commitRoom(streamed: Streamed, room: Room, need: number): void {
  const used = room.used + need;
  rooms.set(streamed, { buffer: room.buffer, used });
  streamed.parts[streamed.parts.length - 1] = room.buffer.subarray(0, used);
  streamed.bytes += need;
}

/** Whole messages of a run, their transaction ids taken out: the tag moves up to where the id ended. */
function messagesIn(bytes: Buffer, aborted: ReadonlySet<number>): { readonly ranges: number[]; readonly at: number } {
  const ranges: number[] = [];
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length) {
    const length = bytes.readUInt32BE(at);
    const start = at + LENGTH_BYTES;
    const end = start + length;
    if (end > bytes.length) break;
    if (length <= XID_BYTES) throw new ReaderError('PGOUTPUT_INVALID', 'a streamed message without its transaction');
    if (aborted.size === 0 || !aborted.has(bytes.readUInt32BE(start + 1))) {
      bytes[start + XID_BYTES] = bytes[start] as number;
      ranges.push(start + XID_BYTES, end);
    }
    at = end;
  }
  return { ranges, at };
}
