/**
 * Topics that another writer fills (Debezium), as a source of the stream without our reader: no marks, no shapes in the log.
 * Shapes come from the caller (the catalog, or contracts); cuts are made from the topics' ends. Without marks there is no
 * common position of several tables, so `consistent.json` is not written: every cut counts as inside a transaction.
 */
import type { DebeziumModes } from '../log/debezium-cell.ts';
import { createDebeziumDecoder, decodeDebeziumRecord } from '../log/debezium-decode.ts';
import { MARK_FORMAT } from '../log/event.ts';
import type { Mark, TableShape } from '../log/event.ts';
import type { LogReader } from '../log/log.ts';
import type { LogOffset, Lsn } from '../log/position.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { createShapeFeed, type ShapeFeed } from './shape-feed.ts';

export interface ForeignTable {
  readonly topic: string;
  readonly shape: TableShape;
  /** How the connector is configured: numeric, temporal and binary modes, its TOAST placeholder. */
  readonly modes?: Partial<DebeziumModes>;
}

export function foreignDecoder({ shape, modes }: ForeignTable): RecordDecoder {
  const decoder = createDebeziumDecoder(shape, modes ?? {});
  return (record) => decodeDebeziumRecord(decoder, record.key, record.value, record);
}

function fixedShapes(tables: readonly ForeignTable[]): ShapeFeed {
  const shapes = tables.map(({ shape }) => shape);
  return {
    refresh: () => Promise.resolve(),
    byVersion: (version) => shapes.find((shape) => shape.version === version) ?? null,
    tables: () => shapes,
    followed: () => shapes,
    latest: (schema, table) => shapes.find((shape) => shape.schema === schema && shape.table === table) ?? null,
  };
}

/** Of the topics of Debezium where there are any, else as the reader tells them in its own. */
export const shapesOf = (reader: LogReader, name: string, foreign: readonly ForeignTable[] | null): ShapeFeed =>
  foreign === null ? createShapeFeed(reader, name) : fixedShapes(foreign);

export interface CutMakerOptions {
  readonly reader: LogReader;
  readonly logId: string;
  readonly topics: readonly string[];
  /** Offsets of a topic between two cuts, at most. */
  readonly stepOffsets: number;
  readonly now: () => number;
}

const PARTITIONS_EVERY_MS = 5_000;

/** Each call looks at the topics' ends and gives the cuts that lead there; none where nothing was written. */
export function createCutMaker(options: CutMakerOptions): (above: number) => Promise<Mark[]> {
  const reached = new Map<string, Map<number, LogOffset>>();
  let sequence = 0;
  let askAt = 0;

  return async (above) => {
    const marks: Mark[] = [];
    const ends = new Map<string, ReadonlyMap<number, { readonly earliest: LogOffset; readonly end: LogOffset }>>();
    // No mark says that a topic has more partitions: the brokers are asked again and again, once for all topics.
    let fresh = options.now() >= askAt;
    if (fresh) askAt = options.now() + PARTITIONS_EVERY_MS;
    for (const topic of options.topics) {
      ends.set(topic, await options.reader.bounds(topic, { fresh }));
      fresh = false;
    }
    for (;;) {
      const nextOffsets: Record<string, Record<number, LogOffset>> = {};
      for (const [topic, bounds] of ends) {
        const moved = advance(reached, topic, bounds, options.stepOffsets);
        if (moved !== null) nextOffsets[topic] = moved;
      }
      if (Object.keys(nextOffsets).length === 0) return marks;
      // Time keeps the numbers rising over restarts; what the tables have committed, over a clock that was set back.
      sequence = Math.max(sequence + 1, above + 1, options.now());
      marks.push(markOf(options.logId, sequence, nextOffsets, options.now()));
    }
  };
}

function advance(
  reached: Map<string, Map<number, LogOffset>>,
  topic: string,
  bounds: ReadonlyMap<number, { readonly earliest: LogOffset; readonly end: LogOffset }>,
  stepOffsets: number,
): Record<number, LogOffset> | null {
  const known = reached.get(topic) ?? new Map<number, LogOffset>();
  reached.set(topic, known);
  const moved: Record<number, LogOffset> = {};
  let any = false;
  const share = BigInt(Math.max(1, Math.floor(stepOffsets / Math.max(1, bounds.size))));
  for (const [partition, { earliest, end }] of bounds) {
    const at = known.get(partition) ?? earliest;
    if (end <= at) continue;
    const next = (end - at > share ? at + share : end) as LogOffset;
    known.set(partition, next);
    moved[partition] = next;
    any = true;
  }
  return any ? moved : null;
}

function markOf(logId: string, sequence: number, nextOffsets: Mark['nextOffsets'], atMs: number): Mark {
  return {
    formatVersion: MARK_FORMAT,
    sequence,
    epoch: 1,
    logId,
    lsn: 0n as Lsn,
    ord: 0,
    confirmLsn: 0n as Lsn,
    open: true,
    nextOffsets,
    full: false,
    bytes: 0n,
    snapshotting: [],
    sourceTimeMicros: BigInt(atMs) * 1000n,
    atMs,
  };
}
