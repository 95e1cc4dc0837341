/**
 * One batch of a replay in place: events that the table has seen before, through the same gate, fold and merge, under the
 * per-row fence. It moves no position: what is newer in the table stays, so that a replay of what was applied changes
 * nothing. What it can change: events that were parked and that the contract lets through now, and rows that were lost.
 *
 * Nothing is parked anew, for every event of the range was accounted for when it first came: a parked one that still violates
 * stays as it is, an applied one that would violate today is counted (`refused`). A row whose unchanged column has no base in
 * the table is named by its key (`unsettled`): the source is asked for it, it is never written with NULL.
 */
import type { ObjectStore } from '../../lakehouse/store/store.ts';
import { RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { MergeTable } from '../../lakehouse/merge/merge.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import type { Mark, TableShape } from '../log/event.ts';
import type { LogBatch, LogReader } from '../log/log.ts';
import type { BatchPlan } from '../stream/checkpoint.ts';
import type { Awaiting } from './awaiting.ts';
import { buildBatch } from './batch-builder.ts';
import { cellText } from './columns/bytes-builders.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { fold } from './fold.ts';
import type { IngestBatch, RawRecord } from './ingest-batch.ts';
import { mergeInput, rowsWithoutBase } from './merge-input.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { FINAL_REVISION, attemptRevision, commitQuarantine, healedChanges } from './quarantine.ts';
import type { StatusChange } from './quarantine.ts';
import { quarantineId } from './quarantine-row.ts';
import { scanQuarantine } from './quarantine-scan.ts';
import type { ShapeFeed } from './shape-feed.ts';
import type { TablePlan } from './table-plan.ts';

export interface ReplayBatchOptions {
  readonly schemaName: string;
  readonly tableName: string;
  readonly reader: LogReader;
  readonly lake: ObjectStore;
  readonly shapes: ShapeFeed;
  readonly decode: RecordDecoder;
  readonly tablePlan: TablePlan;
  readonly evolve: (shape: TableShape, current: TablePlan) => TablePlan;
  readonly main: () => Promise<MergeTable>;
  readonly quarantine: () => Promise<MergeTable>;
  readonly quarantined: Snapshot | null;
  readonly parkedKeys: ParkedKeys;
  readonly failpoint: (name: string) => Promise<void> | void;
  readonly readBytesMax: number;
  readonly nowMs: number;
  readonly request: ReplayBatchRequest;
}

/** What the replay asks of a table, batch by batch. */
export interface ReplayBatchRequest {
  readonly plan: BatchPlan;
  readonly mark: Mark;
  /** Events that wait for a snapshot row of the range: the replay's own, kept from batch to batch. */
  readonly awaiting: Awaiting;
  /** No more batches come: nothing may wait any longer. */
  readonly last: boolean;
}

export interface ReplayBatchResult {
  readonly read: number;
  /** Rows written or deleted. */
  readonly applied: number;
  /** Parked events that the contract lets through now. */
  readonly released: number;
  readonly parkedAgain: number;
  /** Events that were applied once and that the contract of today would not let through; their rows stay. */
  readonly refused: number;
  /** Keys, as PostgreSQL's text, that only the source can settle. */
  readonly unsettled: readonly (readonly string[])[];
  /** Null: nothing changed. */
  readonly version: bigint | null;
}

interface Standing {
  /** Parked events of the range: attempts by id. */
  readonly parked: ReadonlyMap<string, number>;
  /** Events of the range that a person gave up: `partition:offset`. They stay given up. */
  readonly dropped: ReadonlySet<string>;
  /** Ids of every event that ever was parked: what became of it is told there. */
  readonly all: ReadonlySet<string>;
}

export async function replayBatch(options: ReplayBatchOptions): Promise<ReplayBatchResult> {
  const { request } = options;
  const standing = await standingIn(options.quarantined, request.plan);
  const parkedKeys = options.parkedKeys.clone();
  for (const id of standing.parked.keys()) parkedKeys.remove(id);
  const batch = await buildBatch({
    queryId: 'replay',
    queryName: 'replay',
    schemaName: options.schemaName,
    tableName: options.tableName,
    reader: standing.dropped.size === 0 ? options.reader : without(options.reader, standing.dropped),
    lake: options.lake,
    shapes: options.shapes,
    decode: options.decode,
    plan: request.plan,
    tablePlan: options.tablePlan,
    evolve: options.evolve,
    parkedKeys,
    awaiting: request.awaiting,
    snapshotting: !request.last,
    mark: request.mark,
    readBytesMax: options.readBytesMax,
    resolvedLsn: 0n,
  });
  const folded = fold(batch);
  const table = await options.main();
  const prepared = await table.prepare(mergeInput(batch, folded));
  const homeless = rowsWithoutBase(batch, folded, prepared.outcomes);
  const merge = await table.commit(prepared, {
    txns: [],
    info: { 'sluice.replay': rangesText(batch), 'sluice.contractHash': batch.contract.hash },
    timestampMs: options.nowMs,
  });
  await options.failpoint('after-replay-commit');
  const again = new Set(batch.parked.map(({ record }) => quarantineId(record)));
  const unsettled = settleHomeless(options, batch, homeless, standing, again);
  const released = await mendStatuses(options, batch, standing, again);
  let applied = 0;
  for (const outcome of merge.outcomes)
    if (outcome === RowOutcome.insert || outcome === RowOutcome.update || outcome === RowOutcome.delete) applied++;
  const parkedAgain = [...standing.parked.keys()].filter((id) => again.has(id)).length;
  return {
    read: batch.counts.read,
    applied,
    released,
    parkedAgain,
    refused: batch.parked.filter(({ record }) => !standing.all.has(quarantineId(record))).length,
    unsettled,
    version: merge.version,
  };
}

/** Rows without a base wait while the range's snapshot rows may still come; afterwards only the source knows them. */
function settleHomeless(
  { request, decode }: ReplayBatchOptions,
  batch: IngestBatch,
  homeless: readonly number[],
  standing: Standing,
  again: Set<string>,
): readonly (readonly string[])[] {
  const keys = new Map<string, readonly string[]>();
  for (const row of homeless) {
    const record = batch.partialRecords.get(row);
    const key = batch.keys[batch.keyIds[row] ?? 0];
    if (record === undefined || key === undefined) continue;
    const id = quarantineId(record);
    if (standing.parked.has(id)) again.add(id);
    else if (request.last) {
      const texts = keyTexts(decode, record, batch.tablePlan.keySources);
      keys.set(texts.join('\0'), texts);
    } else request.awaiting.put(key, record);
  }
  return [...keys.values()];
}

function keyTexts(decode: RecordDecoder, record: RawRecord, keySources: readonly string[]): readonly string[] {
  const { row } = decode(record);
  return keySources.map((name) => cellText(row[name] ?? null));
}

async function mendStatuses(
  options: ReplayBatchOptions,
  batch: IngestBatch,
  standing: Standing,
  again: ReadonlySet<string>,
): Promise<number> {
  const released: StatusChange[] = [];
  const repeated: StatusChange[] = [];
  for (const [id, before] of standing.parked) {
    const attempts = before + 1;
    if (again.has(id)) repeated.push({ id, status: 'parked', attempts, revision: attemptRevision(attempts) });
    else released.push({ id, status: 'released', attempts, revision: FINAL_REVISION });
  }
  const healed = healedChanges(batch.healed.filter(({ id }) => standing.all.has(id) && !standing.parked.has(id)));
  const changes = [...released, ...repeated, ...healed];
  if (changes.length > 0)
    await commitQuarantine(await options.quarantine(), [], changes, {
      txn: null,
      timestampMs: options.nowMs,
      info: { 'sluice.replay': rangesText(batch) },
    });
  return released.length;
}

const KNOWN = new Set(['parked', 'healed', 'released', 'dropped'] as const);

async function standingIn(snapshot: Snapshot | null, plan: BatchPlan): Promise<Standing> {
  const parked = new Map<string, number>();
  const dropped = new Set<string>();
  const all = new Set<string>();
  if (snapshot !== null)
    for await (const row of scanQuarantine(snapshot, { statuses: KNOWN, withBytes: false })) {
      all.add(row.id);
      if (row.status !== 'parked' && row.status !== 'dropped') continue;
      const from = plan.from.get(row.partition);
      const to = plan.to.get(row.partition);
      if (row.topic !== plan.topic || from === undefined || to === undefined) continue;
      if (row.offset < from || row.offset >= to) continue;
      if (row.status === 'parked') parked.set(row.id, row.attempts);
      else dropped.add(`${row.partition}:${row.offset}`);
    }
  return { parked, dropped, all };
}

/** The log without these records. */
function without(reader: LogReader, left: ReadonlySet<string>): LogReader {
  return {
    bounds: (topic) => reader.bounds(topic),
    offsetsAt: (topic, timestampMs) => reader.offsetsAt(topic, timestampMs),
    follow: (topic, partition, from, options) => reader.follow(topic, partition, from, options),
    close: () => reader.close(),
    async *read(topic, partition, from, to, options) {
      for await (const batch of reader.read(topic, partition, from, to, options)) {
        const kept: number[] = [];
        for (let i = 0; i < batch.offsets.length; i++)
          if (!left.has(`${partition}:${batch.offsets[i] ?? 0n}`)) kept.push(i);
        yield kept.length === batch.offsets.length ? batch : pick(batch, kept);
      }
    },
  };
}

function pick(batch: LogBatch, kept: readonly number[]): LogBatch {
  return {
    ...batch,
    offsets: BigInt64Array.from(kept, (i) => batch.offsets[i] ?? 0n),
    keys: kept.map((i) => batch.keys[i] ?? null),
    values: kept.map((i) => batch.values[i] ?? null),
    headers: kept.map((i) => batch.headers[i] ?? null),
    timestampsMs: Float64Array.from(kept, (i) => batch.timestampsMs[i] ?? 0),
  };
}

function rangesText(batch: IngestBatch): string {
  return batch.ranges.map(({ partition, from, to }) => `${partition}:${from}-${to}`).join(' ');
}
