/**
 * From a resolved batch to everything but the commit itself:
 *
 *   1. rows to write, completed from stored rows        -> new data files
 *   2. rows to take away (replaced, deleted, truncated) -> one deletion-vector file, or copies without them
 *   3. deletes and the truncate                         -> a fence file
 *   4. images before and after, when the feed is on     -> change files
 *
 * All objects are written before this resolves; the actions that name them are what is committed.
 */
import { ENTRY_WORDS, FENCE, sortEntries } from '../index/entry.ts';
import type { IndexChange, KeyIndex } from '../index/key-index.ts';
import type { ParquetCodec } from '../parquet/encode.ts';
import { NO_ACTIONS, type CommitActions } from '../table/actions.ts';
import type { Operation } from '../table/commit.ts';
import type { ColumnBatch } from '../table/column.ts';
import { containsRow, type RowSet } from '../table/row-bitmap.ts';
import type { StructType } from '../table/schema.ts';
import { tableProperty, type Snapshot } from '../table/snapshot.ts';
import { appendedRows } from './append-rows.ts';
import type { BaseRows } from './base-rows.ts';
import { writeChangeFiles, type ChangeFiles, type ChangePart } from './change-files.ts';
import { APART_BYTES } from './file-thread.ts';
import { NO_FILES, writeDataFiles, writeEntry, type FileSettings, type WrittenFiles } from './data-files.ts';
import { deleteByCopy, deleteByVector, livingRows, type DeletedRows } from './delete-rows.ts';
import { createDoomedRows } from './doomed-rows.ts';
import { evolveTable, type Evolution } from './evolve-table.ts';
import { FENCE_MEMBER, writeFences } from './fences.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import type { MergeCommit, MergeMode } from './merge.ts';
import { mergeOperation } from './merge-operation.ts';
import { ABSENT_FIELD, DELETED_FIELD } from './position-columns.ts';
import type { Resolution } from './resolve.ts';
import { writeRows } from './row-files.ts';
import { countOutcomes, planRows, type RowCounts, type RowPlan } from './row-plan.ts';
import { softTruncate } from './soft-truncate.ts';
import { mergeSchemas, type MergedSchema } from './table-schema.ts';
import type { TruncatedRows } from './truncate.ts';
import type { VectorCache } from './vector-cache.ts';

export interface StageSettings {
  readonly mode: MergeMode;
  readonly codec: ParquetCodec;
  readonly fileRowsMax: number;
  readonly fileBytesMax: number;
  /** As RowsInput. */
  readonly storedBytesMax: number;
}

export interface StageInput {
  readonly settings: StageSettings;
  readonly snapshot: Snapshot;
  readonly keyed: KeyedBatch;
  readonly resolution: Resolution;
  readonly truncated: TruncatedRows;
  readonly commit: MergeCommit;
  /** Host clock, milliseconds: retention of what is removed or fenced counts from it. */
  readonly nowMs: number;
  /** Null in append mode. */
  readonly index: KeyIndex | null;
  readonly vectors: VectorCache;
  readonly baseRows: BaseRows;
  /** Of an attempt that lost its race: what can be taken over as it is. */
  readonly earlier: Reusable | null;
}

/** Objects of an attempt, for the next one after a lost race. */
export interface Reusable {
  readonly resolution: Resolution;
  /** `metaData.schemaString` that they were written with. */
  readonly schema: string;
  /** Whether values of stored rows went into them. */
  readonly usedStored: boolean;
  readonly files: readonly WrittenFiles[];
  readonly fence: FenceFile;
  readonly changes: ChangeFiles;
}

interface FenceFile {
  readonly keys: readonly string[];
  readonly bytes: number;
}

export interface Staged {
  readonly actions: CommitActions;
  readonly operation: Operation;
  readonly change: Omit<IndexChange, 'version'>;
  readonly counts: RowCounts;
  readonly bytesWritten: number;
  readonly filesAdded: number;
  readonly filesRemoved: number;
  readonly vectorsWritten: number;
  readonly reusable: Reusable | null;
}

