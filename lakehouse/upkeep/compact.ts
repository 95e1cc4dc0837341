/**
 * OPTIMIZE: small files joined, deletion vectors purged, rows put in an order; nothing that a reader sees changes
 * (dataChange=false). Group by group of bins: written at leisure, committed in a moment.
 *
 * A group that lost its race is not thrown away, or a busy table would never be compacted: rows that a winner marked in the
 * old files are marked in the new ones (a vector at birth); only a bin of which a winner removed a file is left out.
 */
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { HeldPlace } from '../index/held-places.ts';
import type { KeyIndex } from '../index/key-index.ts';
import { resetWhenCorrupt } from '../index/reset-corrupt.ts';
import { vectorStats } from '../merge/file-stats.ts';
import { putObject } from '../merge/put-object.ts';
import { NO_ROWS, createVectorCache, type VectorCache } from '../merge/vector-cache.ts';
import type { ParquetCodec } from '../parquet/encode.ts';
import { NO_ACTIONS, removeOf, vectorId, type AddFile, type MetadataAction } from '../table/actions.ts';
import { mappingMode } from '../table/column-mapping.ts';
import { commitTo, type Operation, type Proposal } from '../table/commit.ts';
import { encodeDeletionVectors } from '../table/deletion-vector.ts';
import { assertRearrangeable } from '../table/protocol.ts';
import { subtractRows, type RowSet } from '../table/row-bitmap.ts';
import { parseSchema, schemaText } from '../table/schema-json.ts';
import { refreshSnapshot, type Snapshot } from '../table/snapshot.ts';
import { TableError } from '../table/table-error.ts';
import { assertChecksum } from '../table/version-checksum.ts';
import { planBins, type Bin, type CompactPlanRules } from './compact-plan.ts';
import { rowsFrom, type OutputFile } from './rewrite-bin.ts';
import type { IndexedBin, RewriteJob } from './rewrite-job.ts';
import { rewriteApart } from './rewrite-thread.ts';
import type { RowOrder } from './row-order.ts';

export interface CompactOptions {
  /** Defaults: 128 MB files, at least 2 to join, any file with a vector purged. */
  readonly plan?: Partial<CompactPlanRules>;
  /** Rewrites every file, its rows in this order. */
  readonly order?: RowOrder;
  readonly codec?: ParquetCodec;
  /** Rows of one new file, and bytes of columns held in memory at a time; default 4,000,000 and 64 MB, of which a rewrite takes some six times. */
  readonly fileRowsMax?: number;
  readonly fileBytesMax?: number;
  /** Input bytes after which what was rewritten is committed; default 64 MB. Until then some bytes a row are remembered. */
  readonly groupBytesMax?: number;
  readonly now?: () => number;
  readonly signal?: AbortSignal;
  /** Beside an owner, groups of this many bytes and more are rewritten in another thread; default 1 MB. */
  readonly apartBytes?: number;
}

/** The table's merge writer, where there is one: its index is pointed to the new places, its commits take turns with ours. */
export interface CompactOwner {
  readonly keyColumns: readonly string[];
  readonly index: KeyIndex;
  /** In the index, held since the snapshot that is compacted was the newest. Released by its owner. */
  readonly place: HeldPlace;
  readonly vectors: VectorCache;
  /** Runs between two commits of the owner, with the newest snapshot it knows; what it answers is the newest then. */
  exclusively(work: (snapshot: Snapshot) => Promise<Snapshot>): Promise<void>;
}

export interface CompactResult {
  /** Newest version committed here; null when there was nothing to do. */
  readonly version: bigint | null;
  readonly filesAdded: number;
  readonly filesRemoved: number;
  readonly bytesAdded: number;
  readonly bytesRemoved: number;
  readonly rowsPurged: number;
  /** Bins left out because another writer removed a file of theirs. */
  readonly binsLost: number;
}

