/** What a reader needs, and what it gives back. Every buffer, wait and interval has its limit here. */
import type { EventLog, TopicSettings } from '../log/log.ts';
import type { Lsn } from '../log/position.ts';
import type { PutLarge } from './outgoing-batch.ts';
import type { TablePhase } from './reader-state.ts';
import type { PostgresSource } from './source.ts';
import type { LogPrivacy } from './table-privacy.ts';
import type { SlotInsurance } from './slot-insurance.ts';
import type { LogKind } from './table-names.ts';

export interface ReaderLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface ReaderOptions {
  /** The pipeline: topic prefix, and `source.name` in the envelopes. */
  readonly name: string;
  readonly source: PostgresSource;
  readonly log: EventLog;
  readonly slot: string;
  readonly publication: string;
  /** Globs on schema.table; a leading ! leaves tables out. */
  readonly tables: readonly string[];
  /** A table that appears later: backfill = take it; announce = say so; ignore. */
  readonly newTables: 'backfill' | 'announce' | 'ignore';
  /** Take transactions while they still run, and keep them in this folder above a limit; absent or null = the server keeps them. */
  readonly streaming?: { readonly folder: string } | null;
  /** For data topics; `__reader` and `__progress` get one partition. */
  readonly topic: TopicSettings;
  readonly logKind: LogKind;
  readonly snapshotParallel: number;
  readonly snapshotChunkRows: number;
  /** Where events go that are larger than the log's records may be; null = such an event stops the reader. */
  readonly putLarge: PutLarge | null;
  /**
   * With an embedded log: everything below this LSN is committed in the lake. Only that is confirmed to PostgreSQL. Null =
   * the log itself outlives the machine (Kafka).
   */
  readonly committedLsn: (() => bigint | Promise<bigint>) | null;
  readonly logger: ReaderLog;
  readonly clock: () => number;
  /** Differs in every run (a random id). */
  readonly runId: string;
  readonly failpoint: (name: string) => Promise<void> | void;
  /** What is kept out of the log; absent = nothing. */
  readonly privacy?: LogPrivacy;
  readonly limits?: Partial<ReaderLimits>;
  /** Aborted = stop, also while `startReader` has not resolved yet (Ctrl-C in the first second). */
  readonly signal?: AbortSignal;
  /**
   * Answer to SYSTEM_CHANGED, SLOT_LOST, SLOT_INVALIDATED or SLOT_MOVED: 'stop' (default) refuses by name; 'resnapshot' opens
   * a new epoch where the WAL is another one, makes a new slot where it is gone, and reads every table again.
   */
  readonly onSourceBreak?: 'stop' | 'resnapshot';
  /**
   * What the lake has of these tables, asked where the log holds no state of ours (a first start, or a log that was lost):
   * the reader then begins above it. Null = nothing yet.
   */
  readonly lakeFloor?: (
    tables: readonly { readonly schema: string; readonly table: string }[],
  ) => Promise<LakeFloor | null>;
}

export interface LakeFloor {
  /** Newest source epoch of any row. */
  readonly epoch: number;
  /** Newest mark that a table has reached. */
  readonly sequence: number;
}

export interface ReaderLimits {
  /** Least time between two log transactions while events come in slowly, ms. */
  readonly flushIntervalMs: number;
  readonly idleMarkMs: number;
  readonly heartbeatMs: number;
  /** Time between two looks at the contracts, ms. */
  readonly contractsMs: number;
  /** Messages received and not yet handled, bytes; above it the socket is paused. */
  readonly inboxBytesMax: number;
  readonly snapshotChunkBytesMax: number;
  /** Transactions that still run, in memory, bytes; above it they go to disk. */
  readonly streamedBytesMax: number;
  /** Events remembered per table while its chunks are read. */
  readonly recordedEventsMax: number;
  /** Time between two tries to own the slot, ms. */
  readonly standbyPollMs: number;
  readonly reconnectMsMax: number;
}

export const DEFAULT_LIMITS: ReaderLimits = {
  flushIntervalMs: 50,
  idleMarkMs: 10_000,
  heartbeatMs: 10_000,
  contractsMs: 1_000,
  inboxBytesMax: 16 * 1024 * 1024,
  snapshotChunkBytesMax: 8 * 1024 * 1024,
  streamedBytesMax: 32 * 1024 * 1024,
  recordedEventsMax: 500_000,
  standbyPollMs: 1_000,
  reconnectMsMax: 30_000,
};