export async function stageMerge(input: StageInput): Promise<Staged> {
  const { snapshot, keyed, settings } = input;
  const extra =
    settings.mode === 'merge' ? [] : settings.mode === 'append' ? [DELETED_FIELD, ABSENT_FIELD] : [DELETED_FIELD];
  const wanted = extra.filter((field) => !keyed.schema.fields.some((other) => other.name === field.name));
  const batchSchema: StructType = { type: 'struct', fields: [...keyed.schema.fields, ...wanted] };
  const found = mergeSchemas(snapshot.schema, batchSchema, snapshot.store.uri);
  const evolution = evolveTable(snapshot, found);
  // The mode's own columns are built here, not taken from the batch.
  const batchIndex = found.batchIndex.map((at) => (at < keyed.columns.length ? at : -1));
  const merged: MergedSchema = { schema: evolution.schema, added: found.added, batchIndex };
  return settings.mode === 'append' ? stageAppend(input, merged, evolution) : stageUpsert(input, merged, evolution);
}

function fileSettings(input: StageInput, evolution: Evolution): FileSettings {
  const { settings, snapshot, index } = input;
  return {
    store: snapshot.store,
    metadata: evolution.metadata ?? snapshot.metadata,
    schema: evolution.schema,
    codec: settings.codec,
    fileRowsMax: settings.fileRowsMax,
    fileBytesMax: settings.fileBytesMax,
    reserveOrdinal: index === null ? null : () => index.reserveOrdinal(),
    nowMs: input.nowMs,
    dataChange: true,
    apartBytes: APART_BYTES,
  };
}

async function stageAppend(input: StageInput, merged: MergedSchema, evolution: Evolution): Promise<Staged> {
  const { keyed } = input;
  const batch = appendedRows(keyed, merged);
  const rows = { batch, hashes: keyed.hashes, positions: keyed.positions, softDeleted: null };
  const files = await writeDataFiles(fileSettings(input, evolution), rows);
  const nothing: DeletedRows = { adds: [], removes: [], vectorsWritten: 0, bytes: 0, copied: [] };
  return toStaged(input, evolution, { files: [files], deleted: nothing, fence: NO_FENCE, cdcs: [], cdcBytes: 0 });
}

const NO_FENCE: FenceFile = { keys: [], bytes: 0 };

async function stageUpsert(input: StageInput, merged: MergedSchema, evolution: Evolution): Promise<Staged> {
  const { settings, keyed, resolution, earlier } = input;
  const mode = settings.mode === 'append' ? 'merge' : settings.mode;
  const plan = planRows(mode, resolution);
  const target = fileSettings(input, evolution);
  const replaced = replacedRows(input, plan);
  const taken = earlier !== null && mayReuse(earlier, input, plan, schemaOf(input, evolution)) ? earlier : null;
  const [own, deleted] = await Promise.all([
    taken ?? writeOwn(input, { mode, plan, merged, evolution, target, replaced }),
    deleteRows(input, target, replaced),
  ]);
  const staged = toStaged(input, evolution, {
    files: own.files,
    deleted,
    fence: own.fence,
    cdcs: own.changes.cdcs,
    cdcBytes: own.changes.bytes,
    fenceEntries: fenceEntries(keyed, plan.fenced, input.nowMs),
  });
  return { ...staged, reusable: own };
}

interface OwnObjects {
  readonly mode: Exclude<MergeMode, 'append'>;
  readonly plan: RowPlan;
  readonly merged: MergedSchema;
  readonly evolution: Evolution;
  readonly target: FileSettings;
  readonly replaced: ReadonlyMap<string, RowSet>;
}

