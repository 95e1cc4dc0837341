/**
 * Segment files of the embedded log: `segments/<number>.seg`, chunks one behind the other. One writer fills one segment at
 * a time, and no two writers ever the same one, so a writer that was overtaken cannot damage what its successor writes.
 * What counts as written is what the index names; bytes beyond that are left over from a crash and mean nothing.
 */
import { mkdir, open, rm, statfs, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { LogError } from './log.ts';

/** Bytes handed to the kernel in one call. */
const WRITE_BYTES_MAX = 8 * 1024 * 1024;

export interface SegmentWriter {
  readonly id: number;
  readonly file: FileHandle;
  /** Where the next chunk goes: the end of what the index names. */
  end: number;
}

export const segmentFile = (directory: string, id: number): string =>
  join(directory, 'segments', `${String(id).padStart(10, '0')}.seg`);

export async function createSegment(directory: string, id: number): Promise<SegmentWriter> {
  const folder = join(directory, 'segments');
  try {
    await mkdir(folder, { recursive: true });
    const file = await open(segmentFile(directory, id), 'w');
    const entry = await open(folder, 'r');
    try {
      // The file's name must survive a power cut as well as its bytes.
      await entry.sync();
    } finally {
      await entry.close();
    }
    return { id, file, end: 0 };
  } catch (cause) {
    throw await storageError(directory, 'a segment cannot be created', cause);
  }
}

/** Writes chunks behind each other at the segment's end, and resolves when they are on disk. The end does not move. */
export async function writeChunks(directory: string, segment: SegmentWriter, chunks: readonly Buffer[]): Promise<void> {
  try {
    let position = segment.end;
    let group: Buffer[] = [];
    let groupBytes = 0;
    for (const chunk of chunks) {
      group.push(chunk);
      groupBytes += chunk.length;
      if (groupBytes < WRITE_BYTES_MAX && group.length < 512) continue;
      await writeAll(segment.file, group, groupBytes, position);
      position += groupBytes;
      group = [];
      groupBytes = 0;
    }
    if (groupBytes > 0) await writeAll(segment.file, group, groupBytes, position);
    await segment.file.datasync();
  } catch (cause) {
    // What was written of it is given back, so that a full disk has room again for the index.
    await segment.file.truncate(segment.end).catch(() => undefined);
    throw await storageError(directory, 'an append cannot be written', cause);
  }
}

async function writeAll(file: FileHandle, group: Buffer[], bytes: number, position: number): Promise<void> {
  const first = group[0];
  const { bytesWritten } =
    group.length === 1 && first !== undefined
      ? await file.write(first, 0, first.length, position)
      : await file.writev(group, position);
  if (bytesWritten === bytes) return;
  // A short write: the rest, in one piece. A full disk then says so by its own error.
  const rest = Buffer.concat(group).subarray(bytesWritten);
  for (let at = 0; at < rest.length;) {
    const more = await file.write(rest, at, rest.length - at, position + bytesWritten + at);
    if (more.bytesWritten === 0) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    at += more.bytesWritten;
  }
}

/** Null when the file is gone: retention took it since the index was read. */
export async function openSegment(directory: string, id: number): Promise<FileHandle | null> {
  try {
    return await open(segmentFile(directory, id), 'r');
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return null;
    throw await storageError(directory, `segment ${id} cannot be opened`, cause);
  }
}

/** @param room where the chunk may be put, if it fits */
export async function readChunk(
  file: FileHandle,
  position: number,
  length: number,
  room: Buffer | null = null,
): Promise<Buffer> {
  const bytes = room !== null && room.length >= length ? room : Buffer.allocUnsafeSlow(length);
  let read = 0;
  while (read < length) {
    const { bytesRead } = await file.read(bytes, read, length - read, position + read);
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return bytes.subarray(0, read);
}

export async function deleteSegment(directory: string, id: number): Promise<void> {
  await rm(segmentFile(directory, id), { force: true });
}

const FULL_CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
/** LMDB reports a short write as EIO: below so much free space it is taken for a full disk. */
const NEARLY_FULL_BYTES = 4 * 1024 * 1024;

/** The typed error for a failed write or open under `directory`. */
export async function storageError(directory: string, what: string, cause: unknown): Promise<LogError> {
  if (cause instanceof LogError) return cause;
  const code = codeOf(cause);
  const text = cause instanceof Error ? cause.message : String(cause);
  const full =
    FULL_CODES.has(code) || /MDB_MAP_FULL/.test(text) || (isInputOutput(cause) && (await nearlyFull(directory)));
  if (full) {
    return new LogError(
      'LOG_DISK_FULL',
      `the embedded log ${directory}: ${what}, the disk is full; nothing is lost, free space and it goes on`,
      { cause, retriable: true },
    );
  }
  return new LogError('LOG_UNAVAILABLE', `the embedded log ${directory}: ${what}: ${text}`, { cause });
}

function codeOf(cause: unknown): string {
  const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : '';
  return String(code);
}

function isInputOutput(cause: unknown): boolean {
  return codeOf(cause) === '5' || codeOf(cause) === 'EIO';
}

async function nearlyFull(directory: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize < NEARLY_FULL_BYTES;
  } catch {
    return false;
  }
}
