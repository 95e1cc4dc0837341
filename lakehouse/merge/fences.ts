/**
 * Fences in the lake: which keys were deleted by which event, so that an older event that comes again by a side path
 * (replay, backfill, quarantine retry) does not bring a row back, even when every local file is lost.
 *
 *   <table>/_sluice/fences/<uuid>.parquet                  written before the commit that deletes, named in its commitInfo
 *   <table>/_sluice/fences/<from>-<to>.compacted.parquet   all named fences of the commits from..to (20 digits each)
 *
 * Rows: the key columns, `_sluice_epoch`, `_sluice_lsn`, `_sluice_ord` of the delete, `_sluice_fenced_at`, and
 * `_sluice_truncate`: true on a row (its key is NULL) that fences every key. VACUUM leaves the folder alone (its name begins with an underscore).
 */
import { randomUUID } from 'node:crypto';
import { ENTRY_WORDS, FENCE } from '../index/entry.ts';
import { HASH_WORDS, hashKeys } from '../index/key-hash.ts';
import type { TruncatePosition } from '../index/manifest.ts';
import { bytesSource } from '../parquet/byte-source.ts';
import { decodeParquet } from '../parquet/decode.ts';
import { encodeParquet } from '../parquet/encode.ts';
import { nullColumn } from '../parquet/spread.ts';
import { getWithRetry } from '../store/retry.ts';
import { StoreError, type ObjectStore } from '../store/store.ts';
import type { Commit } from '../table/actions.ts';
import type { ColumnBatch, ColumnVector } from '../table/column.ts';
import { readCommit } from '../table/log-reader.ts';
import { versionName } from '../table/log-files.ts';
import type { StructField, StructType } from '../table/schema.ts';
import { concat } from './concat.ts';
import { pickRows } from './delete-rows.ts';
import { trueRows } from './file-entries.ts';
import { gather, picksOf } from './gather.ts';
import {
  EPOCH_COLUMN,
  LSN_COLUMN,
  ORD_COLUMN,
  POSITION_FIELDS,
  positionsOf,
  type Positions,
} from './position-columns.ts';
import { putObject } from './put-object.ts';
import { comparePositionAt } from './resolve.ts';

export const FENCE_FOLDER = '_sluice/fences/';
/** commitInfo member that names a commit's fence files. */
export const FENCE_MEMBER = 'sluiceFences';
const FENCED_AT = '_sluice_fenced_at';
const IS_TRUNCATE = '_sluice_truncate';
const COMPACTED = /(\d{20})-(\d{20})\.compacted\.parquet$/;
/** Fence files that are no part of a commit after this long were left by a crash. */
const ORPHAN_MS = 24 * 60 * 60 * 1000;
const READ_PARALLEL = 8;

export interface FenceKeys {
  readonly fields: readonly StructField[];
}

function fenceSchema(keys: FenceKeys): StructType {
  const keyFields = keys.fields.map((field) => ({ ...field, nullable: true, metadata: {} }));
  const at: StructField = { name: FENCED_AT, type: 'timestamp', nullable: true, metadata: {} };
  const truncate: StructField = { name: IS_TRUNCATE, type: 'boolean', nullable: true, metadata: {} };
  return { type: 'struct', fields: [...keyFields, ...POSITION_FIELDS, at, truncate] };
}

export interface FenceRows {
  /** Key columns of the batch. */
  readonly keys: readonly ColumnVector[];
  /** Rows of it that delete. */
  readonly rows: Uint32Array;
  readonly positions: Positions;
  readonly truncate: TruncatePosition | null;
}

/** Writes one fence file; returns its key below the table root. */
export async function writeFences(
  store: ObjectStore,
  keys: FenceKeys,
  fences: FenceRows,
  nowMs: number,
): Promise<{ readonly key: string; readonly bytes: number }> {
  const batch = fenceBatch(keys, fences, nowMs);
  const body = await encodeParquet(fenceSchema(keys), batch, { codec: 'snappy' });
  const key = `${FENCE_FOLDER}${randomUUID()}.parquet`;
  await putObject(store, key, body);
  return { key, bytes: body.byteLength };
}