const NOTHING: CompactResult = {
  version: null,
  filesAdded: 0,
  filesRemoved: 0,
  bytesAdded: 0,
  bytesRemoved: 0,
  rowsPurged: 0,
  binsLost: 0,
};
const GROUP_BYTES = 64 * 1024 * 1024;
const APART_BYTES = 1024 * 1024;
const DEFAULT_PLAN: CompactPlanRules = { targetBytes: 128 * 1024 * 1024, filesMin: 2, deletedShareMax: 0, all: false };

/** @throws TableError PROTOCOL_UNSUPPORTED | COMMIT_CONTENTION | COMMIT_CONFLICT | DATA_FILE_MISSING; StoreError; ParquetError */
export async function compactTable(
  snapshot: Snapshot,
  options: CompactOptions = {},
  owner: CompactOwner | null = null,
): Promise<CompactResult> {
  assertRearrangeable(snapshot.protocol, snapshot.store.uri);
  assertChecksum(snapshot);
  const rules = { ...DEFAULT_PLAN, ...options.plan, ...(options.order === undefined ? {} : { all: true }) };
  let total = NOTHING;
  for (const group of groupBins(planBins(snapshot, rules), options.groupBytesMax ?? GROUP_BYTES)) {
    if (options.signal?.aborted === true) break;
    total = add(total, await compactGroup(snapshot, group, options, owner));
  }
  return total;
}

function groupBins(bins: readonly Bin[], bytesMax: number): readonly (readonly Bin[])[] {
  const groups: Bin[][] = [];
  let bytes = Infinity;
  for (const bin of bins) {
    if (bytes + bin.bytes > bytesMax) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)?.push(bin);
    bytes += bin.bytes;
  }
  return groups;
}

function add(a: CompactResult, b: CompactResult): CompactResult {
  return {
    version: b.version ?? a.version,
    filesAdded: a.filesAdded + b.filesAdded,
    filesRemoved: a.filesRemoved + b.filesRemoved,
    bytesAdded: a.bytesAdded + b.bytesAdded,
    bytesRemoved: a.bytesRemoved + b.bytesRemoved,
    rowsPurged: a.rowsPurged + b.rowsPurged,
    binsLost: a.binsLost + b.binsLost,
  };
}

interface Work {
  /** The snapshot that the bins were read from. */
  readonly read: Snapshot;
  readonly bins: readonly IndexedBin[];
  readonly vectors: VectorCache;
  readonly options: CompactOptions;
  readonly nowMs: number;
}

async function compactGroup(
  snapshot: Snapshot,
  group: readonly Bin[],
  options: CompactOptions,
  owner: CompactOwner | null,
): Promise<CompactResult> {
  const nowMs = (options.now ?? Date.now)();
  const vectors = owner?.vectors ?? createVectorCache();
  const folder = owner === null ? null : dirname(owner.index.newRunPath().path);
  const job: RewriteJob = {
    table: { uri: snapshot.store.uri, version: snapshot.version, metadata: snapshot.metadata, schema: snapshot.schema },
    bins: group,
    settings: {
      codec: options.codec ?? 'snappy',
      fileRowsMax: options.fileRowsMax ?? 4_000_000,
      fileBytesMax: options.fileBytesMax ?? 64 * 1024 * 1024,
      nowMs,
    },
    order: options.order ?? null,
    index:
      owner === null || folder === null
        ? null
        : { folder, keyColumns: owner.keyColumns, counter: owner.index.ordinalCounter() },
  };
  const bytes = group.reduce((sum, bin) => sum + bin.bytes, 0);
  const apart = owner !== null && bytes >= (options.apartBytes ?? APART_BYTES);
  const bins = await rewriteApart(job, snapshot.store, { apart, vectors, signal: options.signal });
  const spare = new Set(bins.flatMap(({ run }) => run ?? []));
  try {
    // What the batches wrote meanwhile goes to disk now, not while they wait for the commit.
    if (spare.size > 0) await owner?.index.flush();
    options.signal?.throwIfAborted();
    return await commitGroup({ read: snapshot, bins, vectors, options, nowMs }, owner, spare);
  } finally {
    for (const name of spare) await rm(join(folder ?? '', name), { force: true });
  }
}

