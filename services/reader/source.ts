/**
 * PORT of the source: sessions that run SQL, and replication streams. One adapter, `pg-source.ts`.
 * Everything crosses as PostgreSQL's text; nothing is parsed into JavaScript types on the way.
 */
import type { ConnectionParts, SourceConnection } from './connection.ts';

/** One row of a query: column name → PostgreSQL's text, or null. */
export type TextRow = Readonly<Record<string, string | null>>;

/** DataRow body: int16 count, then per column int32 length (-1 = NULL) and text. Valid for ever, never written again. */
export type DataRowHandler = (bytes: Buffer, start: number, end: number) => void;

export interface SourceSession {
  /** 150004 for 15.4. */
  readonly serverVersion: number;
  /** What the server (or a pooler in front of it) said at startup. */
  readonly backendPid: number;
  readonly closed: boolean;
  /** Runs one or several statements; the rows of the last that returned any. One at a time: a second call waits. */
  query(sql: string): Promise<readonly TextRow[]>;
  /** Runs one statement and hands every row over as raw bytes, as they arrive. Resolves with their number. */
  rows(sql: string, onRow: DataRowHandler): Promise<number>;
  close(): Promise<void>;
}

export interface ReplicationHandlers {
  /** One pgoutput message, bytes[start .. end). Called many times a socket chunk: must not wait. */
  data(bytes: Buffer, start: number, end: number): void;
  /** Everything below `walEnd` has been decoded and sent. `serverTime` in µs since 2000-01-01 UTC. */
  keepalive(walEnd: bigint, serverTime: bigint, replyRequested: boolean): void;
  /** A socket chunk has been handed over completely; the place to ask for `pause`. */
  chunkEnd(): void;
}

export interface ReplicationStream {
  /** Standby status update: everything below `lsn` may be forgotten by the server. Never lower than before. */
  confirm(lsn: bigint): void;
  /** Stops and starts reading from the socket; the server then waits (backpressure). */
  pause(): void;
  resume(): void;
  /** Resolves when the stream was ended by `close`, rejects with a ReaderError when it was lost. */
  readonly ended: Promise<void>;
  /** Ends the stream in order (CopyDone), within a second, then the connection. The slot is free afterwards. */
  close(): Promise<void>;
}

export interface ReplicationOptions {
  readonly slot: string;
  readonly publication: string;
  /** The server starts at the later of this and the slot's confirmed position. */
  readonly startLsn: bigint;
  readonly protoVersion: 1 | 2 | 3 | 4;
  /** Large transactions are sent while they run; protocol 2 or newer. */
  readonly streaming?: boolean;
  readonly handlers: ReplicationHandlers;
}

export interface ReplicationSession extends SourceSession {
  /** @throws ReaderError SLOT_IN_USE, SOURCE_QUERY_FAILED. From then on the session carries the stream only. */
  start(options: ReplicationOptions): Promise<ReplicationStream>;
}

export interface PostgresSource {
  readonly connection: SourceConnection;
  /** @throws ReaderError SOURCE_UNREACHABLE, SOURCE_AUTHENTICATION, SOURCE_TLS, SOURCE_POOLED, NO_REPLICATION_PRIVILEGE */
  session(purpose: string): Promise<SourceSession>;
  replication(purpose: string): Promise<ReplicationSession>;
}

/**
 * Where the connection's parameters come from. Called before every connect; `refresh` is true after the server refused the
 * credentials, so that a rotated secret is read again.
 */
export type ConnectionProvider = (refresh: boolean) => SourceConnection | Promise<SourceConnection>;
export type { ConnectionParts, SourceConnection };