export type ReaderPhase =
  | 'connecting'
  /** Another reader owns the slot. */
  | 'standby'
  | 'streaming'
  | 'reconnecting'
  /** A named state: `stopped` says which. */
  | 'stopped'
  | 'ended';

export interface TableStatus {
  readonly schema: string;
  readonly table: string;
  readonly phase: TablePhase | 'refused';
  /** Refused or stopped: the state's name or the error's code, what it saw, and what to do. */
  readonly reason: { readonly state: string; readonly detail: string; readonly remedy: string } | null;
  readonly events: bigint;
  readonly snapshotRows: bigint;
  /** 0 to 1; null when no snapshot runs. */
  readonly snapshotProgress: number | null;
}

export interface ReaderStatus {
  readonly phase: ReaderPhase;
  readonly stopped: { readonly state: string; readonly detail: string; readonly remedy: string } | null;
  readonly epoch: number;
  readonly serverVersion: number;
  /** End of the source's WAL at the last heartbeat. */
  readonly sourceLsn: Lsn;
  /** Everything below was received and taken in. */
  readonly receivedLsn: Lsn;
  /** Everything below is durable in the log. */
  readonly durableLsn: Lsn;
  readonly confirmedLsn: Lsn;
  /** Source clock at the newest event or keepalive minus that of the newest durable one is the lag, measured by the source's clock alone, ms. */
  readonly lagMs: number;
  readonly lagBytes: bigint;
  readonly bytes: bigint;
  readonly marks: number;
  readonly tables: readonly TableStatus[];
  /** Tables that match the globs, are not published, and wait for somebody (newTables: announce). */
  readonly announced: readonly string[];
  readonly insurance: SlotInsurance | null;
  /** The last error that led to a reconnect. */
  readonly lastError: string | null;
  /** The last failure, with its code, until something was written to the log again; null = none. */
  readonly failing: { readonly code: string; readonly message: string } | null;
}

export interface ReaderHandle {
  status(): ReaderStatus;
  /** Ends in order: the batch in hand is appended or left to be read again. Resolves when all connections are closed. */
  stop(): Promise<void>;
  /** Resolves when stopped; rejects when the reader cannot go on. */
  readonly done: Promise<void>;
  /**
   * Reads a table again while streaming goes on; also what repairs a stopped one. Exact: a TRUNCATE event comes first, so that
   * rows which the source no longer has go, too. Resolves when it is under way; `status` shows its progress.
   */
  resnapshot(schema: string, table: string, exact?: boolean): Promise<void>;
  /**
   * Of a reader that stands still because the source broke (`status().stopped`): makes the slot anew, opens a new epoch where the
   * WAL is another one, and begins to read every table again. Absent = this reader does not stand by.
   */
  mendSource?(): Promise<void>;
  /**
   * Stops by this state and runs `then` once all connections are closed; `mendSource` goes on. Absent = it does not stand by.
   */
  standStill?(stopped: NonNullable<ReaderStatus['stopped']>, then: () => Promise<void>): Promise<void>;
  /** Holds a table's snapshot between two chunks, or sets it going again; nothing where it is not read now. */
  holdSnapshot(schema: string, table: string, hold: boolean): void;
  /** Takes a table that is not followed. @throws ReaderError why not, with the SQL for its owner */
  addTable(schema: string, table: string): Promise<void>;
  /** Lets go of a table. Gives the SQL for the owner where it could not be taken out of the publication. */
  removeTable(schema: string, table: string): Promise<string | null>;
  /**
   * Reads the rows that an SQL condition over the table's columns selects; resolves with their number when they are in the log.
   * With `columns`, only these are read, and filled into the rows that stand in the lake.
   */
  fetchRows(schema: string, table: string, condition: string, columns?: readonly string[]): Promise<number>;
  /**
   * The same for keys, each the key columns' texts in key order. With `removeAbsent`, a key that no row of the source has
   * becomes a delete at the same place of the stream; the number counts those, too.
   */
  fetchKeys(
    schema: string,
    table: string,
    keys: readonly (readonly string[])[],
    removeAbsent?: boolean,
  ): Promise<number>;
}
