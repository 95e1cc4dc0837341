/**
 * The messages of PostgreSQL's built-in output plugin, protocol versions 1 to 4.
 * Source: PostgreSQL docs, "Logical Replication Message Formats". LSNs are unsigned 64-bit, times µs since 2000-01-01 UTC.
 */
import type { Tuple } from '../../log/tuple.ts';

export interface BeginMessage {
  readonly tag: 'begin';
  /** LSN of the commit record: the transaction's place in the order. */
  readonly finalLsn: bigint;
  readonly commitTime: bigint;
  readonly xid: number;
}
export interface CommitMessage {
  readonly tag: 'commit';
  readonly commitLsn: bigint;
  /** Behind the commit record: what may be confirmed. */
  readonly endLsn: bigint;
  readonly commitTime: bigint;
}
export interface OriginMessage {
  readonly tag: 'origin';
  readonly originLsn: bigint;
  readonly name: string;
}
export interface RelationColumn {
  readonly name: string;
  readonly typeOid: number;
  readonly typeModifier: number;
  /** Part of the replica identity. */
  readonly inKey: boolean;
}
export interface RelationMessage {
  readonly tag: 'relation';
  /** Streamed transaction that this definition belongs to, or 0. */
  readonly streamXid: number;
  readonly oid: number;
  readonly schema: string;
  readonly table: string;
  /** d = default (primary key), n = nothing, f = full row, i = index. */
  readonly replicaIdentity: 'd' | 'n' | 'f' | 'i';
  readonly columns: readonly RelationColumn[];
}
export interface TypeMessage {
  readonly tag: 'type';
  readonly streamXid: number;
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
}

/**
 * A row change. The decoder REUSES one object of each kind and its tuples: whatever must outlive the next call of the
 * decoder is to be copied (the bytes themselves stay valid, they belong to the message's buffer).
 */
export interface InsertMessage {
  readonly tag: 'insert';
  readonly streamXid: number;
  readonly relation: RelationMessage;
  readonly after: Tuple;
}
export interface UpdateMessage {
  readonly tag: 'update';
  readonly streamXid: number;
  readonly relation: RelationMessage;
  /** key = `before` holds the replica identity's columns and NULL elsewhere; row = the whole old row; none = key unchanged. */
  readonly beforeKind: 'none' | 'key' | 'row';
  readonly before: Tuple;
  readonly after: Tuple;
}
export interface DeleteMessage {
  readonly tag: 'delete';
  readonly streamXid: number;
  readonly relation: RelationMessage;
  readonly beforeKind: 'key' | 'row';
  readonly before: Tuple;
}
export interface TruncateMessage {
  readonly tag: 'truncate';
  readonly streamXid: number;
  readonly relations: readonly RelationMessage[];
  readonly cascade: boolean;
  readonly restartIdentity: boolean;
}
export interface LogicalMessage {
  readonly tag: 'message';
  readonly streamXid: number;
  readonly transactional: boolean;
  readonly lsn: bigint;
  readonly prefix: string;
  readonly content: Buffer;
}
export interface StreamStartMessage {
  readonly tag: 'stream-start';
  readonly xid: number;
  readonly firstSegment: boolean;
}
export interface StreamStopMessage {
  readonly tag: 'stream-stop';
}
export interface StreamCommitMessage {
  readonly tag: 'stream-commit';
  readonly xid: number;
  readonly commitLsn: bigint;
  readonly endLsn: bigint;
  readonly commitTime: bigint;
}
export interface StreamAbortMessage {
  readonly tag: 'stream-abort';
  readonly xid: number;
  /** The sub-transaction that is undone; equal to `xid` when all of it is. */
  readonly subXid: number;
}
/** Two-phase commit, protocol 3. `prepare` of a streamed transaction is `stream-prepare`. */
export interface PreparedMessage {
  readonly tag: 'begin-prepare' | 'prepare' | 'commit-prepared' | 'rollback-prepared' | 'stream-prepare';
  readonly xid: number;
  /** Prepare's LSN; on commit-prepared the commit's; on rollback-prepared the prepare's end. */
  readonly lsn: bigint;
  readonly endLsn: bigint;
  readonly time: bigint;
  readonly gid: string;
}

export type RowMessage = InsertMessage | UpdateMessage | DeleteMessage;
export type PgoutputMessage =
  | BeginMessage
  | CommitMessage
  | OriginMessage
  | RelationMessage
  | TypeMessage
  | RowMessage
  | TruncateMessage
  | LogicalMessage
  | StreamStartMessage
  | StreamStopMessage
  | StreamCommitMessage
  | StreamAbortMessage
  | PreparedMessage;
