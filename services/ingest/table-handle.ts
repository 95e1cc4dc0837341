/** One table's ingest query, as those who run, show and mend it know it. */
import type { LogOffset } from '../log/position.ts';
import type { QueryPosition, StepResult } from '../stream/stream.ts';
import type { Ledger } from './ledger.ts';
import type { SinkResult } from './merge-sink.ts';
import type { ListOptions, QuarantineDetail, QuarantineEntry } from './quarantine-list.ts';
import type { RetryResult } from './quarantine-retry.ts';
import type { ReplayBatchRequest, ReplayBatchResult } from './replay-batch.ts';
import type { LogTail } from './reposition.ts';
import type { StreamPosition } from './txn-ids.ts';

export interface Settled {
  readonly markSequence: number;
  readonly version: bigint | null;
}

export interface IngestTable {
  readonly topic: string;
  /** The table's folder in the lake. */
  readonly folder: string;
  /** One batch, if there is one. */
  step(barrier: number | null): Promise<StepResult>;
  /** The contract, or the source's table, is another one than the last batch was planned with. */
  contractChanged(): Promise<boolean>;
  /** Whether the log still continues where the table stands, without a batch. @throws StreamError */
  check(): Promise<void>;
  /** Where the log ends now: what `moveTo` takes once the table is being read again behind that. */
  logTail(): Promise<LogTail>;
  /** Goes on from another place of the log. Never beside a step. */
  moveTo(tail: LogTail): Promise<void>;
  /** Runs parked events again; null = all of them. Never beside a step. */
  retry(ids: ReadonlySet<string> | null): Promise<RetryResult>;
  /** Gives parked events up. */
  drop(ids: ReadonlySet<string>): Promise<number>;
  /** Runs events of an older range again, under the fence. Never beside a step. */
  replay(request: ReplayBatchRequest): Promise<ReplayBatchResult>;
  /** Reads the position anew: the table was changed by its owner from outside of this query. */
  reopen(): Promise<void>;
  list(options: ListOptions): Promise<QuarantineEntry[]>;
  show(id: string): Promise<QuarantineDetail | null>;
  /** Offset in `__progress` of the mark that the table ended at; null = it has no batch yet. */
  progressOffset(): Promise<bigint | null>;
  /** What a restart will read from: nothing below it is needed any more. */
  releasable(): ReadonlyMap<number, LogOffset>;
  position(): QueryPosition;
  /** Mark that the batch in hand will reach. */
  ahead(): number;
  committed(): StreamPosition | null;
  /** Newest version of the table that holds the stream, or null. */
  version(): bigint | null;
  /** The mark of the last batch in the table, and the version at it and at every mark since that had nothing for the table. */
  settled(): Settled;
  /** A full batch more waits: the next is due at once. */
  backlog(): boolean;
  appliedLast(): number | null;
  ledger(): Ledger;
  parkedKeys(): number;
  awaitingEvents(): number;
  /** Events wait although the snapshot is complete: for rows that were asked for. */
  lacksRows(): boolean;
  /** The source table has no rows yet, and the lake no table; one is due. */
  lacksTable(): boolean;
  lastResult(): SinkResult | null;
  close(): Promise<void>;
}
