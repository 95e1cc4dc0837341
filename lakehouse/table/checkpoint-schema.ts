/**
 * The columns of a checkpoint file (PROTOCOL.md, "Checkpoint Schema"): one row an action, one column a kind, NULL in all
 * the others. As we write it; files of other writers may have fewer and more columns.
 */
import type { DeltaType, MapType, StructField, StructType } from './schema.ts';

function field(name: string, type: DeltaType): StructField {
  return { name, type, nullable: true, metadata: {} };
}

function struct(fields: Readonly<Record<string, DeltaType>>): StructType {
  return { type: 'struct', fields: Object.entries(fields).map(([name, type]) => field(name, type)) };
}

const TEXT_MAP: MapType = { type: 'map', keyType: 'string', valueType: 'string', valueContainsNull: true };
const TEXT_LIST: DeltaType = { type: 'array', elementType: 'string', containsNull: true };

const VECTOR = struct({
  storageType: 'string',
  pathOrInlineDv: 'string',
  offset: 'integer',
  sizeInBytes: 'integer',
  cardinality: 'long',
});

const TXN = struct({ appId: 'string', version: 'long', lastUpdated: 'long' });

const ADD_FIELDS = {
  path: 'string',
  partitionValues: TEXT_MAP,
  size: 'long',
  modificationTime: 'long',
  dataChange: 'boolean',
  tags: TEXT_MAP,
  deletionVector: VECTOR,
  baseRowId: 'long',
  defaultRowCommitVersion: 'long',
  clusteringProvider: 'string',
  stats: 'string',
} as const;

const REMOVE = struct({
  path: 'string',
  deletionTimestamp: 'long',
  dataChange: 'boolean',
  extendedFileMetadata: 'boolean',
  partitionValues: TEXT_MAP,
  size: 'long',
  deletionVector: VECTOR,
  baseRowId: 'long',
  defaultRowCommitVersion: 'long',
});

const METADATA = struct({
  id: 'string',
  name: 'string',
  description: 'string',
  format: struct({ provider: 'string', options: TEXT_MAP }),
  schemaString: 'string',
  partitionColumns: TEXT_LIST,
  configuration: TEXT_MAP,
  createdTime: 'long',
});

const PROTOCOL = struct({
  minReaderVersion: 'integer',
  minWriterVersion: 'integer',
  readerFeatures: TEXT_LIST,
  writerFeatures: TEXT_LIST,
});

const DOMAIN = struct({ domain: 'string', configuration: 'string', removed: 'boolean' });

const SIDECAR = struct({ path: 'string', sizeInBytes: 'long', modificationTime: 'long' });

/** Everything, in the order that other writers have it. */
export const CHECKPOINT_SCHEMA: StructType = struct({
  txn: TXN,
  add: struct(ADD_FIELDS),
  remove: REMOVE,
  metaData: METADATA,
  protocol: PROTOCOL,
  domainMetadata: DOMAIN,
});

/** The few rows that say what the table is; read first, for the table's schema tells how to read the rest. */
export const TABLE_COLUMNS: StructType = struct({
  txn: TXN,
  metaData: METADATA,
  protocol: PROTOCOL,
  domainMetadata: DOMAIN,
  sidecar: SIDECAR,
});

/**
 * The file actions.
 * @param parsedStats type of `add.stats_parsed`, when statistics must be taken from there
 */
export function fileColumns(withRemoves: boolean, parsedStats: StructType | null): StructType {
  const add = parsedStats === null ? ADD_FIELDS : { ...ADD_FIELDS, stats_parsed: parsedStats };
  return struct(withRemoves ? { add: struct(add), remove: REMOVE } : { add: struct(add) });
}
