/**
 * The merge sink: the ingest query's own foreachBatch.
 *
 *   fold → prepare → rows without a base wait or park → quarantine commits → ledger adds up → the table commits
 *
 * Each commit carries `txn(appId + epoch, batch id)`; the table's carries the next offsets and the resolved LSN, too. A crash
 * between the two leaves parked rows whose ids the re-run repeats, and nothing in the table.
 */
import { MergeError } from '../../lakehouse/merge/merge-error.ts';
import { RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { MergeBatch, MergeResult, MergeTable, PreparedMerge } from '../../lakehouse/merge/merge.ts';
import type { Violation } from '../../contracts/engine/gate.ts';
import type { OutgoingRecord } from '../log/log.ts';
import type { BatchSink } from '../stream/sink.ts';
import { StreamError } from '../stream/stream-error.ts';
import type { Awaiting } from './awaiting.ts';
import { foldBag } from './bag-fold.ts';
import { fold } from './fold.ts';
import type { Folded } from './fold.ts';
import { PARK_RULES } from './ingest-batch.ts';
import type { IngestBatch, ParkedEvent } from './ingest-batch.ts';
import { checkLedger, ledgerText } from './ledger.ts';
import type { Ledger } from './ledger.ts';
import { mergeInput, rowsWithoutBase } from './merge-input.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { commitQuarantine, healedChanges, parkedRecord, quarantineTopicRecords } from './quarantine.ts';
import { quarantineId } from './quarantine-row.ts';
import { createTripWire } from './trip-wire.ts';
import { batchAppId, epochAppId, offsetAppId, txnsOf } from './txn-ids.ts';
import type { StreamPosition, TopicIdentity } from './txn-ids.ts';

export interface MergeSinkOptions {
  /** Pipeline name: appIds begin with it. */
  readonly name: string;
  /** Whose offsets the positions are. */
  readonly topic: () => TopicIdentity;
  /** Opens the table; its first batch creates it. The failpoints around its commit are the merge writer's. */
  readonly table: () => Promise<MergeTable>;
  /** Called before anything is committed, with the plan as the batch left it. */
  readonly keepContract: (batch: IngestBatch) => Promise<void>;
  /** Opens or creates `<table>__quarantine`; asked only when there is something to park. */
  readonly quarantine: () => Promise<MergeTable>;
  /** Writes to the quarantine topic; null = there is none. */
  readonly publish: ((records: readonly OutgoingRecord[]) => Promise<void>) | null;
  readonly quarantineTopic: string;
  /** Working copies that the batch may change. */
  readonly state: () => {
    readonly parkedKeys: ParkedKeys;
    readonly awaiting: Awaiting;
    readonly snapshotting: boolean;
    /** Rows can be asked for at the source: an event without base waits for its row. */
    readonly asks: boolean;
  };
  /** Position after the batch; the hold-back offsets are asked when the awaiting events are known. */
  readonly position: (batch: IngestBatch, awaiting: Awaiting) => StreamPosition;
  /** The batch is settled but for its files. */
  readonly onWriting?: () => void;
  readonly failpoint: (name: string) => Promise<void> | void;
  readonly onResult: (result: SinkResult) => void;
}

export interface SinkResult {
  readonly batchId: bigint;
  readonly ledger: Ledger;
  readonly merge: MergeResult;
  readonly position: StreamPosition;
  /** As they stand after the batch. */
  readonly awaiting: Awaiting;
  readonly parkedKeys: ParkedKeys;
}

/** Lost races after which a row without base is looked at again. */
const ATTEMPTS_MAX = 5;
/** Batches in a row that another owner may be ahead of us, before two pipelines are what it is. */
const OVERTAKEN_MAX = 5;

export function mergeSink(options: MergeSinkOptions): BatchSink<IngestBatch> {
  /** Batches in a row whose number another writer had taken. */
  let overtaken = 0;
  const tripWire = createTripWire();
  return async (batch, batchId) => {
    tripWire.check(batch);
    await options.keepContract(batch);
    const table = await options.table();
    const done = await doneBatch(options, table, batch);
    if (done !== null && done >= batchId) {
      if (await hasOffsets(options, table, batch)) return;
      overtaken++;
      throw overtakenError(batch, batchId, done, overtaken > OVERTAKEN_MAX);
    }
    overtaken = 0;
    const { folded, input } = await foldBatch(table, batch);
    const state = options.state();
    for (let attempt = 1; ; attempt++) {
      const prepared = await table.prepare(input);
      try {
        await commitPrepared(options, batch, batchId, { folded, prepared, table, ...state });
        tripWire.passed(batch);
        batch.release();
        return;
      } catch (error) {
        // Another writer took a base away between prepare and commit: look again, and park what has none now.
        const lost = error instanceof MergeError && error.code === 'MERGE_BASE_LOST';
        if (!lost || attempt >= ATTEMPTS_MAX) throw error;
      }
    }
  };
}

async function foldBatch(
  table: MergeTable,
  batch: IngestBatch,
): Promise<{ readonly folded: Folded; readonly input: MergeBatch }> {
  if (batch.tablePlan.bag) return foldBag(batch, (probe) => table.prepare(probe));
  const folded = fold(batch);
  return { folded, input: mergeInput(batch, folded) };
}

/** Number of the last batch that the table has. */
async function doneBatch(options: MergeSinkOptions, table: MergeTable, batch: IngestBatch): Promise<bigint | null> {
  const { epoch } = options.position(batch, options.state().awaiting);
  return table.txnVersion(batchAppId(options.name, epoch));
}

/** The table's own number says that it has a batch, but only the offsets prove it: a number alone would skip new events in silence. */
async function hasOffsets(options: MergeSinkOptions, table: MergeTable, batch: IngestBatch): Promise<boolean> {
  for (const { partition, to } of batch.ranges) {
    const next = await table.txnVersion(offsetAppId(options.name, partition));
    if (next === null || next < to) return false;
  }
  return true;
}

/**
 * The number is taken, the offsets are not reached: another worker took the table over while we planned, and may have let go of
 * the plan that stood under our number. Our position is read anew then; where that happens again and again, two pipelines write.
 */
function overtakenError(batch: IngestBatch, batchId: bigint, done: bigint, always: boolean): Error {
  const table = `${batch.schemaName}.${batch.tableName}`;
  if (!always)
    return new MergeError(
      'MERGE_TXN_CONFLICT',
      table,
      `another owner committed batch ${done} while we planned ${batchId}`,
    );
  const [range] = batch.ranges;
  return new StreamError(
    'BATCH_ID_TAKEN',
    `${table}: the table has batch ${done}, but not the offsets of batch ${batchId} (partition ${range?.partition ?? 0} up to ${range?.to ?? 0})`,
    'another stream writes this table under the same pipeline name: stop it, then resume the table',
  );
}

interface Attempt {
  readonly folded: Folded;
  readonly prepared: PreparedMerge;
  readonly table: MergeTable;
  readonly parkedKeys: ParkedKeys;
  readonly awaiting: Awaiting;
  readonly snapshotting: boolean;
  readonly asks: boolean;
}

async function commitPrepared(
  options: MergeSinkOptions,
  batch: IngestBatch,
  batchId: bigint,
  attempt: Attempt,
): Promise<void> {
  const { folded, prepared, table, snapshotting, asks } = attempt;
  const homeless = rowsWithoutBase(batch, folded, prepared.outcomes);
  // Copies: after a lost race the rows are looked at again.
  const awaiting = homeless.length === 0 ? attempt.awaiting : attempt.awaiting.clone();
  const parkedKeys = homeless.length === 0 ? attempt.parkedKeys : attempt.parkedKeys.clone();
  // A base that is parked does not come by asking.
  const waits = (row: number): boolean =>
    snapshotting || (asks && !parkedKeys.has(batch.keys[batch.keyIds[row] ?? 0] ?? ''));
  const waiting = homeless.filter(waits);
  wait(batch, waiting, awaiting);
  const unfounded = waiting.length === homeless.length ? [] : homeless.filter((row) => !waits(row));
  const parked =
    unfounded.length === 0 ? batch.parked : [...batch.parked, ...unfounded.map((row) => parkedRow(batch, row))];
  remember(parked.slice(batch.parked.length), parkedKeys);
  const position = options.position(batch, awaiting);
  await park(options, batch, batchId, position, parked);
  const ledger = ledgerOf(batch, folded, prepared.outcomes, {
    parked: parked.length,
    homeless: homeless.length,
    waiting: waiting.length,
  });
  checkLedger(ledger, `table ${batch.schemaName}.${batch.tableName}, batch ${batchId}`);
  options.onWriting?.();
  const merge = await table.commit(prepared, {
    txns: txnsOf(options.name, batchId, position, options.topic()),
    follows: (txnVersion) =>
      (txnVersion(batchAppId(options.name, position.epoch)) ?? -1n) < batchId &&
      (txnVersion(epochAppId(options.name)) ?? 0n) <= BigInt(position.epoch),
    info: commitInfo(batch, batchId, ledger, position),
    timestampMs: batch.timestampMs,
  });
  options.onResult({ batchId, ledger, merge, position, awaiting, parkedKeys });
}

function wait(batch: IngestBatch, rows: readonly number[], awaiting: Awaiting): void {
  for (const row of rows) {
    const record = batch.partialRecords.get(row);
    const key = batch.keys[batch.keyIds[row] ?? 0];
    if (record !== undefined && key !== undefined) awaiting.put(key, record);
  }
}

function remember(events: readonly ParkedEvent[], parkedKeys: ParkedKeys): void {
  for (const { key, record, epoch, lsn, ord, absentColumns } of events)
    if (key !== null) parkedKeys.add(key, { id: quarantineId(record), epoch, lsn, ord, absentColumns });
}

const MISSING_BASE: Violation = {
  ruleId: PARK_RULES.missingBase,
  code: 'RULE',
  column: null,
  action: 'quarantine',
  message: 'a column that the event did not carry has no earlier value in the batch or the table',
  value: null,
};

/** A row without base, as the event to park. */
export function parkedRow(batch: IngestBatch, row: number): ParkedEvent {
  const record = batch.partialRecords.get(row);
  const key = batch.keys[batch.keyIds[row] ?? 0];
  if (record === undefined || key === undefined)
    throw new RangeError(`row ${row} lacks a base but carries every column`);
  return {
    record,
    op: OP_LETTERS[batch.ops[row] ?? 0] ?? 'u',
    epoch: batch.epochs[row] ?? 0,
    lsn: batch.lsns[row] ?? 0n,
    ord: batch.ords[row] ?? 0,
    shapeVersion: batch.shapeVersions[row] ?? 0,
    committedAtMicros: batch.committedAt[row] ?? 0n,
    key,
    absentColumns: batch.schema.fields
      .filter((_, column) => hasBit(batch.absent[column] ?? null, row))
      .map(({ name }) => name),
    violations: [MISSING_BASE],
  };
}
/** By ROW_OPS. */
const OP_LETTERS = ['c', 'u', 'd', 'r'];

function hasBit(bits: Uint8Array | null, row: number): boolean {
  return bits !== null && ((bits[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
}

async function park(
  options: MergeSinkOptions,
  batch: IngestBatch,
  batchId: bigint,
  position: StreamPosition,
  parked: readonly ParkedEvent[],
): Promise<void> {
  if (parked.length === 0 && batch.healed.length === 0) return;
  await options.failpoint('before-quarantine-commit');
  const context = { batchId, timestampMs: batch.timestampMs, contract: batch.contract };
  await commitQuarantine(
    await options.quarantine(),
    parked.map((event) => parkedRecord(event, context)),
    healedChanges(batch.healed),
    {
      txn: { appId: batchAppId(options.name, position.epoch), version: batchId },
      timestampMs: batch.timestampMs,
      info: { 'sluice.batch': String(batchId), 'sluice.parked': String(parked.length) },
    },
  );
  if (options.publish !== null && parked.length > 0)
    await options.publish(quarantineTopicRecords(options.quarantineTopic, parked));
  await options.failpoint('after-quarantine-commit');
}

function ledgerOf(
  batch: IngestBatch,
  folded: Folded,
  outcomes: Uint8Array,
  out: { readonly parked: number; readonly homeless: number; readonly waiting: number },
): Ledger {
  let applied = 0;
  let stale = 0;
  let noop = 0;
  let missing = 0;
  for (const outcome of outcomes) {
    if (outcome === RowOutcome.stale) stale++;
    else if (outcome === RowOutcome.noop) noop++;
    else if (outcome === RowOutcome.missingBase) missing++;
    else applied++;
  }
  // Homeless events count as awaiting or quarantined; the rows that they were folded to count as nothing else.
  const foldedIntoMissing = out.homeless - folded.missing.length - missing;
  return {
    read: batch.counts.read,
    carriedIn: batch.counts.carriedIn,
    applied,
    folded: folded.folded - foldedIntoMissing,
    duplicates: folded.duplicates,
    stale: stale + folded.stale,
    noop: noop + folded.noop + batch.counts.noop,
    awaiting: out.waiting,
    quarantined: out.parked,
    dropped: batch.counts.dropped,
  };
}

function commitInfo(
  batch: IngestBatch,
  batchId: bigint,
  ledger: Ledger,
  position: StreamPosition,
): Record<string, string> {
  return {
    'sluice.batch': String(batchId),
    'sluice.ledger': ledgerText(ledger),
    'sluice.offsets': batch.ranges.map(({ partition, from, to }) => `${partition}:${from}-${to}`).join(' '),
    'sluice.epoch': String(position.epoch),
    'sluice.lsn': String(position.lsn),
    'sluice.mark': String(position.markSequence),
    'sluice.contract': `${batch.contract.id}@${batch.contract.version}`,
    'sluice.contractHash': batch.contract.hash,
    'sluice.schemaHash': batch.tablePlan.schemaHash,
  };
}
