/**
 * Creates a table: commit 0 with protocol and metadata. The features are chosen once, here, because taking one away later
 * needs the history truncated. The default set (reader 3, writer 7, deletion vectors) is read by Spark, DuckDB, delta-rs,
 * Polars and Trino alike; `deletionVectors: false` gives a table that also older readers (and `to_pandas`) take.
 */
import { randomUUID } from 'node:crypto';
import { DEFAULT_BACKOFF } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import type { ObjectStore } from '../store/store.ts';
import { NO_ACTIONS } from './actions.ts';
import type { CommitActions, MetadataAction, ProtocolAction } from './actions.ts';
import { serializeCommit } from './action-json.ts';
import { withColumnMapping } from './column-mapping.ts';
import { ENGINE_INFO } from './commit.ts';
import { listLog } from './log-segment.ts';
import { putCommit } from './put-commit.ts';
import { assertTableSchema } from './schema-rules.ts';
import { schemaText } from './schema-json.ts';
import { usesType } from './schema-walk.ts';
import type { StructType } from './schema.ts';
import { openSnapshot } from './snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { TableError } from './table-error.ts';

export interface CreateOptions {
  readonly schema: StructType;
  readonly partitionColumns?: readonly string[];
  readonly name?: string;
  readonly description?: string;
  /** True by default. False: updates and deletes copy files. */
  readonly deletionVectors?: boolean;
  /** False by default: whether commits also write change files. */
  readonly changeDataFeed?: boolean;
  /** Off by default (Polars and older readers cannot read such tables); needed to rename or drop columns in place. */
  readonly columnMapping?: boolean;
  /** Off by default (Trino and delta-rs cannot write such tables). */
  readonly inCommitTimestamps?: boolean;
  /** More table properties; they win over the defaults. */
  readonly properties?: Readonly<Record<string, string>>;
  /** commitInfo members beside Delta's own. */
  readonly info?: Readonly<Record<string, unknown>>;
  readonly now?: () => number;
  readonly newId?: () => string;
  readonly backoff?: Backoff;
}

/**
 * @param store rooted at the table
 * @throws TableError TABLE_EXISTS | SCHEMA_INVALID | COMMIT_OUTCOME_UNKNOWN; StoreError
 */
export async function createTable(store: ObjectStore, options: CreateOptions): Promise<Snapshot> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const newId = options.newId ?? randomUUID;
  const nowMs = (options.now ?? Date.now)();
  const table = store.uri;
  assertTableSchema(
    options.schema,
    options.partitionColumns ?? [],
    options.changeDataFeed === true,
    table,
    options.columnMapping === true,
  );
  if ((await listLog(store, null, backoff)).newest !== null) throw tableExists(table);
  const writerToken = newId();
  const actions: CommitActions = {
    ...NO_ACTIONS,
    commitInfo: {
      ...(options.inCommitTimestamps === true ? { inCommitTimestamp: nowMs } : {}),
      timestamp: nowMs,
      operation: 'CREATE TABLE',
      operationParameters: {
        partitionBy: JSON.stringify(options.partitionColumns ?? []),
        isManaged: 'false',
      },
      isolationLevel: 'Serializable',
      isBlindAppend: true,
      operationMetrics: {},
      engineInfo: ENGINE_INFO,
      ...options.info,
      txnId: writerToken,
    },
    protocol: protocolFor(options),
    metadata: metadataFor(options, newId, nowMs),
  };
  const put = await putCommit(store, 0n, serializeCommit(actions), writerToken, backoff);
  if (put.kind === 'lost') throw tableExists(table);
  return openSnapshot(store, { backoff, ...(options.now === undefined ? {} : { now: options.now }) });
}

function tableExists(table: string): TableError {
  return new TableError('TABLE_EXISTS', { table }, 'a Delta table is already here; open it, or choose another place');
}

function protocolFor(options: CreateOptions): ProtocolAction {
  const vectors = options.deletionVectors !== false;
  const ntz = usesType(options.schema, 'timestamp_ntz');
  const reader = [
    ...(vectors ? ['deletionVectors'] : []),
    ...(ntz ? ['timestampNtz'] : []),
    // Always in both lists: as legacy version 2 some readers answer NULLs in silence.
    ...(options.columnMapping === true ? ['columnMapping'] : []),
  ];
  const writer = [
    'appendOnly',
    'invariants',
    'changeDataFeed',
    ...reader,
    ...(options.inCommitTimestamps === true ? ['inCommitTimestamp'] : []),
  ];
  if (reader.length > 0) {
    return { minReaderVersion: 3, minWriterVersion: 7, readerFeatures: reader, writerFeatures: writer };
  }
  if (options.changeDataFeed === true || options.inCommitTimestamps === true) {
    return { minReaderVersion: 1, minWriterVersion: 7, readerFeatures: null, writerFeatures: writer };
  }
  return { minReaderVersion: 1, minWriterVersion: 2, readerFeatures: null, writerFeatures: null };
}

function metadataFor(options: CreateOptions, newId: () => string, nowMs: number): MetadataAction {
  const mapped = options.columnMapping === true ? withColumnMapping(options.schema, newId) : null;
  return {
    id: newId(),
    name: options.name ?? null,
    description: options.description ?? null,
    format: { provider: 'parquet', options: {} },
    schemaString: schemaText(mapped?.schema ?? options.schema),
    partitionColumns: options.partitionColumns ?? [],
    configuration: {
      'delta.logRetentionDuration': 'interval 7 days',
      ...(options.deletionVectors === false ? {} : { 'delta.enableDeletionVectors': 'true' }),
      ...(options.changeDataFeed === true ? { 'delta.enableChangeDataFeed': 'true' } : {}),
      ...(options.inCommitTimestamps === true ? { 'delta.enableInCommitTimestamps': 'true' } : {}),
      ...(mapped === null
        ? {}
        : { 'delta.columnMapping.mode': 'name', 'delta.columnMapping.maxColumnId': String(mapped.maxColumnId) }),
      ...options.properties,
    },
    createdTime: BigInt(nowMs),
  };
}
