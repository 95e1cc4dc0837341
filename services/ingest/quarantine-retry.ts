/**
 * Retry of parked events: in position order, through the same gate, fold and merge, under the per-row fence. Idempotent and
 * safe to kill: the table commits first, the quarantine's statuses after it; a retry that was killed in between finds its
 * rows in the table (stale by the fence) and only mends the statuses. An old value never comes back: newer rows and the
 * fences of deletes win.
 */
import { RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { MergeTable } from '../../lakehouse/merge/merge.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { createAwaiting } from './awaiting.ts';
import { BatchDecoder } from './decode-batch.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { fold } from './fold.ts';
import type { IngestBatch, ParkedEvent } from './ingest-batch.ts';
import { assembleBatch } from './batch-builder.ts';
import { mergeInput, rowsWithoutBase } from './merge-input.ts';
import { parkedRow } from './merge-sink.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { FINAL_REVISION, attemptRevision, commitQuarantine } from './quarantine.ts';
import type { StatusChange } from './quarantine.ts';
import { quarantineId } from './quarantine-row.ts';
import { scanQuarantine } from './quarantine-scan.ts';
import type { QuarantineRow } from './quarantine-scan.ts';
import type { TablePlan } from './table-plan.ts';

export interface RetryOptions {
  readonly schemaName: string;
  readonly tableName: string;
  readonly topic: string;
  readonly snapshot: Snapshot | null;
  readonly main: () => Promise<MergeTable>;
  readonly quarantine: () => Promise<MergeTable>;
  readonly tablePlan: TablePlan;
  readonly decode: RecordDecoder;
  readonly evolve: (shapeVersion: number, current: TablePlan) => TablePlan;
  /** Keys that are parked now; the retried ones are taken out of a copy. */
  readonly parkedKeys: ParkedKeys;
  /** Which rows; null = all that are parked. */
  readonly ids: ReadonlySet<string> | null;
  readonly nowMs: number;
  readonly failpoint: (name: string) => Promise<void> | void;
}

export interface RetryResult {
  readonly retried: number;
  /** Written to the table. */
  readonly applied: number;
  /** Released without effect: the table has something newer. */
  readonly superseded: number;
  /** Still violate the contract, or still lack a base. */
  readonly parkedAgain: number;
  readonly version: bigint | null;
}

/** Events of one turn; a turn is one commit of the table and one of the quarantine. */
const TURN_ROWS = 10_000;

export async function retryQuarantine(options: RetryOptions): Promise<RetryResult> {
  const total = { retried: 0, applied: 0, superseded: 0, parkedAgain: 0, version: null as bigint | null };
  if (options.snapshot === null) return total;
  const order = await positions(options.snapshot, options.ids);
  for (let at = 0; at < order.length; at += TURN_ROWS) {
    const wanted = new Set(order.slice(at, at + TURN_ROWS).map(({ id }) => id));
    const done = await retryTurn(options, await load(options.snapshot, wanted));
    total.retried += done.retried;
    total.applied += done.applied;
    total.superseded += done.superseded;
    total.parkedAgain += done.parkedAgain;
    total.version = done.version ?? total.version;
  }
  return total;
}

type Placed = Pick<QuarantineRow, 'id' | 'epoch' | 'lsn' | 'ord' | 'offset'>;

async function positions(snapshot: Snapshot, ids: ReadonlySet<string> | null): Promise<Placed[]> {
  const rows: Placed[] = [];
  for await (const row of scanQuarantine(snapshot, { statuses: PARKED, withBytes: false }))
    if (ids === null || ids.has(row.id)) {
      const { id, epoch, lsn, ord, offset } = row;
      rows.push({ id, epoch, lsn, ord, offset });
    }
  return rows.sort(byPosition);
}
const PARKED = new Set(['parked'] as const);

async function load(snapshot: Snapshot, ids: ReadonlySet<string>): Promise<QuarantineRow[]> {
  const rows: QuarantineRow[] = [];
  for await (const row of scanQuarantine(snapshot, { statuses: PARKED, withBytes: true }))
    if (ids.has(row.id)) rows.push(row);
  return rows.sort(byPosition);
}

function byPosition(a: Placed, b: Placed): number {
  if (a.epoch !== b.epoch) return a.epoch - b.epoch;
  if (a.lsn !== b.lsn) return a.lsn < b.lsn ? -1 : 1;
  return a.ord - b.ord || Number(a.offset - b.offset);
}

async function retryTurn(options: RetryOptions, rows: readonly QuarantineRow[]): Promise<RetryResult> {
  const batch = decodeRows(options, rows);
  const folded = fold(batch);
  const table = await options.main();
  const prepared = await table.prepare(mergeInput(batch, folded));
  const homeless = rowsWithoutBase(batch, folded, prepared.outcomes);
  const parked: ParkedEvent[] = [...batch.parked, ...homeless.map((row) => parkedRow(batch, row))];
  const merge = await table.commit(prepared, {
    txns: [],
    info: { 'sluice.retry': String(rows.length), 'sluice.contractHash': batch.contract.hash },
    timestampMs: options.nowMs,
  });
  await options.failpoint('after-retry-commit');
  const again = new Map(parked.map((event) => [quarantineId(event.record), event]));
  await commitQuarantine(
    await options.quarantine(),
    [],
    rows.map((row) => statusOf(row, again.has(row.id))),
    { txn: null, timestampMs: options.nowMs, info: { 'sluice.retry': String(rows.length) } },
  );
  let applied = 0;
  for (const outcome of merge.outcomes)
    if (outcome === RowOutcome.insert || outcome === RowOutcome.update || outcome === RowOutcome.delete) applied++;
  return {
    retried: rows.length,
    applied,
    superseded: rows.length - again.size - applied,
    parkedAgain: again.size,
    version: merge.version,
  };
}

function statusOf(row: QuarantineRow, again: boolean): StatusChange {
  const attempts = row.attempts + 1;
  return again
    ? { id: row.id, status: 'parked', attempts, revision: attemptRevision(attempts) }
    : { id: row.id, status: 'released', attempts, revision: FINAL_REVISION };
}

function decodeRows(options: RetryOptions, rows: readonly QuarantineRow[]): IngestBatch {
  const parkedKeys = options.parkedKeys.clone();
  for (const { id } of rows) parkedKeys.remove(id);
  const decoder = new BatchDecoder({
    table: `${options.schemaName}.${options.tableName}`,
    plan: options.tablePlan,
    decode: options.decode,
    evolve: options.evolve,
    parkedKeys,
    awaiting: createAwaiting(0),
    resolvedLsn: 0n,
  });
  decoder.addRecords(
    rows.map((row) => ({
      topic: row.topic,
      partition: row.partition,
      offset: row.offset,
      key: row.recordKey,
      value: row.recordValue,
      header: row.recordHeader,
    })),
  );
  return assembleBatch(
    {
      queryId: 'retry',
      queryName: 'retry',
      schemaName: options.schemaName,
      tableName: options.tableName,
      topic: options.topic,
      timestampMs: options.nowMs,
      mark: null,
    },
    decoder.finish(),
    [],
  );
}
