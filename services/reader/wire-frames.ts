/**
 * PostgreSQL's message framing, from socket chunks: byte tag, int32 length (with itself), body.
 * Source: PostgreSQL docs, "Message Formats". Pure; frames inside one chunk are passed on without a copy, a frame over
 * several chunks is put together once, whatever their number, and nothing else of them.
 */
import { ReaderError } from './reader-error.ts';

/** Body bytes[start .. end). The bytes belong to the receiver: nobody writes to them again. */
export type FrameHandler = (tag: number, bytes: Buffer, start: number, end: number) => void;

export interface FrameSplitter {
  push(chunk: Buffer): void;
  /** Bytes of a frame that is not complete. */
  readonly pendingBytes: number;
}

/** PostgreSQL's own limit for one message is 1 GB. */
const FRAME_BYTES_MAX = 0x3fff_ffff + 64;
const HEADER_BYTES = 5;

export function createFrameSplitter(handle: FrameHandler): FrameSplitter {
  let parts: Buffer[] = [];
  let pending = 0;
  /** Bytes that the frame in work needs in all; unknown (0) while its header is incomplete. */
  let wanted = 0;

  const frameBytes = (bytes: Buffer, at: number): number => {
    const length = bytes.readUInt32BE(at + 1);
    if (length < 4 || length > FRAME_BYTES_MAX) {
      throw new ReaderError('SOURCE_LOST', `the connection carries no PostgreSQL messages (a length of ${length})`);
    }
    return length + 1;
  };

  const drain = (bytes: Buffer, from: number): void => {
    let at = from;
    while (bytes.length - at >= HEADER_BYTES) {
      const total = frameBytes(bytes, at);
      if (bytes.length - at < total) {
        wanted = total;
        break;
      }
      handle(bytes[at] as number, bytes, at + HEADER_BYTES, at + total);
      at += total;
    }
    if (at < bytes.length) {
      parts = [bytes.subarray(at)];
      pending = bytes.length - at;
    }
  };

  /** Adds to the frame in work what it lacks of its header, then of itself. Returns where the rest of the chunk begins. */
  const complete = (chunk: Buffer): number => {
    let at = 0;
    while (pending > 0) {
      const goal = wanted === 0 ? HEADER_BYTES : wanted;
      const taken = Math.min(goal - pending, chunk.length - at);
      if (taken > 0) parts.push(chunk.subarray(at, at + taken));
      pending += taken;
      at += taken;
      if (pending < goal) break;
      const joined = Buffer.concat(parts, pending);
      if (wanted === 0) {
        parts = [joined];
        wanted = frameBytes(joined, 0);
        continue;
      }
      parts = [];
      pending = 0;
      wanted = 0;
      handle(joined[0] as number, joined, HEADER_BYTES, joined.length);
    }
    return at;
  };

  return {
    push(chunk) {
      const at = complete(chunk);
      if (at < chunk.length) drain(chunk, at);
    },
    get pendingBytes() {
      return pending;
    },
  };
}
