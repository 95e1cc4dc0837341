/**
 * What changed between versions (PROTOCOL.md, "Change Data Files"). A commit with change files is told by them alone;
 * another by its files: rows of an added file are inserts, of a removed one deletes, and where a file only got another
 * deletion vector, the difference of the two.
 */
import type { ObjectStore } from '../store/store.ts';
import type { AddFile, CdcFile, Commit, RemoveFile } from '../table/actions.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { canonicalPath } from '../table/file-path.ts';
import { readCommit } from '../table/log-reader.ts';
import { commitKey } from '../table/log-files.ts';
import { milliseconds } from '../table/replay.ts';
import { subtractRows } from '../table/row-bitmap.ts';
import type { StructField, StructType } from '../table/schema.ts';
import { openSnapshot, type Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { liveRows, rowsAt, vectorRows } from './file-rows.ts';
import { partitionColumn } from './partition-column.ts';

export type ChangeType = 'insert' | 'update_preimage' | 'update_postimage' | 'delete';

export interface ChangesOptions {
  /** First version, inclusive. */
  readonly from: bigint;
  /** Last version, inclusive; the newest when absent. */
  readonly to?: bigint;
  readonly columns?: readonly string[];
}

const FEED = 'delta.enableChangeDataFeed';
const CHANGE_TYPE: StructField = { name: '_change_type', type: 'string', nullable: false, metadata: {} };
const COMMIT_FIELDS: readonly StructField[] = [
  { name: '_commit_version', type: 'long', nullable: false, metadata: {} },
  { name: '_commit_timestamp', type: 'timestamp', nullable: false, metadata: {} },
];

/** The table's columns as of the last version, then `_change_type`, `_commit_version`, `_commit_timestamp`. */
export function changesSchema(last: Snapshot, columns?: readonly string[]): StructType {
  const fields = last.schema.fields.filter((field) => columns === undefined || columns.includes(field.name));
  return { type: 'struct', fields: [...fields, CHANGE_TYPE, ...COMMIT_FIELDS] };
}

/**
 * Batches in version order; every batch is of one version. Values are read with the schema of the last version.
 * @throws TableError VERSION_NOT_FOUND when a version is not in the log or recorded no changes (the feed was off);
 * DATA_FILE_MISSING when VACUUM took a file; as openSnapshot
 */
export async function* readChanges(store: ObjectStore, options: ChangesOptions): AsyncGenerator<ColumnBatch> {
  const last = await openSnapshot(store, options.to === undefined ? {} : { version: options.to });
  if (options.from > last.version || options.from < 0n)
    throw new TableError(
      'VERSION_NOT_FOUND',
      { table: store.uri, version: options.from },
      `changes are asked from version ${options.from}, the last one is ${last.version}`,
    );
  const first = await openSnapshot(store, { version: options.from });
  requireFeed(first.metadata.configuration, store, options.from);
  const fields = changesSchema(last, options.columns).fields.slice(0, -3);
  for (let version = options.from; version <= last.version; version++) {
    const commit = await readCommit(store, version);
    if (commit === null)
      throw new TableError('VERSION_NOT_FOUND', { table: store.uri, version }, 'the commit was cleaned up');
    if (commit.metadata !== null) requireFeed(commit.metadata.configuration, store, version);
    const timestamp = await commitMicros(store, commit);
    for await (const batch of commitChanges(last, commit, fields)) yield stamped(batch, version, timestamp);
  }
}

function requireFeed(configuration: Readonly<Record<string, string>>, store: ObjectStore, version: bigint): void {
  if (configuration[FEED]?.toLowerCase() === 'true') return;
  throw new TableError(
    'VERSION_NOT_FOUND',
    { table: store.uri, version },
    `changes of this version were not recorded: ${FEED} was not on`,
  );
}

/** The time that other engines give, and time travel goes by: the in-commit timestamp, else the file's. */
async function commitMicros(store: ObjectStore, commit: Commit): Promise<bigint> {
  const stampMs = milliseconds(commit.commitInfo?.['inCommitTimestamp']);
  const timeMs = stampMs ?? (await store.head(commitKey(commit.version)))?.modifiedMs ?? 0;
  return BigInt(timeMs) * 1000n;
}

async function* commitChanges(
  last: Snapshot,
  commit: Commit,
  fields: readonly StructField[],
): AsyncGenerator<ColumnBatch> {
  if (commit.cdcs.length > 0) {
    for (const file of commit.cdcs) yield* changeFile(last, file, fields);
    return;
  }
  const removes = await withPartitions(
    last,
    commit,
    commit.removes.filter((file) => file.dataChange),
  );
  const adds = commit.adds.filter((file) => file.dataChange);
  const addedAt = new Map(adds.map((file) => [canonicalPath(file.path), file]));
  const replaced = new Set<string>();
  for (const removed of removes) {
    const added = addedAt.get(canonicalPath(removed.path));
    if (added === undefined) {
      const hidden = await vectorRows(last, removed.deletionVector);
      for await (const batch of liveRows(last, removed, fields, hidden)) yield typed(batch, 'delete');
    } else {
      replaced.add(canonicalPath(removed.path));
      yield* vectorChange(last, removed, added, fields);
    }
  }
  for (const added of adds) {
    if (replaced.has(canonicalPath(added.path))) continue;
    const hidden = await vectorRows(last, added.deletionVector);
    for await (const batch of liveRows(last, added, fields, hidden)) yield typed(batch, 'insert');
  }
}

/** A remove may leave out its file's partition values: the version before has them. */
async function withPartitions(
  last: Snapshot,
  { version }: Commit,
  removes: readonly RemoveFile[],
): Promise<readonly RemoveFile[]> {
  if (last.metadata.partitionColumns.length === 0 || removes.every((file) => file.partitionValues !== null))
    return removes;
  const before = new Map<string, AddFile>();
  for (const file of (await openSnapshot(last.store, { version: version - 1n })).files)
    before.set(canonicalPath(file.path), file);
  return removes.map((file) => ({
    ...file,
    partitionValues: file.partitionValues ?? before.get(canonicalPath(file.path))?.partitionValues ?? null,
  }));
}

async function* changeFile(last: Snapshot, file: CdcFile, fields: readonly StructField[]): AsyncGenerator<ColumnBatch> {
  yield* liveRows(last, file, [...fields, CHANGE_TYPE], new Uint32Array(0));
}

async function* vectorChange(
  last: Snapshot,
  removed: RemoveFile,
  added: AddFile,
  fields: readonly StructField[],
): AsyncGenerator<ColumnBatch> {
  const before = await vectorRows(last, removed.deletionVector);
  const after = await vectorRows(last, added.deletionVector);
  const gone = subtractRows(after, before);
  const back = subtractRows(before, after);
  if (gone.length > 0) yield typed(await rowsAt(last, added, fields, gone), 'delete');
  if (back.length > 0) yield typed(await rowsAt(last, added, fields, back), 'insert');
}

function typed(batch: ColumnBatch, change: ChangeType): ColumnBatch {
  return withColumns(batch, [CHANGE_TYPE], [partitionColumn('string', change, batch.rowCount)]);
}

function stamped(batch: ColumnBatch, version: bigint, micros: bigint): ColumnBatch {
  const columns = [version, micros].map((value): ColumnVector => {
    const values = new BigInt64Array(batch.rowCount).fill(value);
    return { kind: 'int64', length: batch.rowCount, validity: null, values };
  });
  return withColumns(batch, COMMIT_FIELDS, columns);
}

function withColumns(
  batch: ColumnBatch,
  fields: readonly StructField[],
  columns: readonly ColumnVector[],
): ColumnBatch {
  return {
    rowCount: batch.rowCount,
    names: [...batch.names, ...fields.map((field) => field.name)],
    columns: [...batch.columns, ...columns],
  };
}
