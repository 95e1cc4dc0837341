/**
 * PostgreSQL's message framing, from socket chunks: byte tag, int32 length (with itself), body.
 * Source: PostgreSQL docs, "Message Formats". Pure; frames inside one chunk are passed on without a copy, a frame over
 * several chunks is put together once, whatever their number.
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

  const drain = (bytes: Buffer): void => {
    let at = 0;
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

  return {
    push(chunk) {
      if (pending === 0) {
        drain(chunk);
        return;
      }
      parts.push(chunk);
      pending += chunk.length;
      if (wanted === 0 && pending >= HEADER_BYTES) {
        const joined = Buffer.concat(parts, pending);
        parts = [joined];
        wanted = frameBytes(joined, 0);
      }
      if (wanted === 0 || pending < wanted) return;
      const joined = Buffer.concat(parts, pending);
      parts = [];
      pending = 0;
      wanted = 0;
      drain(joined);
    },
    get pendingBytes() {
      return pending;
    },
  };
}
