/**
 * The actions of a Delta commit (PROTOCOL.md, "Actions"), typed. Numbers that are 64-bit in the protocol are `bigint`;
 * an absent optional field is null. Read loosely: unknown actions and fields are skipped (unknown *features* are not:
 * protocol.ts), written exactly.
 */
import type { DeletionVectorDescriptor } from './deletion-vector-descriptor.ts';

export interface ProtocolAction {
  readonly minReaderVersion: number;
  readonly minWriterVersion: number;
  /** Null unless minReaderVersion is 3. */
  readonly readerFeatures: readonly string[] | null;
  /** Null unless minWriterVersion is 7. */
  readonly writerFeatures: readonly string[] | null;
}

export interface MetadataAction {
  readonly id: string;
  readonly name: string | null;
  readonly description: string | null;
  readonly format: { readonly provider: string; readonly options: Readonly<Record<string, string>> };
  /** JSON text of the schema; see schema-json.ts. */
  readonly schemaString: string;
  readonly partitionColumns: readonly string[];
  readonly configuration: Readonly<Record<string, string>>;
  readonly createdTime: bigint | null;
}

export type PartitionValues = Readonly<Record<string, string | null>>;

export interface AddFile {
  /** As in the log: a URI relative to the table root, or absolute. `keyOfPath` gives the object's key. */
  readonly path: string;
  /** By physical column name; null is NULL (so is the empty string, when read). */
  readonly partitionValues: PartitionValues;
  readonly size: bigint;
  /** Milliseconds since the epoch. */
  readonly modificationTime: bigint;
  readonly dataChange: boolean;
  /** JSON text; see stats.ts. */
  readonly stats: string | null;
  readonly tags: Readonly<Record<string, string | null>> | null;
  readonly deletionVector: DeletionVectorDescriptor | null;
  readonly baseRowId: bigint | null;
  readonly defaultRowCommitVersion: bigint | null;
  readonly clusteringProvider: string | null;
}

export interface RemoveFile {
  readonly path: string;
  /** Milliseconds since the epoch. */
  readonly deletionTimestamp: bigint | null;
  readonly dataChange: boolean;
  readonly extendedFileMetadata: boolean;
  readonly partitionValues: PartitionValues | null;
  readonly size: bigint | null;
  readonly stats: string | null;
  readonly tags: Readonly<Record<string, string | null>> | null;
  /** The vector the file had when it was removed: part of its identity. */
  readonly deletionVector: DeletionVectorDescriptor | null;
  readonly baseRowId: bigint | null;
  readonly defaultRowCommitVersion: bigint | null;
}

/** A file of row changes (change data feed). */
export interface CdcFile {
  readonly path: string;
  readonly partitionValues: PartitionValues;
  readonly size: bigint;
  readonly tags: Readonly<Record<string, string | null>> | null;
}

export interface TxnAction {
  readonly appId: string;
  readonly version: bigint;
  /** Milliseconds since the epoch. */
  readonly lastUpdated: bigint | null;
}

export interface DomainMetadataAction {
  readonly domain: string;
  readonly configuration: string;
  readonly removed: boolean;
}

/** Provenance: free form but for `txnId` (the writer token) and `inCommitTimestamp`. */
export type CommitInfo = Readonly<Record<string, unknown>>;

/** Everything one commit says, grouped by kind (the order of actions in a commit means nothing). */
export interface CommitActions {
  readonly commitInfo: CommitInfo | null;
  readonly protocol: ProtocolAction | null;
  readonly metadata: MetadataAction | null;
  readonly txns: readonly TxnAction[];
  readonly domains: readonly DomainMetadataAction[];
  readonly removes: readonly RemoveFile[];
  readonly adds: readonly AddFile[];
  readonly cdcs: readonly CdcFile[];
}

/** A commit as read back: its version beside its actions. */
export interface Commit extends CommitActions {
  readonly version: bigint;
}

export const NO_ACTIONS: CommitActions = {
  commitInfo: null,
  protocol: null,
  metadata: null,
  txns: [],
  domains: [],
  removes: [],
  adds: [],
  cdcs: [],
};

/** An add with the optional fields absent unless given. */
export function newAdd(
  add: Pick<AddFile, 'path' | 'partitionValues' | 'size' | 'modificationTime' | 'dataChange' | 'stats'> &
    Partial<AddFile>,
): AddFile {
  return {
    path: add.path,
    partitionValues: add.partitionValues,
    size: add.size,
    modificationTime: add.modificationTime,
    dataChange: add.dataChange,
    stats: add.stats,
    tags: add.tags ?? null,
    deletionVector: add.deletionVector ?? null,
    baseRowId: add.baseRowId ?? null,
    defaultRowCommitVersion: add.defaultRowCommitVersion ?? null,
    clusteringProvider: add.clusteringProvider ?? null,
  };
}

/**
 * The remove that takes a live file out of the table, naming the vector it has now. (Forgetting that vector would leave
 * the old entry live and double the file's rows.)
 */
export function removeOf(file: AddFile, deletionTimestampMs: number, dataChange: boolean): RemoveFile {
  return {
    path: file.path,
    deletionTimestamp: BigInt(deletionTimestampMs),
    dataChange,
    extendedFileMetadata: true,
    partitionValues: file.partitionValues,
    size: file.size,
    stats: null,
    tags: file.tags,
    deletionVector: file.deletionVector,
    baseRowId: file.baseRowId,
    defaultRowCommitVersion: file.defaultRowCommitVersion,
  };
}

/** Identity of a vector within a file's key: `storageType + pathOrInlineDv [+ "@" + offset]`; empty without one. */
export function vectorId(vector: DeletionVectorDescriptor | null): string {
  if (vector === null) return '';
  const at = vector.offset === null ? '' : `@${vector.offset}`;
  return `${vector.storageType}${vector.pathOrInlineDv}${at}`;
}