/** @param spare run files that nothing has taken over yet */
async function commitGroup(work: Work, owner: CompactOwner | null, spare: Set<string>): Promise<CompactResult> {
  let result = NOTHING;
  const commit = async (start: Snapshot): Promise<Snapshot> => {
    let staged = await stageGroup(work, start);
    if (staged === null) {
      result = { ...NOTHING, binsLost: work.bins.length };
      return start;
    }
    const rebase = async (_: Proposal, snapshot: Snapshot): Promise<Proposal | null> => {
      staged = await stageGroup(work, snapshot);
      return staged;
    };
    const done = await commitTo(start, staged, rebase, work.options.now === undefined ? {} : { now: work.options.now });
    result = { ...(staged?.result ?? NOTHING), version: done.version };
    if (owner !== null && done.version !== null && staged !== null)
      for (const taken of await pointIndex(owner, staged, done.version)) spare.delete(taken);
    return done.snapshot;
  };
  if (owner === null) await commit(await refreshSnapshot(work.read));
  else await owner.exclusively(commit);
  return result;
}

interface StagedGroup extends Proposal {
  readonly result: CompactResult;
  readonly outputs: readonly OutputFile[];
  readonly inputs: readonly AddFile[];
  readonly bins: readonly IndexedBin[];
}

/** The group against a snapshot as it is now; null when no bin is left. */
async function stageGroup(work: Work, snapshot: Snapshot): Promise<StagedGroup | null> {
  assertSameShape(work.read, snapshot);
  const dead = new Map<OutputFile, RowSet>();
  const outputs: OutputFile[] = [];
  const inputs: AddFile[] = [];
  const bins: IndexedBin[] = [];
  let rowsPurged = 0;
  let binsLost = 0;
  for (const bin of work.bins) {
    const marked = await markedSince(work, snapshot, bin);
    if (marked === null) {
      binsLost++;
      continue;
    }
    for (const [output, rows] of marked) dead.set(output, rows);
    bins.push(bin);
    outputs.push(...bin.outputs);
    inputs.push(...bin.inputs.flatMap((file) => snapshot.files.get(file.path) ?? []));
    rowsPurged += bin.rowsPurged;
  }
  if (inputs.length === 0) return null;
  const adds = await withVectors(work, snapshot, outputs, dead);
  const result: CompactResult = {
    version: null,
    filesAdded: adds.length,
    filesRemoved: inputs.length,
    bytesAdded: adds.reduce((sum, file) => sum + Number(file.size), 0),
    bytesRemoved: inputs.reduce((sum, file) => sum + Number(file.size), 0),
    rowsPurged,
    binsLost,
  };
  const removes = inputs.map((file) => removeOf(file, work.nowMs, false));
  return {
    operation: operationOf(work, result),
    actions: { ...NO_ACTIONS, removes, adds },
    result,
    outputs,
    inputs,
    bins,
  };
}

/** Rows of the bin's outputs that were deleted in its inputs since they were read; null when an input is gone or restored. */
async function markedSince(
  { vectors }: Work,
  snapshot: Snapshot,
  bin: IndexedBin,
): Promise<ReadonlyMap<OutputFile, RowSet> | null> {
  const since = new Map<number, RowSet>();
  for (const [number, before] of bin.inputs.entries()) {
    const now = snapshot.files.get(before.path);
    if (now === null) return null;
    if (vectorId(now.deletionVector) === vectorId(before.deletionVector)) continue;
    const old = (await vectors.rowsOf(snapshot.store, [before])).get(before.path) ?? NO_ROWS;
    const current = (await vectors.rowsOf(snapshot.store, [now])).get(now.path) ?? NO_ROWS;
    if (subtractRows(old, current).length > 0) return null;
    since.set(number, subtractRows(current, old));
  }
  const marked = new Map<OutputFile, RowSet>();
  if (since.size === 0) return marked;
  for (const output of bin.outputs) {
    const rows = rowsFrom(output, since);
    if (rows.length > 0) marked.set(output, rows);
  }
  return marked;
}

