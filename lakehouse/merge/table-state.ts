/**
 * The table that a merge writer owns: its newest known snapshot, its key index at that very version, and the caches beside
 * them. Opening creates the table on first use.
 */
import { openKeyIndex, type KeyIndex } from '../index/key-index.ts';
import type { ObjectStore } from '../store/store.ts';
import { createTable, type CreateOptions } from '../table/create.ts';
import { openSnapshot, refreshSnapshot, type Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { assertChecksum } from '../table/version-checksum.ts';
import type { DeltaType, StructField, StructType } from '../table/schema.ts';
import { baseRowsOver, type BaseRows } from './base-rows.ts';
import { followTable, type FollowKind } from './follow.ts';
import type { KeyedBatch } from './keyed-batch.ts';
import type { MergeMode } from './merge.ts';
import { MergeError } from './merge-error.ts';
import { ABSENT_FIELD, DELETED_FIELD } from './position-columns.ts';
import { resetWhenCorrupt } from '../index/reset-corrupt.ts';
import { createVectorCache, type VectorCache } from './vector-cache.ts';

/** How the table is created when there is none; its schema is the first batch's. */
export type NewTable = Pick<
  CreateOptions,
  | 'partitionColumns'
  | 'name'
  | 'description'
  | 'deletionVectors'
  | 'changeDataFeed'
  | 'columnMapping'
  | 'inCommitTimestamps'
  | 'properties'
  | 'info'
>;

export interface StateOptions {
  readonly store: ObjectStore;
  readonly indexDir: string;
  readonly mode: MergeMode;
  readonly create: NewTable;
  readonly fenceRetentionMs: number;
  readonly now: () => number;
  readonly indexMemoryEntries?: number;
}

export interface TableState {
  readonly mode: MergeMode;
  /** The newest version, or null while there is no table. */
  refresh(): Promise<Snapshot | null>;
  /** The snapshot last seen. */
  current(): Snapshot | null;
  /** Takes over a snapshot that is known to be newer. */
  advance(snapshot: Snapshot): void;
  /** The newest version, the table made if absent. */
  ensure(batch: KeyedBatch): Promise<Snapshot>;
  /** The index for this key, at the snapshot's version. Null in append mode. */
  index(snapshot: Snapshot, keyFields: readonly StructField[]): Promise<KeyIndex | null>;
  /** The key that the index was last opened for. */
  keyFields(): readonly StructField[] | null;
  /** The index as it stands, if it was opened. */
  openIndex(): KeyIndex | null;
  readonly vectors: VectorCache;
  baseRows(): BaseRows;
  /** How the index was last brought up to date. */
  lastFollow(): FollowKind | null;
  close(): Promise<void>;
}

export function createTableState(options: StateOptions): TableState {
  const { store } = options;
  const vectors = createVectorCache();
  let snapshot: Snapshot | null = null;
  let index: KeyIndex | null = null;
  let indexKey = '';
  let lastKey: readonly StructField[] | null = null;
  let lastFollow: FollowKind | null = null;
  let baseRows: BaseRows | null = null;

  async function refresh(): Promise<Snapshot | null> {
    const before = snapshot;
    try {
      snapshot = before === null ? await openSnapshot(store) : await refreshSnapshot(before);
    } catch (error) {
      if (before === null && error instanceof TableError && error.code === 'TABLE_NOT_FOUND') return null;
      throw error;
    }
    // Told before a batch is written, not at its commit.
    assertChecksum(snapshot);
    if (before !== null && before.metadata.id !== snapshot.metadata.id)
      throw new MergeError(
        'MERGE_TABLE_REPLACED',
        store.uri,
        `the table's id changed from ${before.metadata.id} to ${snapshot.metadata.id}: another table stands in its place`,
      );
    return snapshot;
  }

  async function create(batch: KeyedBatch): Promise<Snapshot> {
    try {
      snapshot = await createTable(store, {
        ...options.create,
        schema: newSchema(batch, options.mode),
        properties: {
          ...(options.mode === 'append' ? { 'delta.appendOnly': 'true' } : {}),
          ...options.create.properties,
        },
        now: options.now,
      });
      return snapshot;
    } catch (error) {
      // Another writer made it a moment earlier.
      if (!(error instanceof TableError) || error.code !== 'TABLE_EXISTS') throw error;
      snapshot = await openSnapshot(store);
      return snapshot;
    }
  }

  async function openFor(table: Snapshot, keyFields: readonly StructField[]): Promise<KeyIndex> {
    const keyColumns = keyFields.map((field) => `${field.name}:${keyClass(field.type)}`);
    const wanted = [table.metadata.id, ...keyColumns].join('\n');
    if (index !== null && indexKey === wanted) return index;
    await index?.close();
    index = await openKeyIndex(
      options.indexDir,
      { tableId: table.metadata.id, keyColumns },
      {
        fenceCutoffSecond: () => Math.floor((options.now() - options.fenceRetentionMs) / 1000),
        ...(options.indexMemoryEntries === undefined ? {} : { memoryEntries: options.indexMemoryEntries }),
      },
    );
    indexKey = wanted;
    lastKey = keyFields;
    baseRows = baseRowsOver(index);
    return index;
  }

  return {
    mode: options.mode,
    refresh,
    current: () => snapshot,
    advance: (newer) => {
      snapshot = newer;
    },
    async ensure(batch) {
      return (await refresh()) ?? create(batch);
    },
    async index(table, keyFields) {
      if (options.mode === 'append') return null;
      const opened = await openFor(table, keyFields);
      const keyColumns = keyFields.map((field) => field.name);
      const follow = (): Promise<FollowKind> =>
        followTable({ index: opened, vectors, keyColumns, keys: { fields: keyFields } }, table);
      let followed: FollowKind | null = null;
      const damaged = await resetWhenCorrupt(opened, async () => {
        followed = await follow();
      });
      lastFollow = damaged ? await follow() : followed;
      return opened;
    },
    keyFields: () => lastKey,
    openIndex: () => index,
    vectors,
    baseRows: () => baseRows ?? baseRowsOver({ pathOf: () => undefined }),
    lastFollow: () => lastFollow,
    async close() {
      await index?.close();
      index = null;
    },
  };
}

/** Widths of one kind of number have one key form: widening a key column keeps the index. */
function keyClass(type: DeltaType): string {
  if (type === 'byte' || type === 'short' || type === 'integer' || type === 'long') return 'integer';
  if (type === 'float' || type === 'double') return 'float';
  return typeof type === 'string' ? type : type.type;
}

function newSchema(batch: KeyedBatch, mode: MergeMode): StructType {
  const { fields } = batch.schema;
  if (mode === 'merge') return batch.schema;
  const own = mode === 'append' ? [DELETED_FIELD, ABSENT_FIELD] : [DELETED_FIELD];
  const missing = own.filter((field) => !fields.some((other) => other.name === field.name));
  // A delete in append mode is a row of its key alone, a TRUNCATE one of no key at all.
  const given = mode === 'append' ? fields.map((field) => ({ ...field, nullable: true })) : fields;
  return { type: 'struct', fields: [...given, ...missing] };
}
