/**
 * Writes a classic V1 checkpoint: the state of one version as a Parquet file, its checksum, then the pointer to it. A crash in between
 * leaves a checkpoint that the next reader's listing finds; the pointer is only a hint.
 *
 * In it: protocol, metaData, every txn, live domains, removes that are younger than the file retention, live adds with
 * their vectors and row ids. Never commitInfo and cdc. A txn left out would let an old batch be applied again.
 */
import { encodeParquetParts } from '../parquet/encode.ts';
import { DEFAULT_BACKOFF, getWithRetry, withRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError, isRetriable } from '../store/store.ts';
import type { ObjectStore } from '../store/store.ts';
import type { RemoveFile } from './actions.ts';
import { object } from './action-json.ts';
import { CHECKPOINT_SCHEMA } from './checkpoint-schema.ts';
import type { ColumnBatch, ColumnVector } from './column.ts';
import { buildColumn } from './column-build.ts';
import { FILE_RETENTION_MS, intervalProperty } from './interval.ts';
import { parseLossless, stringifyLossless } from './lossless-json.ts';
import { LAST_CHECKPOINT, checkpointKey } from './log-files.ts';
import { assertMaintainable } from './protocol.ts';
import { openSnapshot } from './snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { assertChecksum, writeChecksum } from './version-checksum.ts';

export interface CheckpointOptions {
  readonly now?: () => number;
  readonly backoff?: Backoff;
}

export interface WrittenCheckpoint {
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly actions: number;
  /** False when the pointer could not be written or already names a newer checkpoint. */
  readonly pointerMoved: boolean;
}

/** @throws TableError as openSnapshot, CHECKSUM_MISMATCH, PROTOCOL_UNSUPPORTED; StoreError; ParquetError */
export async function writeCheckpoint(snapshot: Snapshot, options: CheckpointOptions = {}): Promise<WrittenCheckpoint> {
  const backoff = options.backoff ?? DEFAULT_BACKOFF;
  const now = options.now ?? Date.now;
  const whole =
    snapshot.tombstones === null
      ? await openSnapshot(snapshot.store, { version: snapshot.version, tombstones: true, backoff, now })
      : snapshot;
  assertMaintainable(whole.protocol, whole.store.uri);
  assertChecksum(whole);
  const rows = checkpointRows(whole, now());
  const { store, version } = whole;
  const body = await encodeParquetParts(CHECKPOINT_SCHEMA, toBatches(rows), {
    codec: 'snappy',
    rowGroupRows: ROW_GROUP_ROWS,
  });
  await withRetry(() => store.put(checkpointKey(version), body), isRetriable, backoff);
  const pointer = { version, size: rows.length, sizeInBytes: body.length, numOfAddFiles: whole.files.count };
  await writeChecksum(store, version, whole);
  const pointerMoved = await movePointer(store, pointer, backoff);
  return { version, sizeBytes: body.length, actions: rows.length, pointerMoved };
}

/** Small, so that a reader that goes row group by row group holds little. */
const ROW_GROUP_ROWS = 32_768;

/** The actions by kind; rows stand in this order. No object a row: there may be a million. */
interface Rows {
  readonly length: number;
  readonly groups: ReadonlyMap<string, { readonly from: number; readonly actions: readonly object[] }>;
}

function checkpointRows(snapshot: Snapshot, nowMs: number): Rows {
  const retentionMs = intervalProperty(
    snapshot.metadata.configuration,
    'delta.deletedFileRetentionDuration',
    FILE_RETENTION_MS,
  );
  const oldest = BigInt(nowMs - retentionMs);
  const groups = new Map<string, { readonly from: number; readonly actions: readonly object[] }>();
  let length = 0;
  const push = (kind: string, actions: readonly object[]): void => {
    groups.set(kind, { from: length, actions });
    length += actions.length;
  };
  push('protocol', [snapshot.protocol]);
  push('metaData', [snapshot.metadata]);
  push('txn', [...snapshot.txns.values()]);
  push('domainMetadata', [...snapshot.domains.values()]);
  push('remove', unexpired(snapshot.tombstones?.values() ?? [], oldest));
  push('add', [...snapshot.files]);
  return { length, groups };
}

function unexpired(removes: Iterable<RemoveFile>, oldest: bigint): readonly RemoveFile[] {
  const kept: RemoveFile[] = [];
  for (const remove of removes) if ((remove.deletionTimestamp ?? 0n) >= oldest) kept.push(remove);
  return kept;
}

/** A row group at a time: columns of all rows together took several times their size. */
function* toBatches(rows: Rows): Generator<ColumnBatch> {
  for (let start = 0; start < rows.length; start += ROW_GROUP_ROWS)
    yield toBatch(rows, start, Math.min(ROW_GROUP_ROWS, rows.length - start));
}

function toBatch(rows: Rows, start: number, rowCount: number): ColumnBatch {
  return {
    rowCount,
    names: CHECKPOINT_SCHEMA.fields.map(({ name }) => name),
    columns: CHECKPOINT_SCHEMA.fields.map(({ name, type }) => {
      const { from, actions } = rows.groups.get(name) ?? { from: 0, actions: [] };
      const at = start - from;
      // Out of bounds on either side is NULL.
      return withoutDataChange(buildColumn(type, rowCount, (row) => (row < -at ? null : actions[row + at])));
    }),
  };
}

/** State is no change: `dataChange` is false throughout. */
function withoutDataChange(column: ColumnVector): ColumnVector {
  if (column.kind !== 'struct') return column;
  const children = column.children.map((child, at) =>
    child.kind === 'boolean' && column.names[at] === 'dataChange'
      ? { ...child, values: new Uint8Array(child.values.length) }
      : child,
  );
  return { ...column, children };
}

/** Never backwards: another writer may have checkpointed a later version meanwhile. Failing to move it is no failure. */
async function movePointer(
  store: ObjectStore,
  pointer: { readonly version: bigint } & Readonly<Record<string, unknown>>,
  backoff: Backoff,
): Promise<boolean> {
  try {
    if ((await pointerVersion(store, backoff)) > pointer.version) return false;
    const body = new TextEncoder().encode(stringifyLossless(pointer));
    await withRetry(() => store.put(LAST_CHECKPOINT, body), isRetriable, backoff);
    return true;
  } catch (error) {
    if (error instanceof StoreError) return false;
    throw error;
  }
}

async function pointerVersion(store: ObjectStore, backoff: Backoff): Promise<bigint> {
  try {
    const body = await getWithRetry(store, LAST_CHECKPOINT, undefined, backoff);
    const version = object(parseLossless(new TextDecoder().decode(body)), 'the pointer')['version'];
    return typeof version === 'number' && Number.isSafeInteger(version) ? BigInt(version) : -1n;
  } catch (error) {
    if (error instanceof StoreError && error.code !== 'STORE_NOT_FOUND' && error.code !== 'STORE_TRUNCATED')
      throw error;
    return -1n;
  }
}
