/**
 * A table that takes merges: the adapter of the port in merge.ts over an object store.
 *
 *   prepare: newest snapshot -> index brought to it -> keys looked up -> outcomes (resolve.ts)
 *   commit:  objects staged (stage.ts) -> one conditional put -> index takes the change over
 *            lost race -> snapshot and index follow the winners -> every key resolved again -> staged again -> next try
 *
 * One batch at a time. What stops half-way leaves objects that no commit names (VACUUM takes them) and an index that is
 * behind (it follows the log before its next use): nothing needs undoing.
 */
import type { ParquetCodec } from '../parquet/encode.ts';
import type { ObjectStore } from '../store/store.ts';
import { commitTo, type Proposal } from '../table/commit.ts';
import type { Commit } from '../table/actions.ts';
import type { Snapshot } from '../table/snapshot.ts';
import type { IndexStats } from '../index/key-index.ts';
import { NO_FAILPOINT, type FailpointHook } from './failpoint.ts';
import type { FollowKind } from './follow.ts';
import { keyBatch } from './keyed-batch.ts';
import {
  type MergeBatch,
  type MergeCommit,
  type MergeMode,
  type MergeResult,
  type MergeTable,
  type PreparedMerge,
} from './merge.ts';
import { MergeError } from './merge-error.ts';
import { stageMerge, type Reusable, type Staged } from './stage.ts';
import { createTableState, type NewTable, type TableState } from './table-state.ts';
import { AUTO_COMPACT_RULES, autoCompaction, type AutoCompactRules } from '../upkeep/compact-plan.ts';
import { compactTable, type CompactOptions, type CompactOwner, type CompactResult } from '../upkeep/compact.ts';
import { resetWhenCorrupt } from '../index/reset-corrupt.ts';
import { keepParked, resolveAt, type Resolved } from './resolve-batch.ts';
import { createGarbageWatch } from '../thread/collect-garbage.ts';
import { createTurn } from './turn.ts';
import { createUpkeepBeside } from './upkeep-beside.ts';

export interface MergeTableOptions {
  /** Rooted at the table. Not closed here. */
  readonly store: ObjectStore;
  /** Local folder of the key index: a cache, of one table and one process. */
  readonly indexDir: string;
  /** Default `merge`. */
  readonly mode?: MergeMode;
  /** For a table that does not exist yet. */
  readonly create?: NewTable;
  /** Default 7 days; never shorter than log retention or the oldest parked event. */
  readonly fenceRetentionMs?: number;
  /** Default snappy. */
  readonly codec?: ParquetCodec;
  /** Limits of one data file: default 1,000,000 rows and 32 MB of columns in memory, of which a copy-on-write takes some eight times. */
  readonly fileRowsMax?: number;
  readonly fileBytesMax?: number;
  /** Stored bytes (compressed) of the rows that are brought back at a time, for events that lack columns; default 16 MB. */
  readonly storedBytesMax?: number;
  /** Commits between two checkpoints; default 50. */
  readonly checkpointEvery?: number;
  /** When to compact by itself; default AUTO_COMPACT_RULES, null: never. Not done in append mode. */
  readonly autoCompact?: AutoCompactRules | null;
  /** Told of failed background work (checkpoints, fence files); it is tried again later. */
  readonly onUpkeepError?: (error: unknown) => void;
  readonly failpoint?: FailpointHook;
  readonly now?: () => number;
  /** Entries of the key index kept in memory before they go to disk; 262,144 (10 MB) by default. */
  readonly indexMemoryEntries?: number;
}

/** Commits between two looks at whether to compact: a look costs a pass over the list of files. */
const COMPACTION_LOOK_COMMITS = 16;
/**
 * A batch that wrote this much belongs to a load, or to a backlog. Its files are not small enough to be urgent, and the thread
 * that would rewrite them takes processor time from the load and memory beside it (some 150 MB): that waits for quieter batches,
 * up to so many files.
 */
const LOAD_BYTES = 2 * 1024 * 1024;
const LOAD_FILES_MAX = 1024;
/** Columns of one rewritten file beside running merges, bytes: the thread that rewrites needs some four times as much. */
const AUTO_COMPACT_BYTES = 16 * 1024 * 1024;
/** Races lost in a row before a batch gives up: writers that commit without a pause are met by patience. */
const RACES_MAX = 200;
/** Bytes of buffers that may gather in the thread that merges before their garbage is collected. */
const GARBAGE_BYTES = 64 * 1024 * 1024;
const collectIfGrown = createGarbageWatch(GARBAGE_BYTES);
const DAY_MS = 24 * 60 * 60 * 1000;

