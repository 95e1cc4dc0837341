/** A place of the log as the two halves of a service hand it to each other: numbers of 64 bits as text. */
import type { LogTail } from '../ingest/reposition.ts';
import type { LogOffset } from '../log/position.ts';
import { ConfigError } from '../runtime/errors.ts';

export interface LogTailText {
  readonly markSequence: number;
  readonly progressOffset: string;
  readonly nextOffsets: Readonly<Record<string, string>>;
}

export function tailText({ markSequence, progressOffset, nextOffsets }: LogTail): LogTailText {
  return {
    markSequence,
    progressOffset: String(progressOffset),
    nextOffsets: Object.fromEntries([...nextOffsets].map(([partition, next]) => [String(partition), String(next)])),
  };
}

/** @throws ConfigError */
export function tailOf(value: unknown): LogTail {
  const { markSequence, progressOffset, nextOffsets } = (value ?? {}) as Partial<LogTailText>;
  const isNumber = (text: unknown): text is string => typeof text === 'string' && /^\d{1,19}$/.test(text);
  const entries = Object.entries(nextOffsets ?? {});
  if (
    !Number.isSafeInteger(markSequence) ||
    !isNumber(progressOffset) ||
    entries.length === 0 ||
    !entries.every(([partition, next]) => /^\d+$/.test(partition) && isNumber(next))
  )
    throw new ConfigError("'tail' is no place of the log", 'give what log-tail answered');
  return {
    markSequence: markSequence ?? 0,
    progressOffset: BigInt(progressOffset),
    nextOffsets: new Map(entries.map(([partition, next]) => [Number(partition), BigInt(next) as LogOffset])),
  };
}