/** Everything but the deletions: data, fences, changes. */
async function writeOwn(input: StageInput, own: OwnObjects): Promise<Reusable> {
  const { snapshot, keyed, truncated, resolution } = input;
  const { mode, plan, merged, evolution, target, replaced } = own;
  const { truncate } = keyed.source;
  const feed = writesChanges(input, plan);
  const changed = feed && (plan.replaced.length > 0 || truncate !== null);
  const pathOf = (file: number): string | undefined => input.index?.pathOf(file);
  const parts: ChangeFiles[] = [];
  const clearedImages = async (before: ColumnBatch, after: ColumnBatch | null): Promise<void> => {
    if (feed) parts.push(await writeChangeFiles(target, imagesOfCleared(before, after)));
  };
  const [rows, softened, fence] = await Promise.all([
    writeRows({ ...input, merged, plan, pathOf, feed: changed, storedBytesMax: input.settings.storedBytesMax }, target),
    mode === 'soft-delete' && truncate !== null
      ? softTruncate(snapshot, target, keyed.source.keyColumns, truncated.rows, replaced, truncate, clearedImages)
      : [],
    fenceFile(input, plan),
  ]);
  if (feed && mode === 'merge' && truncate !== null) await clearedRows(input, target, clearedImages);
  const all = [...rows.changes, ...parts];
  return {
    resolution,
    schema: schemaOf(input, evolution),
    usedStored: rows.usedBase || feed || truncate !== null,
    files: [...rows.files, ...softened],
    fence,
    changes: { cdcs: all.flatMap((one) => one.cdcs), bytes: all.reduce((sum, one) => sum + one.bytes, 0) },
  };
}

function imagesOfCleared(before: ColumnBatch, after: ColumnBatch | null): readonly ChangePart[] {
  if (after === null) return [{ type: 'delete', rows: before }];
  return [
    { type: 'update_preimage', rows: before },
    { type: 'update_postimage', rows: after },
  ];
}

/**
 * Whether change files are needed: with the feed on, for updates and deletes; beside a TRUNCATE only where readers could
 * not tell its deletes from what the commit removes (copies, marked rows, updates in the same batch).
 */
function writesChanges(input: StageInput, plan: RowPlan): boolean {
  const { snapshot, keyed, settings } = input;
  if (tableProperty(snapshot, 'delta.enableChangeDataFeed') !== 'true') return false;
  if (keyed.source.truncate === null || plan.replaced.length > 0) return true;
  return settings.mode === 'soft-delete' || tableProperty(snapshot, 'delta.enableDeletionVectors') !== 'true';
}

/** Passes the rows that a TRUNCATE deletes on, as they were. */
async function clearedRows(
  { snapshot, truncated }: StageInput,
  target: FileSettings,
  onRows: (before: ColumnBatch, after: null) => Promise<void>,
): Promise<void> {
  for (const [path, rows] of truncated.rows) {
    const file = snapshot.files.get(path);
    if (file === null) continue;
    for await (const batch of livingRows(snapshot, file, target, (row) => containsRow(rows, row)))
      await onRows(batch, null);
  }
}

const schemaOf = ({ snapshot }: StageInput, { metadata }: Evolution): string =>
  (metadata ?? snapshot.metadata).schemaString;

/** The same rows do the same; and where stored rows went into the objects, they are the very same rows. */
function mayReuse(earlier: Reusable, { resolution, keyed }: StageInput, plan: RowPlan, schema: string): boolean {
  if (earlier.schema !== schema || keyed.source.truncate !== null) return false;
  const before = earlier.resolution;
  const same = (a: ArrayLike<number>, b: ArrayLike<number>): boolean => {
    for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
    return a.length === b.length;
  };
  if (!same(before.outcomes, resolution.outcomes)) return false;
  if (!earlier.usedStored && plan.write.softDeleted === null) return true;
  return same(before.baseFile, resolution.baseFile) && same(before.baseRow, resolution.baseRow);
}

/** Stored rows that the batch's rows replace or delete, with any repeated rows of their keys. */
function replacedRows({ index, resolution }: StageInput, plan: RowPlan): ReadonlyMap<string, RowSet> {
  const doomed = createDoomedRows();
  const add = (file: number, row: number): void => {
    const path = index?.pathOf(file);
    if (path !== undefined) doomed.add(path, row);
  };
  for (const row of plan.replaced) add(resolution.baseFile[row] ?? 0, resolution.baseRow[row] ?? 0);
  const { extra } = resolution;
  for (let i = 0; i < extra.length; i += 3) add(extra[i + 1] ?? 0, extra[i + 2] ?? 0);
  return doomed.byFile();
}

