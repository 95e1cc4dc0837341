/**
 * The stream run again over an older range of the log, into the table itself, through its owner: a batch at a time between two
 * of the stream's own. The per-row fence decides what may change (services/ingest/replay-batch.ts); no position moves. A
 * replay that was killed goes on behind its last whole batch when it is asked for again.
 */
import { getText } from '../../../lakehouse/store/get-text.ts';
import type { ObjectStore } from '../../../lakehouse/store/store.ts';
import { readHistory } from '../../../lakehouse/table/history.ts';
import { createAwaiting } from '../../ingest/awaiting.ts';
import type { OwnedTable } from '../../ingest/ingest-options.ts';
import { formatLsn, type LogOffset } from '../../log/position.ts';
import { ExitCode, SluiceError } from '../../runtime/errors.ts';
import { planBatch } from '../../stream/plan.ts';
import { findBatch } from './batch-place.ts';
import { hashOf, idOf, storeOf, type TableId } from './build-table.ts';
import { distance, isWithin, offsetsText, timelineUpTo, type OffsetMap } from './marks.ts';
import { batchLimits, type ReplayParts } from './parts.ts';
import { parseRangePoint } from './range-point.ts';
import { resolveRange, type ReplayRange } from './range.ts';
import { REPLAY_FORMAT, type OffsetTexts } from './replay-record.ts';

export interface InPlaceRequest {
  readonly table: TableId;
  readonly from: string;
  readonly to: string;
}

export interface InPlaceResult {
  readonly table: string;
  readonly fromOffset: string;
  readonly toOffset: string;
  readonly toLsn: string;
  readonly resumed: boolean;
  readonly batches: number;
  readonly read: number;
  readonly applied: number;
  readonly released: number;
  readonly parkedAgain: number;
  readonly refused: number;
  /** Keys that only the source can settle; at most UNSETTLED_MAX of them. */
  readonly unsettled: readonly (readonly string[])[];
  readonly unsettledKeys: number;
}

export interface InPlaceOptions {
  readonly signal: AbortSignal;
  readonly onProgress: (done: bigint, total: bigint) => void;
}

export const UNSETTLED_MAX = 20_000;
const WAIT_MS = 30_000;
const POLL_MS = 50;

/** Where an unfinished replay of a table is. */
interface Progress {
  readonly formatVersion: number;
  readonly from: string;
  readonly to: string;
  readonly contractHash: string;
  /** Of the table when the replay began. */
  readonly version: string;
  readonly nextOffsets: OffsetTexts;
  readonly markSequence: number;
}

export async function replayInPlace(
  parts: ReplayParts,
  owner: OwnedTable,
  request: InPlaceRequest,
  options: InPlaceOptions,
): Promise<InPlaceResult> {
  const { schema, table } = request.table;
  const range = await rangeOf(parts, request);
  const head = await parts.contracts.load(schema, table);
  const contractHash = head === null ? '' : hashOf(head.text);
  const key = progressKey(request.table);
  const standing = await readProgress(parts.lake, key);
  const goesOn =
    standing !== null &&
    standing.from === request.from &&
    standing.to === request.to &&
    standing.contractHash === contractHash &&
    (await hasOnlyGrown(storeOf(parts, request.table), standing.version));
  const version = goesOn ? standing.version : String((await owner.target.snapshot())?.version ?? -1n);
  let position: OffsetMap = goesOn ? offsetsOf(standing.nextOffsets) : range.start.nextOffsets;
  let sequence = goesOn ? standing.markSequence : range.start.markSequence;
  const limit = await reachable(parts, owner, range);
  const timeline = await timelineUpTo(parts.log.reader, parts.name, limit);
  const awaiting = createAwaiting(Math.max(64 * 1024 * 1024, parts.memoryBytes));
  const total = { batches: 0, read: 0, applied: 0, released: 0, parkedAgain: 0, refused: 0 };
  const unsettled = new Map<string, readonly string[]>();
  const limits = { ...batchLimits(parts), barrier: limit };

  const run = async (from: OffsetMap, to: OffsetMap, cut: number, last: boolean): Promise<void> => {
    const mark = timeline.at(cut)?.mark ?? range.end.mark;
    const plan = { batchId: 0n, timestampMs: parts.now(), topic: range.topic, from, to, conf: {} };
    const done = await owner.exclusive((live) => live.replay({ plan, mark, awaiting, last }));
    total.batches++;
    total.read += done.read;
    total.applied += done.applied;
    total.released += done.released;
    total.parkedAgain += done.parkedAgain;
    total.refused += done.refused;
    for (const texts of done.unsettled) unsettled.set(texts.join('\0'), texts);
  };

  for (;;) {
    options.signal.throwIfAborted();
    const planned = planBatch(position, timeline.cutsAfter(range.topic, sequence), limits);
    if (planned === null) break;
    await run(planned.from, planned.to, planned.cut.sequence, false);
    position = new Map([...position, ...planned.to]);
    sequence = planned.cut.sequence;
    options.onProgress(distance(range.start.nextOffsets, position), range.records);
    // What waits for its row is known to this run only: one that is killed reads it again.
    if (awaiting.events === 0)
      await writeProgress(parts.lake, key, {
        formatVersion: REPLAY_FORMAT,
        from: request.from,
        to: request.to,
        contractHash,
        version,
        nextOffsets: Object.fromEntries(
          [...position].map(([partition, offset]) => [String(partition), String(offset)]),
        ),
        markSequence: sequence,
      });
    await parts.failpoint('after-replay-batch');
  }
  if (awaiting.events > 0) await run(new Map(), new Map(), sequence, true);
  await parts.lake.delete([key]);
  return {
    table: idOf(request.table),
    fromOffset: offsetsText(range.start.nextOffsets),
    toOffset: offsetsText(position),
    toLsn: formatLsn((timeline.newest()?.mark ?? range.end.mark).lsn),
    resumed: goesOn,
    ...total,
    unsettled: [...unsettled.values()].slice(0, UNSETTLED_MAX),
    unsettledKeys: unsettled.size,
  };
}