function fenceBatch(keys: FenceKeys, fences: FenceRows, nowMs: number): ColumnBatch {
  const { rows, positions, truncate } = fences;
  const extra = truncate === null ? 0 : 1;
  const count = rows.length + extra;
  const picks = picksOf(rows);
  const keyColumns = keys.fields.map((field, i) => {
    const picked = gather([fences.keys[i] as ColumnVector], picks);
    return extra === 0 ? picked : concat([picked, nullColumn(field.type, 1)]);
  });
  const epoch = new Int32Array(count);
  const ord = new Int32Array(count);
  const lsn = new BigInt64Array(count);
  const words = new Uint32Array(lsn.buffer);
  rows.forEach((row, i) => {
    epoch[i] = positions.epoch[row] ?? 0;
    ord[i] = positions.ord[row] ?? 0;
    words[i * 2] = positions.lsnWords[row * 2] ?? 0;
    words[i * 2 + 1] = positions.lsnWords[row * 2 + 1] ?? 0;
  });
  if (truncate !== null) {
    epoch[count - 1] = truncate.epoch;
    ord[count - 1] = truncate.ord;
    lsn[count - 1] = BigInt.asIntN(64, truncate.lsn);
  }
  const at = new BigInt64Array(count).fill(BigInt(nowMs) * 1000n);
  const base = { length: count, validity: null };
  const isTruncate = new Uint8Array((count + 7) >> 3);
  if (truncate !== null) isTruncate[(count - 1) >> 3] = 1 << ((count - 1) & 7);
  return {
    rowCount: count,
    names: fenceSchema(keys).fields.map((field) => field.name),
    columns: [
      ...keyColumns,
      { kind: 'int64', ...base, values: lsn },
      { kind: 'int32', ...base, values: ord },
      { kind: 'int32', ...base, values: epoch },
      { kind: 'int64', ...base, values: at },
      { kind: 'boolean', ...base, values: isTruncate },
    ],
  };
}

export interface LoadedFences {
  /** Unsorted index entries. */
  readonly entries: Uint32Array;
  readonly truncate: TruncatePosition | null;
}

/** Fence files that a commit names. */
export function fencesNamedBy(commit: Commit): readonly string[] {
  const named = commit.commitInfo?.[FENCE_MEMBER];
  return Array.isArray(named) ? named.filter((key): key is string => typeof key === 'string') : [];
}

/** Reads these fence files. */
export async function readFences(store: ObjectStore, keys: FenceKeys, names: readonly string[]): Promise<LoadedFences> {
  return toEntries(keys, await readFenceBatches(store, keys, names));
}

async function readFenceBatches(
  store: ObjectStore,
  keys: FenceKeys,
  names: readonly string[],
): Promise<readonly ColumnBatch[]> {
  const batches: ColumnBatch[] = [];
  for (let at = 0; at < names.length; at += READ_PARALLEL) {
    const turn = names.slice(at, at + READ_PARALLEL).map(async (name) => {
      const body = await getWithRetry(store, name);
      return decodeParquet(bytesSource(name, body), fenceSchema(keys));
    });
    batches.push(...(await Promise.all(turn)));
  }
  return batches;
}

