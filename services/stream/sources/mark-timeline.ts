/**
 * The resolved marks of a pipeline, as the tables see them: from a position, the cuts that lie ahead. Bounded: when marks
 * pile up because a table is behind, those between which little was written are merged (a cut less, no record less).
 */
import type { Mark } from '../../log/event.ts';
import type { LogOffset } from '../../log/position.ts';
import type { Cut } from '../plan.ts';

/** Marks kept, at most, before they are thinned out. */
const MARKS_MAX = 20_000;
/** Marks are merged while a stretch holds fewer records than this. */
const STRETCH_RECORDS = 20_000n;

export interface TimelineMark {
  readonly mark: Mark;
  /** Offset of the mark's record in `__progress`. */
  readonly progressOffset: bigint;
  /** Next offsets of those topics and partitions that moved since the entry before. */
  readonly moved: ReadonlyMap<string, ReadonlyMap<number, LogOffset>>;
  readonly totalRecords: bigint;
  /**
   * A closed mark that is the first of a second of the reader's clock is a barrier; n, when also of a stretch of 2^n seconds.
   * -1 = none. Every worker that reads the marks finds the same ones, so that all can end a batch at them.
   */
  readonly barrier: number;
}

export interface MarkTimeline {
  /** Adds a mark; marks come in sequence order, repeated ones (a restart of the feed) are passed over. */
  add(mark: Mark, progressOffset: bigint): void;
  /** Cuts of a topic beyond a mark's sequence, in order. */
  cutsAfter(topic: string, sequence: number): readonly Cut[];
  at(sequence: number): TimelineMark | null;
  newest(): TimelineMark | null;
  newestClosed(): TimelineMark | null;
  /**
   * The barrier at which a table that stands at `sequence` ends a batch next; null = none lies ahead. A table that is behind
   * takes only barriers of longer stretches, so that catching up does not go by the second.
   */
  nextBarrier(sequence: number, level: number): TimelineMark | null;
  /** Forgets everything: the marks are read anew, from further back. */
  reset(): void;
  /** Forgets marks up to and with this sequence: every table is past them. */
  forget(sequence: number): void;
  /** Sequence of the newest mark that showed a topic's offsets beginning anew; 0 = none did. */
  resetAt(topic: string): number;
  /** Sequence of the newest mark from whose records on a topic has another number of partitions; 0 = none did. */
  grewAt(topic: string): number;
  /** Topics that any mark has named. */
  topics(): ReadonlySet<string>;
  /** Newest known next offsets of a topic. */
  nextOffsets(topic: string): ReadonlyMap<number, LogOffset>;
  readonly size: number;
}

