/** What an ingest pipeline is started with, and what it gives back. */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import type { EventLog } from '../log/log.ts';
import type { QueryProgress } from '../stream/progress.ts';
import type { Retyped } from './retype.ts';
import type { BatchSink } from '../stream/sink.ts';
import type { Clock, Trigger } from '../stream/triggers.ts';
import type { ContractTools } from './contract-book.ts';
import type { ContractFiles } from './contract-files.ts';
import type { ForeignTable } from './foreign-topics.ts';
import type { RequestRows } from './base-requests.ts';
import type { IngestTable } from './ingest-table.ts';
import type { SinkResult } from './merge-sink.ts';
import type { IngestStatus } from './status.ts';
import type { Failure, RunnerState, Stopped } from './table-runner.ts';
import type { TableTarget } from './table-target.ts';
import type { LogTail } from './reposition.ts';
import type { TableNotice } from './last-contracts.ts';

export interface IngestOptions {
  readonly name: string;
  readonly log: EventLog;
  /** The lake's root. */
  readonly lake: ObjectStore;
  /** Where checkpoints are kept: default the lake, under `_sluice/checkpoints`. */
  readonly checkpoint?: { readonly store: ObjectStore; readonly folder: string };
  /** Local folder: key indexes, all rebuildable. */
  readonly stateFolder: string;
  readonly contracts: ContractFiles;
  /** The contract engine; default `contract-tools.ts`. */
  readonly tools?: ContractTools;
  /** Key for `piiAction: hash`, 16 bytes or more; without it a contract that asks for hashing stops its table. */
  readonly piiKey?: Uint8Array;
  readonly trigger: Trigger;
  readonly maxOffsetsPerTrigger: number;
  /** Bytes of events in hand, all tables together. */
  readonly memoryBytes: number;
  /** Batches that run side by side. */
  readonly parallel?: number;
  readonly changeDataFeed?: boolean;
  readonly deletionVectors?: boolean;
  /** ms; how long the log keeps events. */
  readonly retentionMs?: number;
  /** Tables (`schema.table`) that a person paused; asked whenever this worker takes tables over. */
  readonly pausedTables?: () => Promise<ReadonlySet<string>>;
  /** Copies of the topic by which stream workers tell each other of their tables. */
  readonly replicationFactor?: number;
  /** Topics of another writer (Debezium) instead of our reader's. */
  readonly foreign?: readonly ForeignTable[];
  /** More sinks: each gets every batch of the tables it wants, in its own query with its own checkpoint. */
  readonly queries?: readonly UserQuery[];
  /** Parked events go to `<topic>.quarantine`, too. Default true. */
  readonly quarantineTopics?: boolean;
  /** ms between two looks whether topics and offsets are still there. */
  readonly continuityMs?: number;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly failpoint?: (name: string) => Promise<void> | void;
  /** Asks the reader for rows by key (base-requests.ts); absent = an event without base parks. */
  readonly requestRows?: RequestRows;
  /** Finishes what was begun on a table (`schema.table`) and killed, before its position is read. */
  readonly beforeTable?: (schema: string, table: string) => Promise<void>;
  /** `id`: `schema.table`; the query's own name begins with the pipeline's. */
  readonly onProgress?: (progress: QueryProgress, result: SinkResult, id: string) => void;
  readonly onQueryProgress?: (progress: QueryProgress) => void;
  readonly onFailure?: (failure: Failure) => void;
  /** Feed failures (log unreachable): the pipeline goes on trying. */
  readonly onFeedFailure?: (error: unknown) => void;
  /** What a person should know of a table that goes on. */
  readonly onNotice?: (notice: TableNotice) => void;
}

export interface UserQuery {
  /** Unique in the pipeline; part of its checkpoint's place. */
  readonly name: string;
  readonly sink: BatchSink;
  /** Default: all tables. */
  readonly wants?: (schema: string, table: string) => boolean;
}

export interface IngestHandle {
  status(): IngestStatus;
  /** Every table has reached a closed mark at or beyond this LSN, and no snapshot is running. */
  catchUp(lsn: bigint, signal?: AbortSignal): Promise<void>;
  /** Every table has reached the newest mark that stands in the log now. */
  drain(signal?: AbortSignal): Promise<void>;
  /** LSN below which everything is committed in the lake: what may be confirmed with the embedded log. Null = none yet. */
  committedLsn(): bigint | null;
  /** The quarantine of a table (`schema.table`): listing, retry and drop go through its one owner. Null = no such table. */
  quarantine(id: string): TableQuarantine | null;
  /** A table of ours (`schema.table`), for work that only its one owner may do. Null = no such table here. */
  owned(id: string): OwnedTable | null;
  /** Where the log ends now for this table (`schema.table`); null = no such table. */
  logTail(id: string): Promise<LogTail | null>;
  /** Sets a table to another place of the log, and lets it go on: the end of a repair (reposition.ts). */
  moveTo(id: string, tail: LogTail): Promise<void>;
  /** Gives its columns the types of its contract, and empties it (retype.ts). None = nothing of that kind is in its way. */
  retype(id: string, dryRun: boolean): Promise<readonly Retyped[]>;
  /** Looks where the table stands; gives why it stands still, if it does. */
  check(id: string): Promise<Stopped | null>;
  pause(id: string): void;
  resume(id: string): void;
  /** Finishes the batches in hand, or leaves them to be run again after `withinMs` (default 8 s). */
  stop(withinMs?: number): Promise<void>;
  /** Resolves when everything has ended (available-now: when the log's end was reached). */
  readonly done: Promise<void>;
}

export interface OwnedTable {
  readonly target: TableTarget;
  state(): RunnerState;
  /** Where the table stands, also between two turns. */
  position(): ReturnType<IngestTable['position']>;
  /** Work between two of the table's batches: none runs meanwhile. */
  exclusive<R>(work: (table: IngestTable) => Promise<R>): Promise<R>;
  resume(): void;
}

export type TableQuarantine = Pick<IngestTable, 'list' | 'show' | 'retry' | 'drop'>;
