/** Where a Parquet file's bytes come from: whole bytes in memory, or ranges of a stored object. */
import { getWithRetry } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';

export interface ByteSource {
  /** Object key or URI, for errors. */
  readonly name: string;
  readonly sizeBytes: number;
  read(start: number, end: number): Promise<Uint8Array>;
}

/** Neighbouring ranges closer than this travel in one request: a request costs more than the bytes between. */
const COALESCE_GAP_BYTES = 128 * 1024;

export function bytesSource(name: string, bytes: Uint8Array): ByteSource {
  return {
    name,
    sizeBytes: bytes.byteLength,
    read: (start, end) => Promise.resolve(bytes.subarray(start, end)),
  };
}

/** Ranges of `key`; `sizeBytes` as the log's add action says it, so that no HEAD request is needed. */
export function storeSource(store: ObjectStore, key: string, sizeBytes: number): ByteSource {
  return { name: key, sizeBytes, read: (start, end) => getWithRetry(store, key, { start, end }) };
}

/** The same source with its last `tail.byteLength` bytes at hand. */
export function withTail(source: ByteSource, tail: Uint8Array): ByteSource {
  const tailStart = source.sizeBytes - tail.byteLength;
  return {
    name: source.name,
    sizeBytes: source.sizeBytes,
    read: (start, end) =>
      start >= tailStart ? Promise.resolve(tail.subarray(start - tailStart, end - tailStart)) : source.read(start, end),
  };
}

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Bytes of each span, in the given order, fetched in as few requests as the gaps allow, side by side. */
export async function readSpans(source: ByteSource, spans: readonly Span[]): Promise<Uint8Array[]> {
  const order = spans.map((_, i) => i).sort((a, b) => (spans[a]?.start ?? 0) - (spans[b]?.start ?? 0));
  const out: Uint8Array[] = spans.map(() => new Uint8Array(0));
  const requests: { start: number; end: number; members: number[] }[] = [];
  for (const i of order) {
    const span = spans[i];
    if (span === undefined) continue;
    const last = requests.at(-1);
    if (last !== undefined && span.start <= last.end + COALESCE_GAP_BYTES) {
      last.end = Math.max(last.end, span.end);
      last.members.push(i);
    } else requests.push({ start: span.start, end: span.end, members: [i] });
  }
  await Promise.all(
    requests.map(async (request) => {
      const bytes = await source.read(request.start, request.end);
      for (const i of request.members) {
        const span = spans[i];
        if (span !== undefined) out[i] = bytes.subarray(span.start - request.start, span.end - request.start);
      }
    }),
  );
  return out;
}
