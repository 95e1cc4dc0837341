/**
 * Requests of the stream for rows of the source, on `<name>.__requests`, where reader and stream are processes of their own. A
 * request is durable before its sender counts it as sent, and repeated by the sender until the row has come, so the reader
 * takes what was written since it began and keeps no place. Reading a row twice changes nothing.
 */
import { LogError } from './log.ts';
import type { OutgoingRecord } from './log.ts';

export const ROW_REQUEST_FORMAT = 1;

export interface RowRequest {
  readonly schema: string;
  readonly table: string;
  /** PostgreSQL's texts of the key columns, in key order. */
  readonly keys: readonly (readonly string[])[];
}

export function requestTopic(name: string): string {
  return `${name}.__requests`;
}

export function rowRequestRecord(name: string, request: RowRequest): OutgoingRecord {
  const value = Buffer.from(JSON.stringify({ formatVersion: ROW_REQUEST_FORMAT, ...request }));
  return { topic: requestTopic(name), key: null, value, header: null, partition: 0 };
}

/** @throws LogError LOG_FORMAT_NEWER, LOG_CORRUPT */
export function decodeRowRequest(value: Buffer, name: string): RowRequest {
  let body: Partial<RowRequest> & { readonly formatVersion?: unknown };
  try {
    body = JSON.parse(value.toString('utf8')) as typeof body;
  } catch (cause) {
    throw new LogError('LOG_CORRUPT', `topic ${requestTopic(name)}: a request is not JSON`, { cause });
  }
  const { formatVersion, schema, table, keys } = body;
  if (typeof formatVersion === 'number' && formatVersion > ROW_REQUEST_FORMAT)
    throw new LogError(
      'LOG_FORMAT_NEWER',
      `topic ${requestTopic(name)}: a request of format ${formatVersion}; this version reads up to ${ROW_REQUEST_FORMAT}`,
    );
  const isKey = (key: unknown): boolean => Array.isArray(key) && key.every((cell) => typeof cell === 'string');
  if (typeof schema !== 'string' || typeof table !== 'string' || !Array.isArray(keys) || !keys.every(isKey))
    throw new LogError('LOG_CORRUPT', `topic ${requestTopic(name)}: a request names no table and keys`);
  return { schema, table, keys };
}
