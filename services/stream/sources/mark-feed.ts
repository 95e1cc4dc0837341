/** Reads `<name>.__progress` from an offset and follows it: each mark, in order, with its own offset. */
import { MARK_FORMAT } from '../../log/event.ts';
import type { Mark } from '../../log/event.ts';
import { LogError } from '../../log/log.ts';
import type { LogReader } from '../../log/log.ts';
import { parseLsn } from '../../log/position.ts';
import type { LogOffset, Lsn } from '../../log/position.ts';
import { progressTopic } from '../../log/topics.ts';
import { StreamError } from '../stream-error.ts';

export interface MarkFeedOptions {
  readonly reader: LogReader;
  readonly name: string;
  readonly from: LogOffset;
  readonly signal: AbortSignal;
  readonly onMark: (mark: Mark, offset: bigint) => Promise<void>;
  /** All marks that came together have been delivered. */
  readonly onBatch?: () => void;
}

/** Offsets of the topic, or null while it does not exist. */
export async function progressBounds(
  reader: LogReader,
  name: string,
): Promise<{ readonly earliest: LogOffset; readonly end: LogOffset } | null> {
  try {
    return (await reader.bounds(progressTopic(name))).get(0) ?? null;
  } catch (error) {
    if (error instanceof LogError && error.code === 'LOG_TOPIC_MISSING') return null;
    throw error;
  }
}

/** What stands there now, up to `to`. */
export async function readMarks(options: Omit<MarkFeedOptions, 'signal'> & { readonly to: LogOffset }): Promise<void> {
  const { reader, name, from, to } = options;
  for await (const batch of reader.read(progressTopic(name), 0, from, to))
    for (let i = 0; i < batch.offsets.length; i++)
      await deliver(options, batch.values[i] ?? null, batch.offsets[i] ?? 0n);
}

/** Runs until the signal. */
export async function followMarks(options: MarkFeedOptions): Promise<void> {
  const { reader, name, from, signal } = options;
  for await (const batch of reader.follow(progressTopic(name), 0, from, { signal })) {
    for (let i = 0; i < batch.offsets.length; i++) {
      if (signal.aborted) return;
      await deliver(options, batch.values[i] ?? null, batch.offsets[i] ?? 0n);
    }
    options.onBatch?.();
  }
}

async function deliver(
  { name, onMark }: Pick<MarkFeedOptions, 'name' | 'onMark'>,
  value: Buffer | null,
  offset: bigint,
): Promise<void> {
  if (value !== null) await onMark(decodeMark(value, name), offset);
}

type Json = Record<string, unknown>;

function text(value: unknown, fallback: string): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : fallback;
}

/** LSNs stand as `16/B374D848`, other 64-bit numbers as decimal text (services/log, mark records). */
export function decodeMark(value: Buffer, name: string): Mark {
  const body = JSON.parse(value.toString('utf8')) as Json;
  const formatVersion = Number(body['formatVersion']);
  if (!(formatVersion <= MARK_FORMAT))
    throw new StreamError(
      'FORMAT_NEWER',
      `topic ${progressTopic(name)}: a mark has format ${String(body['formatVersion'])}`,
      'upgrade the stream before the reader',
    );
  const nextOffsets: Record<string, Record<number, LogOffset>> = {};
  for (const [topic, partitions] of Object.entries((body['nextOffsets'] ?? {}) as Record<string, Json>)) {
    const offsets: Record<number, LogOffset> = {};
    for (const [partition, next] of Object.entries(partitions))
      offsets[Number(partition)] = BigInt(String(next)) as LogOffset;
    nextOffsets[topic] = offsets;
  }
  return {
    formatVersion,
    sequence: Number(body['sequence']),
    epoch: Number(body['epoch']),
    logId: String(body['logId']),
    lsn: lsnOf(body['lsn']),
    ord: Number(body['ord']),
    confirmLsn: lsnOf(body['confirmLsn']),
    open: body['open'] === true,
    nextOffsets,
    full: body['full'] === true,
    bytes: BigInt(text(body['bytes'], '0')),
    snapshotting: (body['snapshotting'] ?? []) as string[],
    ...(Array.isArray(body['standing']) ? { standing: body['standing'] as string[] } : {}),
    ...(Array.isArray(body['resets']) ? { resets: body['resets'] as string[] } : {}),
    ...(Array.isArray(body['grew']) ? { grew: body['grew'] as string[] } : {}),
    sourceTimeMicros: BigInt(text(body['sourceTimeMicros'], '0')),
    atMs: Number(body['atMs'] ?? 0),
  };
}

function lsnOf(value: unknown): Lsn {
  const written = text(value, '0');
  return written.includes('/') ? parseLsn(written) : (BigInt(written) as Lsn);
}