async function withVectors(
  { vectors }: Work,
  snapshot: Snapshot,
  outputs: readonly OutputFile[],
  dead: ReadonlyMap<OutputFile, RowSet>,
): Promise<readonly AddFile[]> {
  const living = outputs.filter((output) => (dead.get(output)?.length ?? 0) < output.fromRow.length);
  const marked = living.filter((output) => dead.has(output));
  if (marked.length === 0) return living.map((output) => output.add);
  const encoded = encodeDeletionVectors(
    marked.map((output) => dead.get(output) ?? NO_ROWS),
    randomUUID(),
  );
  await putObject(snapshot.store, encoded.key, encoded.bytes);
  return living.map((output) => {
    const at = marked.indexOf(output);
    if (at < 0) return output.add;
    const deletionVector = encoded.descriptors[at] ?? null;
    const file = { ...output.add, deletionVector, stats: vectorStats(output.add, output.fromRow.length) };
    vectors.put(file, dead.get(output) ?? NO_ROWS);
    return file;
  });
}

/** New columns are no hindrance (rewritten rows are NULL in them); any other change of the schema is. */
function assertSameShape(read: Snapshot, now: Snapshot): void {
  if (now.metadata === read.metadata || sameShape(read.metadata, now.metadata)) return;
  throw new TableError(
    'COMMIT_CONFLICT',
    { table: now.store.uri, version: now.version },
    "the table's columns or partitions changed while its files were rewritten; nothing was committed, run it again",
  );
}

function sameShape(a: MetadataAction, b: MetadataAction): boolean {
  if (a.id !== b.id || mappingMode(a) !== mappingMode(b)) return false;
  if (JSON.stringify(a.partitionColumns) !== JSON.stringify(b.partitionColumns)) return false;
  const fields = parseSchema(b.schemaString).fields;
  return parseSchema(a.schemaString).fields.every((field) => {
    const other = fields.find((candidate) => candidate.name === field.name);
    if (other === undefined) return false;
    const text = (one: typeof field): string => schemaText({ type: 'struct', fields: [one] });
    return text({ ...other, nullable: field.nullable }) === text(field);
  });
}

function operationOf({ options }: Work, result: CompactResult): Operation {
  const { order } = options;
  const columns = JSON.stringify(order?.columns ?? []);
  return {
    name: 'OPTIMIZE',
    parameters: {
      predicate: '[]',
      zOrderBy: order?.kind === 'z-order' ? columns : '[]',
      ...(order?.kind === 'sort' ? { sortBy: columns } : {}),
    },
    metrics: {
      numRemovedFiles: String(result.filesRemoved),
      numAddedFiles: String(result.filesAdded),
      numRemovedBytes: String(result.bytesRemoved),
      numAddedBytes: String(result.bytesAdded),
      sluiceRowsPurged: String(result.rowsPurged),
    },
    isolationLevel: 'SnapshotIsolation',
  };
}

/**
 * One bulk run a bin: every row that was written to its new files, put below what batches wrote meanwhile. Rows that died since
 * need not be taken out: their keys have newer entries above, or are dead by the vector. An index that moved otherwise
 * follows the log instead. Answers the run files that the index took over.
 */
async function pointIndex(
  { index, place }: CompactOwner,
  staged: StagedGroup,
  version: bigint,
): Promise<readonly string[]> {
  if (index.version() !== version - 1n || !place.valid()) return [];
  const paths = new Set(staged.actions.adds.map((file) => file.path));
  const change = {
    version,
    added: staged.outputs.flatMap(({ ordinal, add: file }) =>
      ordinal === null || !paths.has(file.path) ? [] : [{ ordinal, path: file.path }],
    ),
    removed: staged.inputs.map((file) => file.path),
    truncate: null,
  };
  const runs = staged.bins.flatMap(({ run }) => run ?? []);
  let taken = false;
  await resetWhenCorrupt(index, async () => {
    taken = await index.applyRuns(change, runs, place);
  });
  return taken ? runs : [];
}