function toEntries(keys: FenceKeys, batches: readonly ColumnBatch[]): LoadedFences {
  const total = batches.reduce((sum, batch) => sum + batch.rowCount, 0);
  const entries = new Uint32Array(total * ENTRY_WORDS);
  let at = 0;
  let truncate: TruncatePosition | null = null;
  for (const batch of batches) {
    const keyColumns = batch.columns.slice(0, keys.fields.length);
    const hashes = hashKeys(keyColumns, batch.rowCount);
    const positions = batchPositions(batch);
    const fencedAt = batch.columns[batch.names.indexOf(FENCED_AT)];
    const truncates = truncateRows(batch);
    for (let row = 0; row < batch.rowCount; row++) {
      if (bit(truncates, row)) {
        if (truncate === null || comparePositionAt(positions, row, truncate) > 0) truncate = positionAt(positions, row);
        continue;
      }
      // Written when the table had another key: it says nothing about today's keys.
      if (keyColumns.some((column) => column.validity !== null && !bit(column.validity, row))) continue;
      for (let word = 0; word < HASH_WORDS; word++) entries[at + word] = hashes[row * HASH_WORDS + word] ?? 0;
      entries[at + 4] = FENCE;
      entries[at + 5] = fencedAt?.kind === 'int64' ? Number((fencedAt.values[row] ?? 0n) / 1_000_000n) : 0;
      entries[at + 6] = positions.epoch[row] ?? 0;
      entries[at + 7] = positions.ord[row] ?? 0;
      entries[at + 8] = positions.lsnWords[row * 2] ?? 0;
      entries[at + 9] = positions.lsnWords[row * 2 + 1] ?? 0;
      at += ENTRY_WORDS;
    }
  }
  return { entries: entries.subarray(0, at), truncate };
}

/** Bitmap of the rows that fence every key. */
function truncateRows(batch: ColumnBatch): Uint8Array {
  return trueRows(batch.columns[batch.names.indexOf(IS_TRUNCATE)]) ?? new Uint8Array((batch.rowCount + 7) >> 3);
}

