/**
 * Batches to the log, one transaction each, with the mark and the reader's state in the same transaction (DESIGN invariants
 * 2 and 3): after a kill either all of it is there or nothing, so the position that is read back is exactly what was written.
 *
 * One append is in flight at a time; meanwhile the next batch fills.
 */
import { MARK_FORMAT, type Mark, type TableShape } from '../log/event.ts';
import type { LogWriter, NextOffsets, OutgoingRecord } from '../log/log.ts';
import type { LogOffset, Lsn } from '../log/position.ts';
import { markRecord } from './mark-record.ts';
import { createOutgoingBatch, type OutgoingBatch } from './outgoing-batch.ts';
import {
  positionRecord,
  shapeRecord,
  tableRecord,
  topicRecord,
  type ReaderPosition,
  type SourceIdentity,
  type TableState,
} from './reader-state.ts';

/** Where the batch ends in the source's order. */
export interface Cut {
  readonly lsn: Lsn;
  readonly ord: number;
  readonly open: boolean;
  readonly confirmLsn: Lsn;
  readonly sourceTimeMicros: bigint;
}

export interface LogAppender {
  readonly batch: OutgoingBatch;
  /** The log takes the rows of a chunk as blocks. */
  readonly rowBlocks: boolean;
  /** An append is in flight, or has failed. */
  readonly busy: boolean;
  readonly failed: boolean;
  readonly position: ReaderPosition;
  readonly lastMarkAtMs: number;
  /** Records and state waiting for the next append. */
  readonly dirty: boolean;
  noteShape(shape: TableShape): void;
  noteTable(table: TableState): void;
  /** Begins to append what is there; resolves when it is durable. Not to be called while `busy`. */
  flush(cut: Cut): Promise<void>;
  /** Resolves when everything noted until now is in the log. Rejects when an append failed. */
  saved(): Promise<void>;
  /** Nothing more will be appended: whoever waits for `saved` learns it. */
  abandon(error: Error): void;
  /** Resolves when no append is in flight. Rejects if the last one failed. */
  settled(): Promise<void>;
}

export interface AppenderOptions {
  readonly name: string;
  readonly writer: LogWriter;
  readonly identity: SourceIdentity;
  /** Position to go on from. */
  readonly position: ReaderPosition;
  /** Next offsets of all data topics at start. */
  readonly offsets: NextOffsets;
  /** Partitions of the data topics, as far as it was known at the last append. */
  readonly partitions?: ReadonlyMap<string, number>;
  readonly onPartitions?: (topic: string, count: number) => void;
  readonly unseenXids: () => Iterable<number>;
  readonly snapshotting: () => readonly string[];
  readonly standing: () => readonly string[];
  readonly clock: () => number;
  readonly afterAppend: (position: ReaderPosition) => Promise<void>;
}

/** A mark with all offsets once a minute, so that a new consumer need not read far back. */
const FULL_MARK_MS = 60_000;

