/**
 * The planner: which offset ranges of a table make the next batch. Pure.
 *
 * A batch ends at a cut (a resolved mark of the reader), so that each of its ends is a prefix of the source's total
 * order. It takes as many cuts as its limits allow, and at least one: marks come every 50,000 records at the latest, which
 * bounds the batch that a single cut makes.
 */
import type { LogOffset } from '../log/position.ts';

/** A place where a batch may end, as one topic sees it. */
export interface Cut {
  /** The mark's sequence number. */
  readonly sequence: number;
  readonly epoch: number;
  /** Next offsets of those partitions of the topic that moved since the cut before. */
  readonly nextOffsets: ReadonlyMap<number, LogOffset>;
  /** Records and value bytes of all topics up to here, cumulative; their ratio estimates the topic's bytes. */
  readonly totalBytes: bigint;
  readonly totalRecords: bigint;
  /** The topic grew just before: a key's records may stand in other partitions than up to here. */
  readonly grew?: boolean;
}

export interface PlanLimits {
  /** Offsets a batch, at most (but one cut at least). */
  readonly maxOffsetsPerTrigger: number;
  /** Value bytes a batch, at most (but one cut at least). */
  readonly batchBytesMax: number;
  /** No batch passes this mark: a barrier that all tables cut at. */
  readonly barrier: number | null;
}

export interface Planned {
  readonly cut: Cut;
  /** Partitions with something to read. */
  readonly from: ReadonlyMap<number, LogOffset>;
  readonly to: ReadonlyMap<number, LogOffset>;
  readonly offsets: number;
  readonly bytesEstimate: number;
}

/** Null when no cut moves the table beyond `position`. `cuts` rise by sequence and all lie above `position`. */
export function planBatch(
  position: ReadonlyMap<number, LogOffset>,
  cuts: readonly Cut[],
  limits: PlanLimits,
): Planned | null {
  const reached = new Map(position);
  let best = null as Planned | null;
  let previous: Cut | null = null;
  let bytes = 0;
  for (const cut of cuts) {
    if (limits.barrier !== null && cut.sequence > limits.barrier) break;
    if (best !== null && cut.epoch !== best.cut.epoch) break;
    // Partitions are read one after the other: only a batch in which each key has one partition keeps the keys' order.
    if (best !== null && cut.grew === true) break;
    let moved = 0;
    for (const [partition, next] of cut.nextOffsets) {
      const before = reached.get(partition) ?? (0n as LogOffset);
      if (next <= before) continue;
      moved += Number(next - before);
      reached.set(partition, next);
    }
    bytes += shareOfBytes(previous, cut, moved);
    previous = cut;
    if (moved === 0) {
      // Nothing of this table lies between the two marks: the batch may as well end at the later one.
      if (best !== null) best = withCut(best, cut);
      continue;
    }
    const offsets = (best?.offsets ?? 0) + moved;
    if (best !== null && (offsets > limits.maxOffsetsPerTrigger || bytes > limits.batchBytesMax)) break;
    best = { cut, ...moves(position, reached), offsets, bytesEstimate: bytes };
    if (offsets >= limits.maxOffsetsPerTrigger || bytes >= limits.batchBytesMax) break;
  }
  return best;
}

function withCut(planned: Planned, cut: Cut): Planned {
  return { ...planned, cut };
}

/** Bytes of `moved` records of this topic, by its share of the records between two marks. */
function shareOfBytes(previous: Cut | null, cut: Cut, moved: number): number {
  if (previous === null || moved === 0) return 0;
  const records = Number(cut.totalRecords - previous.totalRecords);
  const bytes = Number(cut.totalBytes - previous.totalBytes);
  return records <= 0 ? bytes : Math.ceil((bytes / records) * Math.min(moved, records));
}

function moves(
  position: ReadonlyMap<number, LogOffset>,
  reached: ReadonlyMap<number, LogOffset>,
): { from: Map<number, LogOffset>; to: Map<number, LogOffset> } {
  const from = new Map<number, LogOffset>();
  const to = new Map<number, LogOffset>();
  for (const [partition, next] of reached) {
    const start = position.get(partition) ?? (0n as LogOffset);
    if (next <= start) continue;
    from.set(partition, start);
    to.set(partition, next);
  }
  return { from, to };
}
