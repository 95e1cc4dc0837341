/** The reader's marks as a replay needs them: walked through once, or as the timeline of a range. */
import type { Mark } from '../../log/event.ts';
import type { LogReader } from '../../log/log.ts';
import type { LogOffset } from '../../log/position.ts';
import { progressBounds, readMarks } from '../../stream/sources/mark-feed.ts';
import { createMarkTimeline, type MarkTimeline } from '../../stream/sources/mark-timeline.ts';

export type OffsetMap = ReadonlyMap<number, LogOffset>;

/** A mark, with where it leaves one topic. */
export interface MarkedPlace {
  readonly mark: Mark;
  readonly progressOffset: bigint;
  /** Next offset of every partition that any mark so far has named. */
  readonly nextOffsets: OffsetMap;
}

/** Every mark that the log holds, in order. `from`: offset in the progress topic to begin at. */
export async function walkMarks(
  reader: LogReader,
  name: string,
  visit: (mark: Mark, progressOffset: bigint) => void,
  from: bigint | null = null,
): Promise<void> {
  const bounds = await progressBounds(reader, name);
  if (bounds === null || bounds.earliest >= bounds.end) return;
  const start = from !== null && from > bounds.earliest ? from : bounds.earliest;
  if (start >= bounds.end) return;
  await readMarks({
    reader,
    name,
    from: start as LogOffset,
    to: bounds.end,
    onMark: async (mark, offset) => visit(mark, offset),
  });
}

/** The same, as one topic sees them. The map given is the visitor's to keep: a new one wherever something moved. */
export async function walkTopic(
  reader: LogReader,
  name: string,
  topic: string,
  visit: (place: MarkedPlace) => void,
): Promise<void> {
  let nextOffsets: OffsetMap = new Map();
  await walkMarks(reader, name, (mark, progressOffset) => {
    const moved = mark.nextOffsets[topic];
    if (moved !== undefined) {
      const next = new Map(nextOffsets);
      for (const [text, offset] of Object.entries(moved)) {
        const partition = Number(text);
        if (offset > (next.get(partition) ?? -1n)) next.set(partition, offset);
      }
      nextOffsets = next;
    }
    visit({ mark, progressOffset, nextOffsets });
  });
}

/** The marks up to a sequence, ready for a table to be stepped along them. */
export async function timelineUpTo(
  reader: LogReader,
  name: string,
  sequence: number,
  from: bigint | null = null,
): Promise<MarkTimeline> {
  const timeline = createMarkTimeline();
  await walkMarks(
    reader,
    name,
    (mark, offset) => {
      if (mark.sequence <= sequence) timeline.add(mark, offset);
    },
    from,
  );
  return timeline;
}

/** Whether `a` has nothing that `b` does not have. */
export function isWithin(a: OffsetMap, b: OffsetMap): boolean {
  for (const [partition, offset] of a) if (offset > (b.get(partition) ?? 0n)) return false;
  return true;
}

export function sameOffsets(a: OffsetMap, b: OffsetMap): boolean {
  return isWithin(a, b) && isWithin(b, a);
}

/** Records between two places of a topic. */
export function distance(from: OffsetMap, to: OffsetMap): bigint {
  let records = 0n;
  for (const [partition, end] of to) {
    const start = from.get(partition) ?? 0n;
    if (end > start) records += end - start;
  }
  return records;
}

export function offsetsText(offsets: OffsetMap): string {
  const parts = [...offsets].toSorted(([a], [b]) => a - b);
  const [only] = parts;
  if (parts.length === 1 && only?.[0] === 0) return String(only[1]);
  return parts.map(([partition, offset]) => `${partition}=${offset}`).join(',');
}
