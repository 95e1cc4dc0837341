/** What one table's ingest query is made of. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { LogAdmin, LogReader, OutgoingRecord } from '../log/log.ts';
import type { PlanLimits } from '../stream/plan.ts';
import type { QueryProgress } from '../stream/progress.ts';
import type { MarkTimeline } from '../stream/sources/mark-timeline.ts';
import type { QueryPosition } from '../stream/stream.ts';
import type { RequestRows } from './base-requests.ts';
import type { ContractBook } from './contract-book.ts';
import type { ForeignTable } from './foreign-topics.ts';
import type { SinkResult } from './merge-sink.ts';
import type { ShapeFeed } from './shape-feed.ts';
import type { TableTarget } from './table-target.ts';

export interface IngestTableOptions {
  readonly name: string;
  readonly runId: string;
  readonly schemaName: string;
  readonly tableName: string;
  readonly logId: string;
  /** Null: the table's own topic, written by our reader. */
  readonly foreign: ForeignTable | null;
  readonly reader: LogReader;
  readonly topicIds: LogAdmin['topicIds'];
  readonly lake: ObjectStore;
  /** Folder of all checkpoints, inside `checkpointStore`. */
  readonly checkpointRoot: string;
  readonly checkpointStore: ObjectStore;
  readonly target: TableTarget;
  readonly shapes: ShapeFeed;
  readonly timeline: MarkTimeline;
  readonly contracts: ContractBook;
  readonly limits: Omit<PlanLimits, 'barrier'>;
  readonly readBytesMax: number;
  /** Memory for a batch decoded ahead, and the way to give it back; null = there is none. Absent: nothing is decoded ahead. */
  readonly spare?: (bytes: number) => (() => void) | null;
  readonly awaitingBytesMax: number;
  /** Asks the reader for rows; null = nobody can be asked, and an event without base parks. */
  readonly requestRows?: RequestRows | null;
  readonly now: () => number;
  readonly newId: () => string;
  /** Where a table without a batch begins; absent: at the log's beginning. */
  readonly start?: Omit<QueryPosition, 'batchId'>;
  readonly publish: ((records: readonly OutgoingRecord[]) => Promise<void>) | null;
  readonly failpoint: (name: string) => Promise<void> | void;
  readonly onProgress: (progress: QueryProgress, result: SinkResult) => Promise<void> | void;
}
