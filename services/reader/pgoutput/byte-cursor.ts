/** Reads the integers and strings of PostgreSQL's wire protocol (big-endian, strings end with a zero byte). */
import { ReaderError } from '../reader-error.ts';

export interface ByteCursor {
  bytes: Buffer;
  at: number;
  /** First byte behind the message. */
  end: number;
}

export function malformed(what: string): ReaderError {
  return new ReaderError('PGOUTPUT_INVALID', `malformed pgoutput message: ${what}`);
}

function need(cursor: ByteCursor, count: number): number {
  const { at } = cursor;
  if (at + count > cursor.end) throw malformed(`${count} bytes expected, ${cursor.end - at} left`);
  cursor.at = at + count;
  return at;
}

export function readByte(cursor: ByteCursor): number {
  const at = need(cursor, 1);
  return cursor.bytes[at] as number;
}

export function readUint16(cursor: ByteCursor): number {
  const at = need(cursor, 2);
  return ((cursor.bytes[at] as number) << 8) | (cursor.bytes[at + 1] as number);
}

export function readInt32(cursor: ByteCursor): number {
  const at = need(cursor, 4);
  const { bytes } = cursor;
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  );
}

export function readUint32(cursor: ByteCursor): number {
  return readInt32(cursor) >>> 0;
}

export function readUint64(cursor: ByteCursor): bigint {
  return cursor.bytes.readBigUInt64BE(need(cursor, 8));
}

export function readInt64(cursor: ByteCursor): bigint {
  return cursor.bytes.readBigInt64BE(need(cursor, 8));
}

export function readString(cursor: ByteCursor): string {
  const stop = cursor.bytes.indexOf(0, cursor.at);
  if (stop < 0 || stop >= cursor.end) throw malformed('a string without its end');
  const text = cursor.bytes.toString('utf8', cursor.at, stop);
  cursor.at = stop + 1;
  return text;
}

export function readBytes(cursor: ByteCursor, count: number): Buffer {
  const at = need(cursor, count);
  return cursor.bytes.subarray(at, at + count);
}