export function createLogAppender(options: AppenderOptions): LogAppender {
  const { name, writer, offsets, clock } = options;
  let batch = createOutgoingBatch();
  let shapes: TableShape[] = [];
  let tables = new Map<string, TableState>();
  let { position } = options;
  let inFlight: Promise<void> | null = null;
  let failed = false;
  let lastFullMs = 0;
  /** Notes taken, and how many of them are durable. */
  let [noted, durable] = [0, 0];
  let abandoned: Error | null = null;
  let waiting: { readonly upTo: number; readonly settle: (error: unknown) => void }[] = [];
  const settleSaved = (error: unknown): void => {
    const ripe = waiting.filter(({ upTo }) => error !== null || upTo <= durable);
    waiting = waiting.filter((each) => !ripe.includes(each));
    for (const { settle } of ripe) settle(error);
  };
  let lastMarkAtMs = 0;
  const partitions = new Map(options.partitions);

  /** Topics with another number of partitions than they had at the mark before. */
  const countsNow = (assigned: NextOffsets): Map<string, number> => {
    const news = new Map<string, number>();
    for (const topic of assigned.keys()) {
      const count = writer.partitionsOf?.(topic) ?? null;
      if (count !== null && partitions.get(topic) !== count) news.set(topic, count);
    }
    return news;
  };

  const append = async (sent: OutgoingBatch, cut: Cut, states: readonly OutgoingRecord[]): Promise<void> => {
    await Promise.all(sent.claims);
    const atMs = clock();
    const full = atMs - lastFullMs >= FULL_MARK_MS;
    const next: ReaderPosition = {
      ...options.identity,
      epoch: position.epoch,
      lsn: cut.lsn,
      ord: cut.ord,
      open: cut.open,
      confirmLsn: cut.confirmLsn,
      sequence: position.sequence + 1,
      bytes: position.bytes + BigInt(sent.bytes),
      sourceTimeMicros: cut.sourceTimeMicros,
      unseenXids: [...options.unseenXids()],
    };
    const snapshotting = options.snapshotting();
    const standing = options.standing();
    let counts = new Map<string, number>();
    const hadRecords = new Set([...offsets].filter(([, ends]) => hasRecords(ends)).map(([topic]) => topic));
    // The log may ask again, with other offsets, when it had to try again: what it was told before then never was.
    let reached: NextOffsets = new Map();
    await writer.append(sent.records, (assigned) => {
      const resets = topicsBegunAnew(sent.records, offsets, assigned);
      reached = new Map(offsets);
      for (const [topic, ends] of assigned)
        reached.set(topic, new Map([...(resets.includes(topic) ? [] : (offsets.get(topic) ?? [])), ...ends]));
      counts = countsNow(assigned);
      // Of a topic that had no records before, nothing changes.
      const growths = [...counts.keys()].filter((topic) => hadRecords.has(topic));
      const mark: Mark = {
        formatVersion: MARK_FORMAT,
        sequence: next.sequence,
        epoch: next.epoch,
        logId: options.identity.logId,
        lsn: next.lsn,
        ord: next.ord,
        confirmLsn: next.confirmLsn,
        open: next.open,
        nextOffsets: plainOffsets(full ? reached : assigned),
        full,
        ...(resets.length === 0 ? {} : { resets }),
        ...(growths.length === 0 ? {} : { grew: growths }),
        bytes: next.bytes,
        snapshotting,
        ...(standing.length === 0 ? {} : { standing }),
        sourceTimeMicros: next.sourceTimeMicros,
        atMs,
      };
      const topics = [...counts].map(([topic, count]) => topicRecord(name, topic, count));
      return [...states, ...topics, positionRecord(name, next), markRecord(name, mark)];
    });
    for (const [topic, ends] of reached) offsets.set(topic, ends);
    for (const [topic, count] of counts) {
      partitions.set(topic, count);
      options.onPartitions?.(topic, count);
    }
    position = next;
    lastMarkAtMs = atMs;
    if (full) lastFullMs = atMs;
    await options.afterAppend(next);
  };

  return {
    get batch() {
      return batch;
    },
    rowBlocks: writer.rowBlocks === true,
    get busy() {
      return inFlight !== null;
    },
    get failed() {
      return failed;
    },
    get position() {
      return position;
    },
    get lastMarkAtMs() {
      return lastMarkAtMs;
    },
    get dirty() {
      return batch.records.length > 0 || shapes.length > 0 || tables.size > 0;
    },
    noteShape(shape) {
      shapes.push(shape);
      noted++;
    },
    noteTable(table) {
      tables.set(`${table.schema}\0${table.table}`, table);
      noted++;
    },
    abandon(error) {
      abandoned = error;
      settleSaved(error);
    },
    saved() {
      if (abandoned !== null) return Promise.reject(abandoned);
      if (failed) return inFlight ?? Promise.resolve();
      if (noted === durable) return Promise.resolve();
      return new Promise((resolve, reject) => {
        waiting.push({ upTo: noted, settle: (error) => (error === null ? resolve() : reject(error as Error)) });
      });
    },
    async flush(cut) {
      const sent = batch;
      const sentNotes = noted;
      const states = [
        ...shapes.map((shape) => shapeRecord(name, shape)),
        ...[...tables.values()].map((table) => tableRecord(name, table)),
      ];
      batch = createOutgoingBatch();
      shapes = [];
      tables = new Map();
      const run = append(sent, cut, states);
      inFlight = run;
      try {
        await run;
      } catch (error) {
        failed = true;
        settleSaved(error);
        throw error;
      }
      inFlight = null;
      durable = sentNotes;
      settleSaved(null);
    },
    async settled() {
      await inFlight;
    },
  };
}

/**
 * Topics whose records were given lower offsets than the topic had reached. Partitions are summed: which record went to which
 * is the writer's to know, and a topic begins anew as a whole.
 */
export function topicsBegunAnew(
  records: readonly OutgoingRecord[],
  known: NextOffsets,
  assigned: NextOffsets,
): readonly string[] {
  const counts = new Map<string, bigint>();
  for (const { topic } of records) counts.set(topic, (counts.get(topic) ?? 0n) + 1n);
  const begun: string[] = [];
  for (const [topic, partitions] of assigned) {
    const before = known.get(topic);
    if (before === undefined) continue;
    let [first, expected] = [-(counts.get(topic) ?? 0n), 0n];
    for (const [partition, next] of partitions) {
      first += next;
      expected += before.get(partition) ?? 0n;
    }
    if (first < expected) begun.push(topic);
  }
  return begun;
}

function hasRecords(ends: ReadonlyMap<number, LogOffset>): boolean {
  for (const end of ends.values()) if (end > 0n) return true;
  return false;
}

function plainOffsets(offsets: NextOffsets): Mark['nextOffsets'] {
  const out: Record<string, Record<number, LogOffset>> = {};
  for (const [topic, partitions] of offsets) out[topic] = Object.fromEntries(partitions);
  return out;
}
