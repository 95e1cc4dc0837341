/**
 * Reads a checkpoint into a replay (PROTOCOL.md, "Checkpoints"): classic, multi-part, and V2 (JSON or Parquet) with the
 * sidecars it names. Only the columns that state needs are read, a row group at a time.
 */
import { openParquet } from '../parquet/footer.ts';
import type { ParquetFile } from '../parquet/footer.ts';
import { decodeRowGroups } from '../parquet/decode.ts';
import { ParquetError } from '../parquet/parquet-error.ts';
import { getWithRetry } from '../store/retry.ts';
import type { Backoff } from '../store/retry.ts';
import { StoreError } from '../store/store.ts';
import type { ObjectMeta, ObjectStore } from '../store/store.ts';
import type { MetadataAction } from './actions.ts';
import { visitActions } from './action-json.ts';
import type { ActionVisitor } from './action-json.ts';
import { visitFileRow, visitTableRow } from './checkpoint-row.ts';
import { TABLE_COLUMNS, fileColumns } from './checkpoint-schema.ts';
import { mappingMode } from './column-mapping.ts';
import { decodePath, isAbsolutePath, keyOfPath } from './file-path.ts';
import { LOG_FOLDER, SIDECAR_FOLDER } from './log-files.ts';
import type { CheckpointFiles } from './log-segment.ts';
import type { StructType } from './schema.ts';
import { parseSchema } from './schema-json.ts';
import { parsedStatsType } from './stats-parsed.ts';
import { TableError } from './table-error.ts';

export interface ReadCheckpointOptions {
  readonly backoff: Backoff;
  /** Whether removed files are wanted. */
  readonly tombstones: boolean;
}

/** @throws TableError CHECKPOINT_UNREADABLE; StoreError when the store, not the checkpoint, is at fault */
export async function readCheckpoint(
  store: ObjectStore,
  checkpoint: CheckpointFiles,
  visitor: ActionVisitor,
  options: ReadCheckpointOptions,
): Promise<void> {
  try {
    await readParts(store, checkpoint, visitor, options);
  } catch (error) {
    throw isDamage(error) ? unreadable(store, checkpoint, error) : error;
  }
}

function unreadable(store: ObjectStore, checkpoint: CheckpointFiles, error: unknown): TableError {
  return new TableError(
    'CHECKPOINT_UNREADABLE',
    { table: store.uri, version: checkpoint.version, file: checkpoint.files[0]?.key ?? '' },
    `the checkpoint cannot be read: ${error instanceof Error ? error.message : 'unreadable'}`,
    { cause: error },
  );
}

/** A fault of the files, which an older checkpoint may not have; not of the store or of this code. */
function isDamage(error: unknown): boolean {
  if (error instanceof StoreError) return error.code === 'STORE_NOT_FOUND' || error.code === 'STORE_TRUNCATED';
  return error instanceof ParquetError || error instanceof SyntaxError || error instanceof TypeError;
}

/**
 * Keys of the sidecars that a checkpoint names.
 * @throws TableError CHECKPOINT_UNREADABLE
 */
export async function sidecarKeys(
  store: ObjectStore,
  checkpoint: CheckpointFiles,
  backoff: Backoff,
): Promise<readonly string[]> {
  const paths: string[] = [];
  try {
    await readTableRows(store, checkpoint, { sidecar: ({ path }) => paths.push(path) }, backoff);
    return paths.map((path) => sidecarKey(path, store.uri));
  } catch (error) {
    throw isDamage(error) ? unreadable(store, checkpoint, error) : error;
  }
}

/** The rows that say what the table is (all rows of a JSON checkpoint); answers the Parquet files, opened. */
async function readTableRows(
  store: ObjectStore,
  checkpoint: CheckpointFiles,
  visitor: ActionVisitor,
  backoff: Backoff,
): Promise<ParquetFile[]> {
  const opened: ParquetFile[] = [];
  for (const file of checkpoint.files) {
    if (checkpoint.format === 'json') {
      visitActions(await getWithRetry(store, file.key, undefined, backoff), visitor);
      continue;
    }
    const parquet = await openFile(store, file, backoff);
    for await (const { batch } of decodeRowGroups(parquet, presentOnly(parquet, TABLE_COLUMNS))) {
      for (let row = 0; row < batch.rowCount; row++) visitTableRow(batch, row, visitor);
    }
    opened.push(parquet);
  }
  return opened;
}

async function readParts(
  store: ObjectStore,
  checkpoint: CheckpointFiles,
  visitor: ActionVisitor,
  options: ReadCheckpointOptions,
): Promise<void> {
  let metadata: MetadataAction | null = null;
  const sidecars: string[] = [];
  const watching: ActionVisitor = {
    ...visitor,
    metadata: (action) => {
      metadata = action;
      visitor.metadata?.(action);
    },
    sidecar: ({ path }) => sidecars.push(path),
  };
  const opened = await readTableRows(store, checkpoint, watching, options.backoff);
  for (const path of sidecars) {
    const key = sidecarKey(path, store.uri);
    const file = await store.head(key);
    if (file === null) throw new StoreError('STORE_NOT_FOUND', key, `the checkpoint's sidecar "${key}" is gone`);
    opened.push(await openFile(store, file, options.backoff));
  }
  for (const parquet of opened) await readFileActions(parquet, metadata, visitor, options.tombstones);
}

async function readFileActions(
  parquet: ParquetFile,
  metadata: MetadataAction | null,
  visitor: ActionVisitor,
  tombstones: boolean,
): Promise<void> {
  const parsedStats = structStats(parquet, metadata);
  const schema = presentOnly(parquet, fileColumns(tombstones, parsedStats));
  if (schema.fields.length === 0) return;
  for await (const { batch } of decodeRowGroups(parquet, schema)) {
    for (let row = 0; row < batch.rowCount; row++) visitFileRow(batch, row, parsedStats, visitor);
  }
}

/** Type of `add.stats_parsed` when the file has no JSON statistics but has these. */
function structStats(parquet: ParquetFile, metadata: MetadataAction | null): StructType | null {
  const add = parquet.root.children.find(({ name }) => name === 'add');
  const has = (name: string): boolean => add?.children.some((child) => child.name === name) === true;
  if (metadata === null || has('stats') || !has('stats_parsed')) return null;
  return parsedStatsType(parseSchema(metadata.schemaString), mappingMode(metadata) !== 'none');
}

/** A column that the file lacks altogether would only be decoded to NULLs, and counted for nothing. */
function presentOnly(parquet: ParquetFile, schema: StructType): StructType {
  const names = new Set(parquet.root.children.map(({ name }) => name));
  return { type: 'struct', fields: schema.fields.filter(({ name }) => names.has(name)) };
}

async function openFile(store: ObjectStore, file: ObjectMeta, backoff: Backoff): Promise<ParquetFile> {
  return openParquet({
    name: file.key,
    sizeBytes: file.sizeBytes,
    read: (start, end) => getWithRetry(store, file.key, { start, end }, backoff),
  });
}

/** Relative sidecar paths are names below `_sidecars/`. */
function sidecarKey(path: string, table: string): string {
  if (isAbsolutePath(path)) {
    const key = keyOfPath(path, table);
    if (key === null) throw new TypeError('a sidecar lies outside of the table');
    return key;
  }
  const name = decodePath(path);
  return name.includes('/') ? `${LOG_FOLDER}${name}` : `${SIDECAR_FOLDER}${name}`;
}
