/** Where a table begins, how far a batch came, and what it added. Pure. */
import type { StructType } from '../../lakehouse/table/schema.ts';
import type { PartitionBounds } from '../log/log.ts';
import type { LogOffset } from '../log/position.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { IngestBatch } from './ingest-batch.ts';

export function earliest(bounds: ReadonlyMap<number, PartitionBounds>): Map<number, LogOffset> {
  return new Map([...bounds].map(([partition, found]) => [partition, found.earliest]));
}

/** Without marks, the newest position that any event showed. */
export function newestLsn(batch: IngestBatch, floor: bigint): bigint {
  let newest = floor;
  for (const lsn of batch.lsns) if (lsn > newest) newest = lsn;
  return newest;
}

/** True once a mark says that the table's snapshot is complete: nothing may wait for its base any longer. */
export function isComplete(timeline: MarkTimeline, schemaName: string, tableName: string): boolean {
  const newest = timeline.newest();
  return newest !== null && !newest.mark.snapshotting.includes(`${schemaName}.${tableName}`);
}

/** The table's schema after a commit: what it had, then what the batch added. */
export function grown(lake: StructType | null, batch: StructType): StructType {
  if (lake === null) return batch;
  const known = new Set(lake.fields.map(({ name }) => name.toLowerCase()));
  const added = batch.fields.filter(({ name }) => !known.has(name.toLowerCase()));
  return added.length === 0 ? lake : { type: 'struct', fields: [...lake.fields, ...added] };
}