/** What the owner of a table can do beside merging. */
export interface OwnedMergeTable extends MergeTable {
  /**
   * Compaction beside the merges: files are rewritten while batches go on, only its commits take a turn. The key index is
   * pointed to the new places. @throws as compactTable
   */
  optimize(request?: CompactOptions): Promise<CompactResult>;
  /** Sizes of the key index; null while none is open. */
  indexStats(): IndexStats | null;
  /** How the last batch found the index: at the snapshot already, brought up by following commits, or built anew. */
  lastFollow(): FollowKind | null;
  /** Waits for the background work (checkpoints, fence files, auto-compaction) begun so far. */
  settled(): Promise<void>;
}

export async function openMergeTable(options: MergeTableOptions): Promise<OwnedMergeTable> {
  const mode = options.mode ?? 'merge';
  const now = options.now ?? Date.now;
  const failpoint = options.failpoint ?? NO_FAILPOINT;
  const settings = {
    mode,
    codec: options.codec ?? 'snappy',
    fileRowsMax: options.fileRowsMax ?? 1_000_000,
    fileBytesMax: options.fileBytesMax ?? 32 * 1024 * 1024,
    storedBytesMax: options.storedBytesMax ?? 16 * 1024 * 1024,
  };
  const state = createTableState({
    store: options.store,
    indexDir: options.indexDir,
    mode,
    create: options.create ?? {},
    fenceRetentionMs: options.fenceRetentionMs ?? 7 * DAY_MS,
    now,
    ...(options.indexMemoryEntries === undefined ? {} : { indexMemoryEntries: options.indexMemoryEntries }),
  });
  const upkeep = createUpkeepBeside({
    checkpointEvery: options.checkpointEvery ?? 50,
    fenceRetentionMs: options.fenceRetentionMs ?? 7 * DAY_MS,
    failpoint,
    now,
    onError: options.onUpkeepError ?? (() => {}),
  });
  const inTurn = createTurn();
  const prepared = new WeakMap<PreparedMerge, Resolved>();
  const stop = new AbortController();
  let sinceCompaction = 0;
  let closed = false;
  const uri = options.store.uri;

  const assertOpen = (): void => {
    if (closed) throw new MergeError('MERGE_CLOSED', uri, 'the table was closed');
  };
  await state.refresh();

  async function prepare(batch: MergeBatch): Promise<PreparedMerge> {
    assertOpen();
    const keyed = keyBatch(batch, uri, mode !== 'append');
    const resolved = await resolveAt(state, keyed, await state.ensure(keyed));
    const out: PreparedMerge = {
      batch,
      outcomes: resolved.resolution.outcomes,
      tableVersion: resolved.snapshot.version,
    };
    prepared.set(out, resolved);
    return out;
  }

  async function commit(given: PreparedMerge, request: MergeCommit): Promise<MergeResult> {
    assertOpen();
    let resolved = prepared.get(given) ?? (await resolveAgain(given));
    if (resolved.snapshot.version !== state.current()?.version || resolved.index?.version() !== indexVersion(resolved))
      resolved = keepParked(
        given.outcomes,
        await resolveAt(state, resolved.keyed, await currentOf(state, resolved)),
        uri,
      );
    const stage = (at: Resolved, earlier: Reusable | null): Promise<Staged> => {
      refuseOvertaken(at.snapshot, request, uri);
      return stageMerge({
        settings,
        ...at,
        commit: request,
        nowMs: now(),
        vectors: state.vectors,
        baseRows: state.baseRows(),
        earlier,
      });
    };
    let staged = await stage(resolved, null);
    if (isNothing(staged)) return toResult(null, resolved, staged, 0);
    await failpoint('after-data-files');
    await failpoint('before-table-commit');
    const done = await commitTo(
      resolved.snapshot,
      staged,
      async (_, snapshot, winners): Promise<Proposal> => {
        refuseForeignTxns(winners, request, uri);
        state.advance(snapshot);
        resolved = keepParked(given.outcomes, await resolveAt(state, resolved.keyed, snapshot), uri);
        staged = await stage(resolved, staged.reusable);
        return staged;
      },
      { now, attemptsMax: RACES_MAX },
    );
    await failpoint('after-table-commit');
    state.advance(done.snapshot);
    // An index at any other version follows the log before its next use.
    if (resolved.index?.version() === done.snapshot.version - 1n)
      await resetWhenCorrupt(resolved.index, (index) =>
        index.apply({ ...staged.change, version: done.snapshot.version }),
      );
    considerCompaction(done.snapshot, staged.bytesWritten);
    collectIfGrown();
    upkeep.afterCommit(done.snapshot, mode === 'append' ? null : { fields: resolved.keyed.keyFields });
    return toResult(done.version, resolved, staged, done.conflicts);
  }

  function considerCompaction(snapshot: Snapshot, bytesWritten: number): void {
    const rules = options.autoCompact === undefined ? AUTO_COMPACT_RULES : options.autoCompact;
    if (rules === null || mode === 'append' || ++sinceCompaction < COMPACTION_LOOK_COMMITS) return;
    if (bytesWritten >= LOAD_BYTES && snapshot.files.count < LOAD_FILES_MAX) return;
    sinceCompaction = 0;
    const plan = autoCompaction(snapshot, rules);
    if (plan !== null)
      upkeep.run(async () => {
        await optimize({ plan, fileBytesMax: AUTO_COMPACT_BYTES });
      });
  }

  async function optimize(request: CompactOptions): Promise<CompactResult> {
    const begun = await inTurn(async () => {
      assertOpen();
      const newest = await state.refresh();
      return newest === null ? null : { newest, owner: await compactOwner(state, newest, inTurn) };
    });
    if (begun === null) throw new MergeError('MERGE_BAD_BATCH', uri, 'there is no table to optimize yet');
    const signal = request.signal === undefined ? stop.signal : AbortSignal.any([request.signal, stop.signal]);
    const wanted: CompactOptions = { codec: settings.codec, now, ...request, signal };
    try {
      return await compactTable(begun.newest, wanted, begun.owner);
    } finally {
      begun.owner?.place.release();
    }
  }

  async function resolveAgain(given: PreparedMerge): Promise<Resolved> {
    const keyed = keyBatch(given.batch, uri, mode !== 'append');
    return resolveAt(state, keyed, await state.ensure(keyed));
  }

  return {
    prepare: (batch) => inTurn(() => prepare(batch)),
    commit: (given, request) => inTurn(() => commit(given, request)),
    txnVersion: (appId) =>
      inTurn(async () => {
        assertOpen();
        return (await state.refresh())?.txns.get(appId)?.version ?? null;
      }),
    optimize: (request = {}) => optimize(request),
    indexStats: () => state.openIndex()?.stats() ?? null,
    lastFollow: () => state.lastFollow(),
    settled: () => upkeep.settled(),
    async close() {
      closed = true;
      stop.abort();
      await upkeep.settled();
      await inTurn(() => state.close());
    },
  };
}