function rangeOf(parts: ReplayParts, { table, from, to }: InPlaceRequest): Promise<ReplayRange> {
  const ports = {
    reader: parts.log.reader,
    name: parts.name,
    findBatch: (id: string, batch: bigint) => findBatch(storeOf(parts, table), id, batch),
  };
  return resolveRange(ports, {
    schema: table.schema,
    table: table.table,
    from: parseRangePoint('--from', from),
    to: parseRangePoint('--to', to),
  });
}

/**
 * Newest mark that the replay may go to: what the table itself has not had yet comes by the stream. A table that moves is
 * waited for; one that stands still is replayed up to where it stands.
 */
async function reachable(parts: ReplayParts, owner: OwnedTable, range: ReplayRange): Promise<number> {
  const there = (): boolean => isWithin(range.end.nextOffsets, owner.position().nextOffsets);
  for (const deadline = parts.now() + WAIT_MS; !there() && parts.now() < deadline;) {
    if (owner.state() !== 'STREAMING') break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  if (there()) return range.end.mark.sequence;
  if (owner.position().nextOffsets.size === 0) await owner.exclusive((live) => live.reopen());
  const stands = owner.position();
  if (stands.nextOffsets.size === 0)
    throw new SluiceError('REPLAY_NOT_READY', `${range.table} has no rows yet`, {
      exit: ExitCode.findings,
      remedy: 'let `sluice run` read it first',
    });
  return Math.min(range.end.mark.sequence, stands.markSequence);
}

/** False: rows were set back or replaced since that version, and what was replayed before may be gone with them. */
async function hasOnlyGrown(store: ObjectStore, since: string): Promise<boolean> {
  for await (const { version, commit } of readHistory(store)) {
    if (String(version) === since) return true;
    const operation = commit.commitInfo?.['operation'];
    if (operation === 'RESTORE' || operation === 'REPLACE TABLE') return false;
  }
  return false;
}

const progressKey = ({ schema, table }: TableId): string =>
  `_sluice/replay-in-place/${schema}.${table.replaceAll('/', '_')}.json`;

async function readProgress(lake: ObjectStore, key: string): Promise<Progress | null> {
  const text = await getText(lake, key);
  const progress = text === null ? null : (JSON.parse(text) as Progress);
  // A newer form is begun anew: the fence makes that the same.
  return progress === null || progress.formatVersion > REPLAY_FORMAT ? null : progress;
}

async function writeProgress(lake: ObjectStore, key: string, progress: Progress): Promise<void> {
  await lake.put(key, Buffer.from(JSON.stringify(progress)));
}

function offsetsOf(texts: OffsetTexts): OffsetMap {
  return new Map(Object.entries(texts).map(([partition, text]) => [Number(partition), BigInt(text) as LogOffset]));
}
