/**
 * What a switch and the way back have in common: the place that the table's commit carries, and the end of one that was killed
 * half-way. `settleSwap` finishes it, or takes it back, before the table is used.
 */
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { subStore } from '../../../lakehouse/store/sub-store.ts';
import type { Commit, TxnAction } from '../../../lakehouse/table/actions.ts';
import { openSnapshot, type Snapshot } from '../../../lakehouse/table/snapshot.ts';
import type { IngestTable } from '../../ingest/ingest-table.ts';
import { tableFolder } from '../../ingest/table-target.ts';
import { txnsOf, type CommittedPosition, type StreamPosition } from '../../ingest/txn-ids.ts';
import { dataTopic } from '../../log/topics.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { openCheckpoint } from '../../stream/checkpoint.ts';
import { idOf, placeOf, storeOf, type TableId } from './build-table.ts';
import type { ReplayParts } from './parts.ts';
import { forgetSwap, keptContract, readSwap, writeSwap, type SwapRecord } from './replay-record.ts';
import { quarantineAt } from './swap-quarantine.ts';

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

export const swapAppId = (name: string): string => `${name}/swap`;

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
export async function finish(parts: ReplayParts, table: TableId, record: SwapRecord): Promise<void> {
  if (record.contractAfter !== null && record.contractAfter !== record.contractBefore) {
    const text = await keptContract(parts.lake, record.contractAfter);
    if (text !== null) await parts.contracts.save(table.schema, table.table, text);
  }
  await writeSwap(parts.lake, { ...record, phase: 'done', previous: null });
}

/** What fails half-way is finished or taken back at once, and not only when the service is started again. */
export async function wholly<T>(
  parts: ReplayParts,
  table: TableId,
  live: IngestTable,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    // The same is tried again when the table is next opened; the first failure is the one to tell.
    await settleSwap(parts, table).catch(() => undefined);
    await live.reopen().catch(() => undefined);
    throw error;
  }
}

export async function livePlace(
  parts: ReplayParts,
  { schema, table }: TableId,
  snapshot: Snapshot | null,
): Promise<CommittedPosition | null> {
  const bounds = await parts.log.reader.bounds(dataTopic(parts.name, schema, table));
  return placeOf(snapshot, parts.name, bounds.keys());
}

/** A version whose batch number Spark's form of the checkpoint would miss: it is noted there as a batch that read nothing. */
export async function noteBatch(
  parts: ReplayParts,
  table: TableId,
  batchId: bigint,
  place: StreamPosition,
): Promise<void> {
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

export function txnActions(parts: ReplayParts, batchId: bigint, place: StreamPosition, number: number): TxnAction[] {
  const lastUpdated = BigInt(parts.now());
  const txns = txnsOf(parts.name, batchId, place, { logId: parts.logId, topicId: null });
  return [...txns, { appId: swapAppId(parts.name), version: BigInt(number) }].map((txn) => ({ ...txn, lastUpdated }));
}

export function refuseOwners(parts: ReplayParts, table: TableId, winners: readonly Commit[]): void {
  for (const { version, txns } of winners)
    if (txns.some(({ appId }) => appId.startsWith(`${parts.name}/`)))
      throw notReady(
        `version ${version} of ${idOf(table)} was written by another owner of the stream meanwhile`,
        'stop the other one, then try again',
      );
}

export function notReady(message: string, remedy: string): SluiceError {
  return new SluiceError('REPLAY_NOT_READY', message, { exit: ExitCode.findings, remedy });
}

export const quarantineStore = (parts: ReplayParts, { schema, table }: TableId): ObjectStore =>
  subStore(parts.lake, `${tableFolder(schema, table)}__quarantine`);
export const versionText = (snapshot: Snapshot | null): string | null =>
  snapshot === null ? null : String(snapshot.version);