export function createMarkTimeline(): MarkTimeline {
  let marks: TimelineMark[] = [];
  let closed: TimelineMark | null = null;
  let total = 0n;
  let closedAtMs: number | null = null;
  const reached = new Map<string, Map<number, LogOffset>>();
  const resets = new Map<string, number>();
  const growths = new Map<string, number>();

  function movedBy(mark: Mark): Map<string, Map<number, LogOffset>> {
    const moved = new Map<string, Map<number, LogOffset>>();
    for (const [topic, partitions] of Object.entries(mark.nextOffsets)) {
      if (mark.resets?.includes(topic) === true) {
        resets.set(topic, mark.sequence);
        reached.delete(topic);
      }
      const known = reached.get(topic) ?? new Map<number, LogOffset>();
      reached.set(topic, known);
      for (const [text, next] of Object.entries(partitions)) {
        const partition = Number(text);
        const before = known.get(partition);
        if (before === next) continue;
        // Lower: the topic was deleted and made again, and this is how far the new one goes.
        if (before !== undefined && next < before) resets.set(topic, mark.sequence);
        total += before === undefined || next < before ? next : next - before;
        known.set(partition, next);
        const ofTopic = moved.get(topic) ?? new Map<number, LogOffset>();
        moved.set(topic, ofTopic.set(partition, next));
      }
    }
    return moved;
  }

  return {
    add(mark, progressOffset) {
      const last = marks.at(-1);
      if (last !== undefined && mark.sequence <= last.mark.sequence) return;
      const barrier = mark.open || closedAtMs === null ? -1 : barrierLevel(closedAtMs, mark.atMs);
      const entry = { mark, progressOffset, moved: movedBy(mark), totalRecords: total, barrier };
      marks.push(entry);
      for (const topic of mark.grew ?? []) growths.set(topic, mark.sequence);
      if (!mark.open) {
        closed = entry;
        closedAtMs = mark.atMs;
      }
      if (marks.length > MARKS_MAX) marks = thin(marks);
    },
    cutsAfter(topic, sequence) {
      const cuts: Cut[] = [];
      for (let i = firstAfter(marks, sequence); i < marks.length; i++) {
        const entry = marks[i];
        if (entry === undefined) break;
        cuts.push({
          sequence: entry.mark.sequence,
          epoch: entry.mark.epoch,
          nextOffsets: entry.moved.get(topic) ?? NOTHING,
          totalBytes: entry.mark.bytes,
          totalRecords: entry.totalRecords,
          ...(entry.mark.grew?.includes(topic) === true ? { grew: true } : {}),
        });
      }
      return cuts;
    },
    at(sequence) {
      const found = marks[firstAfter(marks, sequence - 1)];
      return found?.mark.sequence === sequence ? found : null;
    },
    newest: () => marks.at(-1) ?? null,
    newestClosed: () => closed,
    nextBarrier(sequence, level) {
      let i = firstAfter(marks, sequence);
      const behindS = ((marks.at(-1)?.mark.atMs ?? 0) - (marks[i]?.mark.atMs ?? 0)) / 1000;
      const wanted = Math.max(level, behindS < BEHIND_S ? 0 : Math.floor(Math.log2(behindS / 2)));
      for (; i < marks.length; i++) {
        const entry = marks[i];
        if (entry !== undefined && entry.barrier >= wanted) return entry;
      }
      return null;
    },
    reset() {
      marks = [];
      closed = null;
      closedAtMs = null;
      total = 0n;
      reached.clear();
    },
    forget(sequence) {
      // The newest stays: it says where the log stands.
      const keep = Math.min(firstAfter(marks, sequence), Math.max(0, marks.length - 1));
      if (keep > 0) marks = marks.slice(keep);
    },
    resetAt: (topic) => resets.get(topic) ?? 0,
    grewAt: (topic) => growths.get(topic) ?? 0,
    topics: () => new Set(reached.keys()),
    nextOffsets: (topic) => reached.get(topic) ?? NOTHING,
    get size() {
      return marks.length;
    },
  };
}

/** Seconds behind the newest mark from which on a table leaves barriers out. */
const BEHIND_S = 4;
const LEVEL_MAX = 30;

/** Largest n such that a stretch of 2^n seconds begins between the two times; -1 = not even a second. */
function barrierLevel(beforeMs: number, atMs: number): number {
  const before = Math.floor(beforeMs / 1000);
  const at = Math.floor(atMs / 1000);
  let level = -1;
  while (level < LEVEL_MAX && Math.floor(before / 2 ** (level + 1)) !== Math.floor(at / 2 ** (level + 1))) level++;
  return level;
}

const NOTHING: ReadonlyMap<number, LogOffset> = new Map();

/** Index of the first mark beyond a sequence number. */
function firstAfter(marks: readonly TimelineMark[], sequence: number): number {
  let low = 0;
  let high = marks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((marks[middle]?.mark.sequence ?? 0) <= sequence) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Merges neighbours whose stretch stays short. Epoch changes, marks behind which a topic grew, and the newest thousand are left as they are. */
function thin(marks: readonly TimelineMark[]): TimelineMark[] {
  const kept: TimelineMark[] = [];
  const untouched = marks.length - 1000;
  let stretchStart = 0n;
  marks.forEach((entry, index) => {
    const last = kept.at(-1);
    const mergeable =
      last !== undefined &&
      index < untouched &&
      entry.mark.grew === undefined &&
      last.mark.grew === undefined &&
      last.mark.epoch === entry.mark.epoch &&
      entry.totalRecords - stretchStart < STRETCH_RECORDS;
    if (!mergeable) {
      stretchStart = last?.totalRecords ?? 0n;
      kept.push(entry);
      return;
    }
    kept[kept.length - 1] = { ...entry, moved: mergeMoves(last.moved, entry.moved) };
  });
  return kept;
}

function mergeMoves(a: TimelineMark['moved'], b: TimelineMark['moved']): TimelineMark['moved'] {
  const merged = new Map(a);
  for (const [topic, partitions] of b) merged.set(topic, new Map([...(merged.get(topic) ?? []), ...partitions]));
  return merged;
}
