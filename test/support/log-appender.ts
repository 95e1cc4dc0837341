/** A reader's appender over a log writer of the test's own, from a position at the beginning. */
import type { Mark } from '../../services/log/event.ts';
import type { LogWriter, NextOffsets, OutgoingRecord } from '../../services/log/log.ts';
import type { Lsn } from '../../services/log/position.ts';
import { createLogAppender, type LogAppender } from '../../services/reader/log-appender.ts';
import type { ReaderPosition } from '../../services/reader/reader-state.ts';

const IDENTITY = { logId: 'log', systemIdentifier: '1', timeline: 1, database: 'shop', slot: 'shop' };

export const START: ReaderPosition = {
  ...IDENTITY,
  epoch: 1,
  lsn: 1n as Lsn,
  ord: 0,
  open: false,
  confirmLsn: 1n as Lsn,
  sequence: 0,
  bytes: 0n,
  sourceTimeMicros: 0n,
  unseenXids: [],
};

export function appenderOver(
  append: LogWriter['append'],
  { offsets = new Map(), clock }: { readonly offsets?: NextOffsets; readonly clock: () => number },
): LogAppender {
  return createLogAppender({
    name: 'shop',
    writer: { recordBytesMax: 1000, append, close: async () => undefined },
    identity: IDENTITY,
    position: START,
    offsets,
    unseenXids: () => [],
    snapshotting: () => [],
    standing: () => [],
    clock,
    afterAppend: async () => undefined,
  });
}

/** The marks among control records. */
export function marksIn(records: readonly OutgoingRecord[]): Mark[] {
  return records.flatMap(({ topic, value }) =>
    topic.endsWith('__progress') && value !== null ? [JSON.parse(value.toString()) as Mark] : [],
  );
}
