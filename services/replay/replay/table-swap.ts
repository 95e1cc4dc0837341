/**
 * The switch: a table's rows become those of the table that a replay built, in one commit of the table's own log, and back.
 *
 *   copy the built objects below the table's root
 *   → in the owner's turn: build up to the table's place → record → quarantine → THE COMMIT → contract → place read anew
 *
 * Readers open the table by its path, as ever, and see the old rows or the new ones. The commit carries the stream's place too
 * (offsets, marks, batch number), so that the owner goes on exactly behind what the new rows hold. The old rows stay in the
 * history: the way back is in swap-undo.ts. `settleSwap` finishes what was killed half-way, or takes it back, before the table
 * is used.
 */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { openSnapshot, type Snapshot } from '../../../lakehouse/table/snapshot.ts';
import { copyObjects, objectsOf, replaceRows } from '../../../lakehouse/upkeep/replace-rows.ts';
import { FENCE_MEMBER } from '../../../lakehouse/merge/fences.ts';
import type { OwnedTable } from '../../ingest/ingest-options.ts';
import type { IngestTable } from '../../ingest/ingest-table.ts';
import type { CommittedPosition, StreamPosition } from '../../ingest/txn-ids.ts';
import { formatLsn, type Lsn } from '../../log/position.ts';
import { hashOf, idOf, openBuild, placeOf, storeOf, type TableId } from './build-table.ts';
import { isWithin, sameOffsets } from './marks.ts';
import type { ReplayParts } from './parts.ts';
import { placeRecord } from './place-record.ts';
import { buildContracts, keepContract, readBuild, readSwap, REPLAY_FORMAT, writeSwap } from './replay-record.ts';
import type { BuildRecord, SwapRecord } from './replay-record.ts';
import { COPY_FRESH_MS, copyAhead, copyFences } from './swap-copy.ts';
import { replaceQuarantine } from './swap-quarantine.ts';
import {
  finish,
  livePlace,
  noteBatch,
  notReady,
  quarantineStore,
  refuseOwners,
  settleSwap,
  swapAppId,
  txnActions,
  versionText,
  wholly,
  type SwapOptions,
  type SwapResult,
} from './swap-steps.ts';

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
