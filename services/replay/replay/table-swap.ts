/**
 * The switch: a table's rows become those of the table that a replay built, in one commit of the table's own log, and back.
 *
 *   copy the built objects below the table's root
 *   → in the owner's turn: build up to the table's place → record → quarantine → THE COMMIT → contract → place read anew
 *
 * Readers open the table by its path, as ever, and see the old rows or the new ones. The commit carries the stream's place too
 * (offsets, marks, batch number), so that the owner goes on exactly behind what the new rows hold. The old rows stay in the
 * history: the way back is a RESTORE with the old place, and the events since then run again. `settleSwap` finishes what was
 * killed half-way, or takes it back, before the table is used.
 */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import type { Commit, TxnAction } from '../../../lakehouse/table/actions.ts';
import { openSnapshot, type Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { copyObjects, objectsOf, replaceRows } from '../../../lakehouse/upkeep/replace-rows.ts';
import { restoreTable } from '../../../lakehouse/upkeep/restore.ts';
import { FENCE_MEMBER } from '../../../lakehouse/merge/fences.ts';
import type { OwnedTable } from '../../ingest/ingest-options.ts';
import type { IngestTable } from '../../ingest/ingest-table.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { txnsOf, type CommittedPosition, type StreamPosition } from '../../ingest/txn-ids.ts';
import { formatLsn, type Lsn } from '../../log/position.ts';
import { dataTopic } from '../../log/topics.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { openCheckpoint } from '../../stream/checkpoint.ts';
import { hashOf, idOf, openBuild, placeOf, type TableId } from './build-table.ts';
import { isWithin, sameOffsets, timelineUpTo, walkMarks } from './marks.ts';
import { openStepped, stepTo, type ReplayParts } from './parts.ts';
import { placeRecord, streamPlace } from './place-record.ts';
import {
  buildContracts,
  forgetSwap,
  keepContract,
  keptContract,
  readBuild,
  readSwap,
  REPLAY_FORMAT,
  writeSwap,
} from './replay-record.ts';
import type { BuildRecord, SwapRecord } from './replay-record.ts';
import { COPY_FRESH_MS, copyAhead, copyFences } from './swap-copy.ts';
import { quarantineAt, replaceQuarantine } from './swap-quarantine.ts';

export interface SwapOptions {
  readonly signal: AbortSignal;
  /** 0 to 1, of the work that can be foreseen. */
  readonly onProgress: (progress: number) => void;
}

export interface SwapResult {
  readonly table: string;
  readonly into: string;
  readonly version: string;
  readonly lsn: string;
  readonly copiedBytes: number;
  /** The table's contract is another one now. */
  readonly contractChanged: boolean;
}

const swapAppId = (name: string): string => `${name}/swap`;
const WAIT_MS = 120_000;
const POLL_MS = 100;

export async function swapTable(
  parts: ReplayParts,
  owner: OwnedTable,
  names: { readonly table: TableId; readonly into: TableId },
  options: SwapOptions,
): Promise<SwapResult> {
  const record = await swappable(parts, names.table, names.into);
  const intoStore = storeOf(parts, names.into);
  const store = storeOf(parts, names.table);
  let copiedBytes = await copyAhead(parts, intoStore, store, options);
  for (const deadline = parts.now() + WAIT_MS; ;) {
    const done = await owner.exclusive((live) => {
      const work = { ...names, record, intoStore, store };
      return wholly(parts, names.table, live, () => swapInTurn(parts, owner, live, work));
    });
    if (done !== null) {
      if (owner.state() !== 'STREAMING' && owner.state() !== 'PAUSED') owner.resume();
      copiedBytes += done.copiedBytes;
      return { ...done, copiedBytes };
    }
    if (parts.now() > deadline)
      throw notReady(`${idOf(names.table)} does not come to where ${idOf(names.into)} is`, 'look at `sluice status`');
    options.signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

interface SwapWork {
  readonly table: TableId;
  readonly into: TableId;
  readonly record: BuildRecord;
  readonly intoStore: ObjectStore;
  readonly store: ObjectStore;
}

/** Null: the built table is ahead of one that moves; tried again when it has come there. */
async function swapInTurn(
  parts: ReplayParts,
  owner: OwnedTable,
  live: IngestTable,
  work: SwapWork,
): Promise<SwapResult | null> {
  await settleSwap(parts, work.table);
  const current = await owner.target.snapshot();
  const place = await livePlace(parts, work.table, current);
  if (current === null || place === null)
    throw notReady(`${idOf(work.table)} has no rows to be replaced yet`, 'let `sluice run` read it first');
  const built = await catchUp(parts, work, place);
  if (!sameOffsets(built.nextOffsets, place.nextOffsets)) {
    if (!isWithin(place.nextOffsets, built.nextOffsets))
      throw notReady(
        `${idOf(work.into)} could not be brought to where ${idOf(work.table)} is`,
        'the log no longer holds what lies between: build it anew',
      );
    if (owner.state() === 'STREAMING') return null;
  }
  const freshSinceMs = parts.now() - COPY_FRESH_MS;
  const source = await openSnapshot(work.intoStore);
  // Another process may have built on since: its rows would be put in with the place of before.
  const ofRows = await placeOf(source, parts.name, place.nextOffsets.keys());
  if (ofRows === null || !sameOffsets(ofRows.nextOffsets, built.nextOffsets)) return null;
  let copiedBytes = await copyObjects(work.intoStore, work.store, objectsOf(source), { freshSinceMs });
  const number = Number(current.txns.get(swapAppId(parts.name))?.version ?? 0n) + 1;
  const fences = await copyFences(work.intoStore, work.store, number);
  copiedBytes += fences.bytes;
  const swap = await beginSwap(parts, work, { number, current, place, owner });
  await parts.failpoint('after-swap-record');
  copiedBytes += await replaceQuarantine(
    quarantineStore(parts, work.into),
    quarantineStore(parts, work.table),
    { table: idOf(work.table), into: work.record.into },
    freshSinceMs,
  );
  await parts.failpoint('before-swap-commit');
  const batchId = place.batchId + 1n;
  const done = await replaceRows(work.store, source, {
    txns: txnActions(parts, batchId, built, number),
    parameters: {
      from: work.record.into,
      'sluice.batch': String(batchId),
      'sluice.mark': String(built.markSequence),
      'sluice.swap': String(number),
    },
    extra: fences.keys.length === 0 ? {} : { [FENCE_MEMBER]: fences.keys },
    onWinners: (winners) => refuseOwners(parts, work.table, winners),
  });
  await parts.failpoint('after-swap-commit');
  await finish(parts, work.table, swap);
  await noteBatch(parts, work.table, batchId, built);
  await live.reopen();
  return {
    table: idOf(work.table),
    into: idOf(work.into),
    version: String(done.version ?? done.snapshot.version),
    lsn: formatLsn(built.lsn as Lsn),
    copiedBytes,
    contractChanged: swap.contractBefore !== swap.contractAfter,
  };
}

/** Switches back: rows, quarantine, contract and place as they were; then what the log has had since is applied to them. */
export async function undoSwap(
  parts: ReplayParts,
  owner: OwnedTable,
  table: TableId,
  options: SwapOptions,
): Promise<SwapResult> {
  const done = await owner.exclusive((live) =>
    wholly(parts, table, live, () => undoInTurn(parts, owner, live, table, options)),
  );
  if (owner.state() !== 'STREAMING' && owner.state() !== 'PAUSED') owner.resume();
  return done;
}

/** What fails half-way is finished or taken back at once, and not only when the service is started again. */
async function wholly<T>(parts: ReplayParts, table: TableId, live: IngestTable, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // The same is tried again when the table is next opened; the first failure is the one to tell.
    await settleSwap(parts, table).catch(() => undefined);
    await live.reopen().catch(() => undefined);
    throw error;
  }
}

async function undoInTurn(
  parts: ReplayParts,
  owner: OwnedTable,
  live: IngestTable,
  table: TableId,
  options: SwapOptions,
): Promise<SwapResult> {
  await settleSwap(parts, table);
  const before = await readSwap(parts.lake, idOf(table));
  if (before === null || before.kind !== 'swap')
    throw notReady(`${idOf(table)} was not swapped`, '`sluice replay --list` shows what was');
  const place = streamPlace(before.place);
  await assertHeld(parts, table, place);
  const current = await owner.target.snapshot();
  const now = await livePlace(parts, table, current);
  if (current === null || now === null) throw notReady(`${idOf(table)} has no rows`, 'look at `sluice status`');
  const number = before.number + 1;
  const undo: SwapRecord = {
    ...before,
    kind: 'undo',
    phase: 'begun',
    number,
    version: String(current.version),
    place: placeRecord(now),
    quarantineVersion: versionText(await owner.target.quarantineSnapshot()),
    contractBefore: before.contractAfter,
    contractAfter: before.contractBefore,
    atMs: parts.now(),
    previous: before,
  };
  await writeSwap(parts.lake, undo);
  await parts.failpoint('after-swap-record');
  await quarantineAt(quarantineStore(parts, table), before.quarantineVersion);
  await parts.failpoint('before-swap-commit');
  const batchId = now.batchId + 1n;
  const restored = await restoreTable(storeOf(parts, table), BigInt(before.version), {
    txns: txnActions(parts, batchId, place, number),
    parameters: { 'sluice.batch': String(batchId), 'sluice.swap': String(number) },
    onWinners: (winners) => refuseOwners(parts, table, winners),
  });
  await parts.failpoint('after-swap-commit');
  await finish(parts, table, undo);
  await noteBatch(parts, table, batchId, place);
  options.onProgress(0.5);
  await runAgain(parts, owner, table, place);
  await live.reopen();
  return {
    table: idOf(table),
    into: before.into,
    version: String(restored.version ?? restored.snapshot.version),
    lsn: formatLsn((live.committed()?.lsn ?? place.lsn) as Lsn),
    copiedBytes: 0,
    contractChanged: undo.contractBefore !== undo.contractAfter,
  };
}

/** The stream's own marks up to here were forgotten: the events since the swap go along marks that are read anew. */
async function runAgain(parts: ReplayParts, owner: OwnedTable, table: TableId, place: StreamPosition): Promise<void> {
  let newest = 0;
  await walkMarks(parts.log.reader, parts.name, (mark) => (newest = mark.sequence), place.progressOffset);
  const timeline = await timelineUpTo(parts.log.reader, parts.name, newest, place.progressOffset);
  // Closed with the owner's target, and not before.
  const { table: again } = await openStepped(parts, {
    ...table,
    target: owner.target,
    contracts: parts.contracts,
    timeline,
  });
  await stepTo(again, newest);
}

/** Finishes a swap whose commit stands, or takes back what one without a commit left behind. Called before a table is used. */
export async function settleSwap(parts: ReplayParts, table: TableId): Promise<void> {
  const record = await readSwap(parts.lake, idOf(table));
  if (record === null || record.phase === 'done') return;
  const snapshot = await openSnapshot(storeOf(parts, table));
  if ((snapshot.txns.get(swapAppId(parts.name))?.version ?? 0n) >= BigInt(record.number)) {
    await finish(parts, table, record);
    return;
  }
  await quarantineAt(quarantineStore(parts, table), record.quarantineVersion);
  if (record.previous === null) await forgetSwap(parts.lake, idOf(table));
  else await writeSwap(parts.lake, record.previous);
}

/** The table's contract follows its rows. */
async function finish(parts: ReplayParts, table: TableId, record: SwapRecord): Promise<void> {
  if (record.contractAfter !== null && record.contractAfter !== record.contractBefore) {
    const text = await keptContract(parts.lake, record.contractAfter);
    if (text !== null) await parts.contracts.save(table.schema, table.table, text);
  }
  await writeSwap(parts.lake, { ...record, phase: 'done', previous: null });
}

async function swappable(parts: ReplayParts, table: TableId, into: TableId): Promise<BuildRecord> {
  const record = await readBuild(parts.lake, idOf(into));
  if (record === null || record.table !== idOf(table))
    throw notReady(
      `no replay has built ${idOf(into)} from ${idOf(table)}`,
      `build it first: \`sluice replay ${idOf(table)} --into ${idOf(into)}\``,
    );
  if (record.base === 'middle')
    throw notReady(
      `${idOf(into)} holds the events since ${record.from} only: rows that did not change since are not in it`,
      'build one from the beginning to swap it in',
    );
  const head = await parts.contracts.load(table.schema, table.table);
  const own = await buildContracts(parts.lake, idOf(into)).load(table.schema, table.table);
  if (record.contractFile === null && head !== null && own !== null && hashOf(head.text) !== hashOf(own.text))
    throw notReady(
      `the contract of ${idOf(table)} was changed after the replay into ${idOf(into)} began`,
      'discard that one and build it anew, so that all its rows come by one contract',
    );
  return record;
}

async function beginSwap(
  parts: ReplayParts,
  work: SwapWork,
  at: {
    readonly number: number;
    readonly current: Snapshot;
    readonly place: CommittedPosition;
    readonly owner: OwnedTable;
  },
): Promise<SwapRecord> {
  const { schema, table } = work.table;
  const head = await parts.contracts.load(schema, table);
  const own = await buildContracts(parts.lake, idOf(work.into)).load(schema, table);
  for (const contract of [head, own])
    if (contract !== null) await keepContract(parts.lake, hashOf(contract.text), contract.text);
  const record: SwapRecord = {
    formatVersion: REPLAY_FORMAT,
    table: idOf(work.table),
    into: idOf(work.into),
    kind: 'swap',
    phase: 'begun',
    number: at.number,
    version: String(at.current.version),
    place: placeRecord(at.place),
    quarantineVersion: versionText(await at.owner.target.quarantineSnapshot()),
    contractBefore: head === null ? null : hashOf(head.text),
    contractAfter: own === null ? null : hashOf(own.text),
    atMs: parts.now(),
    previous: await readSwap(parts.lake, idOf(work.table)),
  };
  await writeSwap(parts.lake, record);
  return record;
}

/** Steps the built table to the mark where the other one stands. */
async function catchUp(parts: ReplayParts, work: SwapWork, place: CommittedPosition): Promise<StreamPosition> {
  const build = await openBuild(parts, {
    table: work.table,
    into: work.into,
    from: null,
    to: { kind: 'now' },
    contract: null,
    through: place.markSequence,
  });
  try {
    await build.stepTo(place.markSequence, {});
    const reached = build.stepped.table.committed();
    if (reached === null) throw notReady(`${work.record.into} has no rows yet`, 'build it first, without --swap');
    return reached;
  } finally {
    await build.close();
  }
}

async function livePlace(
  parts: ReplayParts,
  { schema, table }: TableId,
  snapshot: Snapshot | null,
): Promise<CommittedPosition | null> {
  const bounds = await parts.log.reader.bounds(dataTopic(parts.name, schema, table));
  return placeOf(snapshot, parts.name, bounds.keys());
}

async function assertHeld(parts: ReplayParts, { schema, table }: TableId, place: StreamPosition): Promise<void> {
  const bounds = await parts.log.reader.bounds(dataTopic(parts.name, schema, table));
  for (const [partition, next] of place.nextOffsets) {
    const from = place.holdBack.get(partition) ?? next;
    const earliest = bounds.get(partition)?.earliest ?? 0n;
    if (earliest > from)
      throw new SluiceError(
        'REPLAY_RANGE_GONE',
        `the log no longer holds offsets ${from} to ${earliest - 1n} of ${schema}.${table}, partition ${partition}, which came after the swap`,
        {
          exit: ExitCode.namedState,
          remedy: `the old rows cannot be brought up to now; \`sluice backfill ${schema}.${table}\`, or keep the table as it is`,
        },
      );
  }
}

/** A version whose batch number Spark's form of the checkpoint would miss: it is noted there as a batch that read nothing. */
async function noteBatch(parts: ReplayParts, table: TableId, batchId: bigint, place: StreamPosition): Promise<void> {
  const folder = tableFolder(table.schema, table.table).replace('/', '.');
  const checkpoint = openCheckpoint(parts.checkpoint.store, `${parts.checkpoint.folder}/${folder}`, parts.newId);
  await checkpoint.replacePlan({
    batchId,
    timestampMs: parts.now(),
    topic: dataTopic(parts.name, table.schema, table.table),
    from: new Map(),
    to: place.nextOffsets,
    conf: { 'sluice.mark': String(place.markSequence), 'sluice.progress': String(place.progressOffset) },
  });
  await checkpoint.writeCommit(batchId);
}

function txnActions(parts: ReplayParts, batchId: bigint, place: StreamPosition, number: number): TxnAction[] {
  const lastUpdated = BigInt(parts.now());
  const txns = txnsOf(parts.name, batchId, place, { logId: parts.logId, topicId: null });
  return [...txns, { appId: swapAppId(parts.name), version: BigInt(number) }].map((txn) => ({ ...txn, lastUpdated }));
}

function refuseOwners(parts: ReplayParts, table: TableId, winners: readonly Commit[]): void {
  for (const { version, txns } of winners)
    if (txns.some(({ appId }) => appId.startsWith(`${parts.name}/`)))
      throw notReady(
        `version ${version} of ${idOf(table)} was written by another owner of the stream meanwhile`,
        'stop the other one, then try again',
      );
}

function notReady(message: string, remedy: string): SluiceError {
  return new SluiceError('REPLAY_NOT_READY', message, { exit: ExitCode.findings, remedy });
}

const storeOf = (parts: ReplayParts, { schema, table }: TableId): ObjectStore =>
  subStore(parts.lake, tableFolder(schema, table));
const quarantineStore = (parts: ReplayParts, { schema, table }: TableId): ObjectStore =>
  subStore(parts.lake, `${tableFolder(schema, table)}__quarantine`);
const versionText = (snapshot: Snapshot | null): string | null => (snapshot === null ? null : String(snapshot.version));