async function compactOwner(
  state: TableState,
  snapshot: Snapshot,
  inTurn: ReturnType<typeof createTurn>,
): Promise<CompactOwner | null> {
  const keyFields = state.keyFields();
  // Without an open index the next batch's follows the log to the new files.
  if (state.openIndex() === null || keyFields === null) return null;
  const index = await state.index(snapshot, keyFields);
  if (index === null) return null;
  return {
    index,
    place: index.holdPlace(),
    keyColumns: keyFields.map((field) => field.name),
    vectors: state.vectors,
    exclusively: (work) =>
      inTurn(async () => {
        const newest = await state.refresh();
        if (newest === null) return;
        if (state.openIndex() === index) await state.index(newest, keyFields);
        state.advance(await work(newest));
      }),
  };
}

const indexVersion = (resolved: Resolved): bigint | undefined =>
  resolved.index === null ? undefined : resolved.snapshot.version;

async function currentOf(state: TableState, resolved: Resolved): Promise<Snapshot> {
  return (await state.refresh()) ?? resolved.snapshot;
}

function refuseForeignTxns(winners: readonly Commit[], { txns }: MergeCommit, table: string): void {
  const ours = new Set(txns.map(({ appId }) => appId));
  for (const { version, txns: theirs } of winners)
    for (const { appId } of theirs)
      if (ours.has(appId))
        throw new MergeError(
          'MERGE_TXN_CONFLICT',
          table,
          `version ${version} has a transaction of ${appId} that this writer did not make: another owner writes this stream`,
        );
}

function refuseOvertaken(snapshot: Snapshot, { follows }: MergeCommit, table: string): void {
  if (follows === undefined || follows((appId) => snapshot.txns.get(appId)?.version ?? null)) return;
  throw new MergeError(
    'MERGE_TXN_CONFLICT',
    table,
    `version ${snapshot.version} has transactions of this stream beyond this batch: another owner has taken over`,
  );
}

function isNothing({ actions }: Staged): boolean {
  return (
    actions.txns.length === 0 &&
    actions.adds.length === 0 &&
    actions.removes.length === 0 &&
    actions.metadata === null &&
    actions.protocol === null
  );
}

function toResult(version: bigint | null, { resolution }: Resolved, staged: Staged, conflicts: number): MergeResult {
  return {
    version,
    outcomes: resolution.outcomes,
    rows: staged.counts,
    bytesWritten: staged.bytesWritten,
    filesAdded: staged.filesAdded,
    filesRemoved: staged.filesRemoved,
    vectorsWritten: staged.vectorsWritten,
    conflicts,
  };
}