const bit = (bits: Uint8Array, row: number): boolean => ((bits[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;

function batchPositions(batch: ColumnBatch): Positions {
  const column = (name: string): ColumnVector | undefined => batch.columns[batch.names.indexOf(name)];
  return positionsOf({ epoch: column(EPOCH_COLUMN), lsn: column(LSN_COLUMN), ord: column(ORD_COLUMN) }, batch.rowCount);
}

function positionAt(positions: Positions, row: number): TruncatePosition {
  const high = BigInt(positions.lsnWords[row * 2 + 1] ?? 0);
  return {
    epoch: positions.epoch[row] ?? 0,
    lsn: (high << 32n) | BigInt(positions.lsnWords[row * 2] ?? 0),
    ord: positions.ord[row] ?? 0,
  };
}

interface FenceFolder {
  readonly compacted: readonly { readonly key: string; readonly from: bigint; readonly to: bigint }[];
  readonly single: readonly { readonly key: string; readonly modifiedMs: number }[];
}

async function listFences(store: ObjectStore): Promise<FenceFolder> {
  const compacted: { key: string; from: bigint; to: bigint }[] = [];
  const single: { key: string; modifiedMs: number }[] = [];
  for await (const { key, modifiedMs } of store.list(FENCE_FOLDER)) {
    const match = COMPACTED.exec(key);
    if (match !== null) compacted.push({ key, from: BigInt(match[1] ?? 0), to: BigInt(match[2] ?? 0) });
    else if (key.endsWith('.parquet')) single.push({ key, modifiedMs });
  }
  return { compacted, single };
}

/**
 * Single files that belong to commits after `covered` up to `version`. Where a commit was cleaned up, nobody can say what it
 * named: then every single file counts, for a fence too many holds back nothing but what its event made obsolete.
 */
async function namedSingles(
  store: ObjectStore,
  folder: FenceFolder,
  covered: bigint,
  version: bigint,
): Promise<readonly string[]> {
  if (folder.single.length === 0) return [];
  const present = new Set(folder.single.map(({ key }) => key));
  const named: string[] = [];
  for (let at = covered + 1n; at <= version; at += BigInt(READ_PARALLEL)) {
    const versions = Array.from({ length: READ_PARALLEL }, (_, i) => at + BigInt(i)).filter((one) => one <= version);
    const commits = await Promise.all(versions.map((one) => readCommit(store, one)));
    for (const commit of commits) {
      if (commit === null) return [...present];
      named.push(...fencesNamedBy(commit).filter((key) => present.has(key)));
    }
  }
  return named;
}

const coveredBy = (folder: FenceFolder): bigint =>
  folder.compacted.reduce((most, { to }) => (to > most ? to : most), -1n);

/** All fences of the table at a version: for an index that is built anew. */
export async function loadAllFences(store: ObjectStore, keys: FenceKeys, version: bigint): Promise<LoadedFences> {
  for (let attempt = 0; ; attempt++) {
    const folder = await listFences(store);
    const singles = await namedSingles(store, folder, coveredBy(folder), version);
    try {
      return await readFences(store, keys, [...folder.compacted.map(({ key }) => key), ...singles]);
    } catch (error) {
      // Compacted meanwhile: the files' successor is in the next listing.
      const gone = error instanceof StoreError && error.code === 'STORE_NOT_FOUND';
      if (!gone || attempt >= 3) throw error;
    }
  }
}

export interface FenceCompaction {
  /** Fences written before it are dropped, ms since the epoch. */
  readonly keepSinceMs: number;
  readonly nowMs: number;
  /** Single files that make a compaction worth while. */
  readonly singlesMin: number;
  /** Compacted files before they are all joined to one. */
  readonly compactedMax: number;
}

/**
 * Joins the fence files of the commits up to `version`. Safe at any point of a crash: the joined file is written before its
 * parts go, and a fence that is there twice says the same thing twice.
 */
export async function compactFences(
  store: ObjectStore,
  keys: FenceKeys,
  version: bigint,
  rules: FenceCompaction,
): Promise<void> {
  const folder = await listFences(store);
  const singles = await namedSingles(store, folder, coveredBy(folder), version);
  const joinAll = folder.compacted.length > rules.compactedMax;
  if (singles.length >= rules.singlesMin || joinAll) {
    const parts = [...singles, ...(joinAll ? folder.compacted.map(({ key }) => key) : [])];
    const from = joinAll ? 0n : coveredBy(folder) + 1n;
    const key = `${FENCE_FOLDER}${versionName(from)}-${versionName(version)}.compacted.parquet`;
    const batch = keepRecent(keys, await readFenceBatches(store, keys, parts), rules.keepSinceMs);
    await putObject(store, key, await encodeParquet(fenceSchema(keys), batch, { codec: 'snappy' }));
    await store.delete(parts.filter((part) => part !== key));
  }
  const named = new Set(singles);
  const orphans = folder.single.filter(
    ({ key, modifiedMs }) => !named.has(key) && modifiedMs < rules.nowMs - ORPHAN_MS && modifiedMs < rules.keepSinceMs,
  );
  if (orphans.length > 0) await store.delete(orphans.map(({ key }) => key));
}

/** Rows still to be kept; the newest TRUNCATE always is. */
function keepRecent(keys: FenceKeys, batches: readonly ColumnBatch[], keepSinceMs: number): ColumnBatch {
  const schema = fenceSchema(keys);
  const joined = schema.fields.map((field, column) =>
    joinColumns(
      batches.map((batch) => batch.columns[column] as ColumnVector),
      field,
    ),
  );
  const names = schema.fields.map((field) => field.name);
  const all: ColumnBatch = { rowCount: joined[0]?.length ?? 0, names, columns: joined };
  const truncates = truncateRows(all);
  const at = joined[names.indexOf(FENCED_AT)];
  const keep: number[] = [];
  if (at?.kind === 'int64')
    for (let row = 0; row < all.rowCount; row++)
      if (bit(truncates, row) || (at.values[row] ?? 0n) >= BigInt(keepSinceMs) * 1000n) keep.push(row);
  return pickRows(all, Uint32Array.from(keep));
}

function joinColumns(columns: readonly ColumnVector[], field: StructField): ColumnVector {
  if (columns.length === 0) return nullColumn(field.type, 0);
  let parts = columns;
  while (parts.length > 1) {
    const next: ColumnVector[] = [];
    for (let from = 0; from < parts.length; from += 200) next.push(concat(parts.slice(from, from + 200)));
    parts = next;
  }
  return parts[0] as ColumnVector;
}
