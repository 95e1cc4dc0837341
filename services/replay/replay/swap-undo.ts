/** The way back of a switch: a RESTORE with the old place, and the events since then run again. */
import { restoreTable } from '../../../lakehouse/upkeep/restore.ts';
import type { OwnedTable } from '../../ingest/ingest-options.ts';
import type { IngestTable } from '../../ingest/ingest-table.ts';
import type { StreamPosition } from '../../ingest/txn-ids.ts';
import { formatLsn, type Lsn } from '../../log/position.ts';
import { dataTopic } from '../../log/topics.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { idOf, storeOf, type TableId } from './build-table.ts';
import { timelineUpTo, walkMarks } from './marks.ts';
import { openStepped, stepTo, type ReplayParts } from './parts.ts';
import { placeRecord, streamPlace } from './place-record.ts';
import { readSwap, writeSwap, type SwapRecord } from './replay-record.ts';
import { quarantineAt } from './swap-quarantine.ts';
import {
  finish,
  livePlace,
  noteBatch,
  notReady,
  quarantineStore,
  refuseOwners,
  settleSwap,
  txnActions,
  versionText,
  wholly,
  type SwapOptions,
  type SwapResult,
} from './swap-steps.ts';

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
