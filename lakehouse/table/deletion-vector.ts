/**
 * Deletion vectors: which physical rows of a data file are gone (PROTOCOL.md, "Deletion Vectors"). One `.bin` file holds the
 * vectors of a whole commit: a version byte, then a vector: int32 big-endian size, bitmap, int32 big-endian CRC-32 of it.
 */
import { crc32 } from 'node:zlib';
import { getWithRetry } from '../store/retry.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import type { DeletionVectorDescriptor } from './deletion-vector-descriptor.ts';
import { keyOfPath } from './file-path.ts';
import { decodeRowBitmap, encodeRowBitmap, type RowSet } from './row-bitmap.ts';
import { TableError } from './table-error.ts';
import { decodeZ85, encodeZ85 } from './z85.ts';

const FORMAT_VERSION = 1;
/** Characters of the z85 uuid at the end of a `u` path; what stands before is a directory. */
const UUID_CHARS = 20;

/** Key of the vector's file below the table root, null for an inline vector or a file outside the table. */
export function deletionVectorKey(descriptor: DeletionVectorDescriptor, tableUri: string): string | null {
  const { storageType, pathOrInlineDv } = descriptor;
  if (storageType === 'i') return null;
  if (storageType === 'p') return keyOfPath(pathOrInlineDv, tableUri);
  const prefix = pathOrInlineDv.slice(0, -UUID_CHARS);
  const hex = Buffer.from(decodeZ85(pathOrInlineDv.slice(-UUID_CHARS))).toString('hex');
  const uuid = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
  return `${prefix === '' ? '' : `${prefix}/`}deletion_vector_${uuid}.bin`;
}

/**
 * The rows that a descriptor marks, ascending. Checked: version, size, CRC-32, cardinality.
 * @param outside reads a file that lies outside the table (a shallow clone's); without it such a vector is refused
 * @throws TableError DATA_FILE_MISSING | DATA_FILE_CORRUPT naming the vector's file; StoreError
 */
export async function readDeletionVector(
  store: ObjectStore,
  descriptor: DeletionVectorDescriptor,
  outside?: (uri: string, start: number, end: number) => Promise<Uint8Array>,
): Promise<RowSet> {
  const fail = (why: string, cause?: unknown): TableError => {
    const file = descriptor.storageType === 'i' ? '(inline vector)' : nameOf(descriptor, store.uri);
    const message = `a deletion vector cannot be read: ${why}; run fsck`;
    return new TableError('DATA_FILE_CORRUPT', { table: store.uri, file }, message, { cause });
  };
  let bitmap: Uint8Array;
  if (descriptor.storageType === 'i') {
    try {
      bitmap = decodeZ85(descriptor.pathOrInlineDv).subarray(0, descriptor.sizeInBytes);
    } catch (error) {
      throw fail('it is no z85 text', error);
    }
  } else bitmap = checkFrame(await readFrame(store, descriptor, outside), descriptor, fail);
  let rows: RowSet;
  try {
    rows = decodeRowBitmap(bitmap);
  } catch (error) {
    throw fail(error instanceof RangeError ? error.message : 'it is no bitmap', error);
  }
  if (BigInt(rows.length) !== descriptor.cardinality)
    throw fail(`it marks ${rows.length} rows, the log says ${descriptor.cardinality}`);
  return rows;
}

function nameOf(descriptor: DeletionVectorDescriptor, tableUri: string): string {
  try {
    return deletionVectorKey(descriptor, tableUri) ?? descriptor.pathOrInlineDv;
  } catch {
    return descriptor.pathOrInlineDv;
  }
}

/** Size field, bitmap and CRC as they stand in the file. */
async function readFrame(
  store: ObjectStore,
  descriptor: DeletionVectorDescriptor,
  outside: ((uri: string, start: number, end: number) => Promise<Uint8Array>) | undefined,
): Promise<Uint8Array> {
  const start = descriptor.offset ?? FORMAT_VERSION;
  const end = start + 4 + descriptor.sizeInBytes + 4;
  const place = { table: store.uri, file: nameOf(descriptor, store.uri) };
  const key = (() => {
    try {
      return deletionVectorKey(descriptor, store.uri);
    } catch (error) {
      throw new TableError('DATA_FILE_CORRUPT', place, 'the name of a deletion vector is no z85 uuid', {
        cause: error,
      });
    }
  })();
  if (key === null) {
    if (outside !== undefined) return outside(descriptor.pathOrInlineDv, start, end);
    throw new TableError(
      'PROTOCOL_UNSUPPORTED',
      place,
      'a deletion vector lies outside of the table, which is a shallow clone: this version reads such a table and does not rewrite it',
    );
  }
  try {
    return await getWithRetry(store, key, { start, end });
  } catch (error) {
    if (error instanceof StoreError && error.code === 'STORE_NOT_FOUND')
      throw new TableError('DATA_FILE_MISSING', place, 'a deletion vector file is gone; run fsck', { cause: error });
    if (error instanceof StoreError && error.code === 'STORE_TRUNCATED')
      throw new TableError('DATA_FILE_CORRUPT', place, 'a deletion vector file is cut short', { cause: error });
    throw error;
  }
}

function checkFrame(
  frame: Uint8Array,
  descriptor: DeletionVectorDescriptor,
  fail: (why: string) => TableError,
): Uint8Array {
  const size = descriptor.sizeInBytes;
  if (frame.byteLength < size + 8) throw fail('its file is cut short');
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (view.getInt32(0) !== size) throw fail(`its file says ${view.getInt32(0)} bytes, the log ${size}`);
  const bitmap = frame.subarray(4, 4 + size);
  if (crc32(bitmap) !== view.getUint32(4 + size)) throw fail('its checksum is wrong');
  return bitmap;
}

export interface DeletionVectorFile {
  /** Key below the table root. */
  readonly key: string;
  readonly bytes: Uint8Array;
  /** One a vector, in the order given. */
  readonly descriptors: readonly DeletionVectorDescriptor[];
}

/**
 * One new file for all vectors of a commit.
 * @param uuid canonical lower-case uuid, new for this file: a vector file is never appended to
 */
export function encodeDeletionVectors(vectors: readonly RowSet[], uuid: string): DeletionVectorFile {
  const bitmaps = vectors.map(encodeRowBitmap);
  const bytes = new Uint8Array(bitmaps.reduce((size, bitmap) => size + bitmap.byteLength + 8, 1));
  const view = new DataView(bytes.buffer);
  bytes[0] = FORMAT_VERSION;
  const pathOrInlineDv = encodeZ85(Buffer.from(uuid.replaceAll('-', ''), 'hex'));
  let at = 1;
  const descriptors = bitmaps.map((bitmap, i): DeletionVectorDescriptor => {
    const offset = at;
    view.setInt32(at, bitmap.byteLength);
    bytes.set(bitmap, at + 4);
    view.setUint32(at + 4 + bitmap.byteLength, crc32(bitmap));
    at += bitmap.byteLength + 8;
    const cardinality = BigInt(vectors[i]?.length ?? 0);
    return { storageType: 'u', pathOrInlineDv, offset, sizeInBytes: bitmap.byteLength, cardinality };
  });
  return { key: `deletion_vector_${uuid}.bin`, bytes, descriptors };
}
