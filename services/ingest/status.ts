/** What `sluice status` and `/status` show of the stream. */
import { formatLsn } from '../log/position.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { ConsistentCut } from './consistent.ts';
import type { Ledger } from './ledger.ts';
import type { QueryPosition } from '../stream/stream.ts';
import type { RunnerState, TableRunner } from './table-runner.ts';

export interface TableStatus {
  /** `schema.table` */
  readonly table: string;
  /** Its place in the lake; the name would not do, for a dot may stand in either half. */
  readonly folder: string;
  readonly state: string;
  readonly message: string | null;
  readonly remedy: string | null;
  /** Code of a failure that is being tried again. */
  readonly retrying: string | null;
  readonly retryingWhy: string | null;
  readonly version: bigint | null;
  readonly batchId: bigint | null;
  /** `16/B374D848`: everything of the source up to here is in the table. */
  readonly lsn: string | null;
  /** Of the history that `lsn` counts in: after a change of server the numbers may begin lower. */
  readonly epoch: number | null;
  readonly markSequence: number;
  /** Records in the log that the table does not have. */
  readonly lagRecords: bigint;
  /** Log value bytes of all topics since the table's mark. */
  readonly lagBytes: bigint;
  /** In the source's clock. */
  readonly lagSeconds: number;
  readonly ledger: Ledger;
  /** Keys whose row is stale because an event of theirs is parked. */
  readonly staleKeys: number;
  readonly awaiting: number;
  readonly lastBatch: { readonly rows: number; readonly bytesWritten: number; readonly filesAdded: number } | null;
}

export interface IngestStatus {
  readonly pipeline: string;
  readonly logId: string;
  /** Newest mark in the log. */
  readonly logLsn: string | null;
  readonly logMark: number;
  readonly consistent: { readonly lsn: string; readonly markSequence: number } | null;
  readonly bytesInHand: number;
  /** Null: this process has every table. */
  readonly group: GroupStatus | null;
  readonly tables: readonly TableStatus[];
}

/** This worker among those that share the tables. */
export interface GroupStatus {
  readonly workers: number;
  /** Tables that this worker has, of all. */
  readonly tables: number;
  readonly of: number;
  readonly writesConsistent: boolean;
}

export interface StatusInput {
  readonly name: string;
  readonly logId: string;
  readonly runners: readonly TableRunner[];
  readonly timeline: MarkTimeline;
  readonly cut: ConsistentCut | null;
  readonly inUse: number;
}

export function reportStatus({ name, logId, runners, timeline, cut, inUse }: StatusInput): Omit<IngestStatus, 'group'> {
  const newest = timeline.newest();
  return {
    pipeline: name,
    logId,
    logLsn: newest === null ? null : formatLsn(newest.mark.lsn),
    logMark: newest?.mark.sequence ?? 0,
    consistent: cut === null ? null : { lsn: formatLsn(cut.mark.lsn), markSequence: cut.mark.sequence },
    bytesInHand: inUse,
    tables: runners.map((runner) => tableStatus(runner, timeline)),
  };
}

function tableStatus(runner: TableRunner, timeline: MarkTimeline): TableStatus {
  const { table } = runner;
  const position = table.position();
  const newest = timeline.newest();
  const here = timeline.at(position.markSequence);
  let lagRecords = 0n;
  for (const [partition, end] of timeline.nextOffsets(table.topic)) {
    const next = position.nextOffsets.get(partition) ?? 0n;
    if (end > next) lagRecords += end - next;
  }
  const behind = lagRecords > 0n && newest !== null && here !== null;
  const snapshotting = newest?.mark.snapshotting.includes(runner.id) === true;
  const stopped = runner.stopped();
  const last = table.lastResult();
  return {
    table: runner.id,
    folder: table.folder,
    state: shownState(runner.state(), snapshotting, position, timeline.grewAt(table.topic)),
    message: stopped?.message ?? null,
    remedy: stopped?.remedy ?? null,
    retrying: runner.retrying(),
    retryingWhy: runner.retryingWhy(),
    version: table.version(),
    batchId: position.batchId,
    // Cuts of foreign topics have no LSN of their own.
    lsn: lsnText(here !== null && here.mark.lsn > 0n ? here.mark.lsn : table.committed()?.lsn),
    epoch: here?.mark.epoch ?? table.committed()?.epoch ?? null,
    markSequence: position.markSequence,
    lagRecords,
    lagBytes: behind ? newest.mark.bytes - here.mark.bytes : 0n,
    lagSeconds: behind ? Number((newest.mark.sourceTimeMicros - here.mark.sourceTimeMicros) / 1000n) / 1000 : 0,
    ledger: table.ledger(),
    staleKeys: table.parkedKeys(),
    awaiting: table.awaitingEvents(),
    lastBatch:
      last === null
        ? null
        : { rows: last.ledger.read, bytesWritten: last.merge.bytesWritten, filesAdded: last.merge.filesAdded },
  };
}

/** A topic that grew: what stands in the old partitions is committed before anything of the new ones is read. */
function shownState(state: RunnerState, snapshotting: boolean, at: QueryPosition, grewAt: number): string {
  if (state !== 'STREAMING') return state;
  if (snapshotting) return 'SNAPSHOTTING';
  return at.batchId !== null && at.markSequence < grewAt ? 'PARTITIONS_CHANGED' : state;
}

function lsnText(lsn: bigint | undefined): string | null {
  return lsn === undefined ? null : formatLsn(lsn);
}
