/** What a replay would take, from the marks alone: nothing is read of the events and nothing is written. */
import { planBatch } from '../../stream/plan.ts';
import { offsetsText, timelineUpTo, type OffsetMap } from './marks.ts';
import { batchLimits, type ReplayParts } from './parts.ts';
import type { ReplayRange } from './range.ts';

export interface ReplayEstimate {
  readonly table: string;
  readonly base: ReplayRange['base'];
  readonly fromOffset: string;
  readonly toOffset: string;
  readonly records: number;
  /** Of the events as they stand in the log. */
  readonly bytes: number;
  readonly batches: number;
  readonly storeRequests: number;
  readonly minutes: number;
}

/** Events a second on one slow core, whole path; and requests a batch: plan, table, quarantine, files, commit, notes. */
const EVENTS_PER_SECOND = 15_000;
const REQUESTS_PER_BATCH = { 'in place': 4, 'into a table': 12 } as const;

export async function estimateReplay(
  parts: ReplayParts,
  range: ReplayRange,
  kind: keyof typeof REQUESTS_PER_BATCH,
): Promise<ReplayEstimate> {
  const timeline = await timelineUpTo(parts.log.reader, parts.name, range.end.mark.sequence);
  const limits = { ...batchLimits(parts), barrier: range.end.mark.sequence };
  let position: OffsetMap = range.start.nextOffsets;
  let sequence = range.start.markSequence;
  let [records, bytes, batches] = [0, 0, 0];
  for (;;) {
    const planned = planBatch(position, timeline.cutsAfter(range.topic, sequence), limits);
    if (planned === null) break;
    records += planned.offsets;
    bytes += planned.bytesEstimate;
    batches++;
    position = new Map([...position, ...planned.to]);
    sequence = planned.cut.sequence;
  }
  return {
    table: range.table,
    base: range.base,
    fromOffset: offsetsText(range.start.nextOffsets),
    toOffset: offsetsText(range.end.nextOffsets),
    records,
    bytes,
    batches,
    storeRequests: batches * REQUESTS_PER_BATCH[kind],
    minutes: Math.ceil(records / EVENTS_PER_SECOND / 6) / 10,
  };
}