function deleteRows(
  input: StageInput,
  target: FileSettings,
  replaced: ReadonlyMap<string, RowSet>,
): Promise<DeletedRows> {
  const { snapshot, vectors, truncated, nowMs, keyed } = input;
  const doomed = createDoomedRows();
  for (const [path, rows] of replaced) doomed.addAll(path, rows);
  for (const [path, rows] of truncated.rows) doomed.addAll(path, rows);
  const all = truncated.rows.size === 0 ? replaced : doomed.byFile();
  const place = { snapshot, vectors, nowMs };
  if (tableProperty(snapshot, 'delta.enableDeletionVectors') === 'true') return deleteByVector(place, all);
  return deleteByCopy(place, all, target, keyed.source.keyColumns);
}

async function fenceFile(input: StageInput, plan: RowPlan): Promise<FenceFile> {
  const { keyed, snapshot, nowMs } = input;
  const { truncate } = keyed.source;
  if (plan.fenced.length === 0 && truncate === null) return NO_FENCE;
  const { key, bytes } = await writeFences(
    snapshot.store,
    { fields: keyed.keyFields },
    { keys: keyed.keys, rows: plan.fenced, positions: keyed.positions, truncate },
    nowMs,
  );
  return { keys: [key], bytes };
}

function fenceEntries(keyed: KeyedBatch, fenced: Uint32Array, nowMs: number): Uint32Array {
  const entries = new Uint32Array(fenced.length * ENTRY_WORDS);
  const source = { hashes: keyed.hashes, positions: keyed.positions, softDeleted: null };
  const second = Math.floor(nowMs / 1000);
  fenced.forEach((row, i) => writeEntry(entries, i * ENTRY_WORDS, source, row, FENCE, second));
  return entries;
}

interface Pieces {
  readonly files: readonly WrittenFiles[];
  readonly deleted: DeletedRows;
  readonly fence: FenceFile;
  readonly cdcs: CommitActions['cdcs'];
  readonly cdcBytes: number;
  readonly fenceEntries?: Uint32Array;
}

function toStaged(input: StageInput, evolution: Evolution, pieces: Pieces): Staged {
  const { keyed, commit, truncated, resolution } = input;
  const { files, deleted, fence, cdcs } = pieces;
  const counts = countOutcomes(resolution.outcomes, truncated.count);
  const written = [...files, ...deleted.copied];
  const dataAdds = files.flatMap((file) => file.adds);
  const adds = [...dataAdds, ...deleted.adds];
  const kept = new Set(deleted.adds.map((add) => add.path));
  const removed = deleted.removes.filter((remove) => !kept.has(remove.path)).map((remove) => remove.path);
  const filesAdded = dataAdds.length + (deleted.copied.length === 0 ? 0 : deleted.adds.length);
  const operation = mergeOperation(input.settings.mode, commit, {
    counts,
    sourceRows: keyed.source.rowCount,
    filesAdded,
    filesRemoved: removed.length,
    vectorsWritten: deleted.vectorsWritten,
    changeFiles: cdcs.length,
    fences: fence.keys,
    fenceMember: FENCE_MEMBER,
  });
  return {
    actions: {
      ...NO_ACTIONS,
      metadata: evolution.metadata,
      protocol: evolution.protocol,
      txns: commit.txns.map(({ appId, version }) => ({ appId, version, lastUpdated: BigInt(input.nowMs) })),
      removes: deleted.removes,
      adds,
      cdcs,
    },
    operation,
    change: {
      entries: joinEntries(written, pieces.fenceEntries ?? NO_FILES.entries),
      added: written.flatMap((one) =>
        one.files.flatMap(({ ordinal, path }) => (ordinal === null ? [] : [{ ordinal, path }])),
      ),
      removed,
      truncate: keyed.source.truncate,
    },
    counts,
    bytesWritten: files.reduce((sum, one) => sum + one.bytes, deleted.bytes + fence.bytes + pieces.cdcBytes),
    filesAdded,
    filesRemoved: removed.length,
    vectorsWritten: deleted.vectorsWritten,
    reusable: null,
  };
}

function joinEntries(written: readonly WrittenFiles[], fences: Uint32Array): Uint32Array {
  const filled = written.filter(({ entries }) => entries.length > 0);
  const [first] = filled;
  if (filled.length === 1 && first?.sorted === true && fences.length === 0) return first.entries;
  const parts = [...filled.map(({ entries }) => entries), fences];
  const all = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return sortEntries(all);
}
