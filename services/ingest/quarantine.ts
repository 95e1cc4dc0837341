/**
 * The quarantine of a table: a Delta table of parked events, and a topic that carries the same. Rows are keyed by a
 * deterministic id and fenced by a revision, so that a batch which runs again, or a retry that was killed, changes nothing
 * twice. It commits before the table does (DESIGN invariant 4): a parked event is never only in the batch that lost it.
 */
import type { MergeTable } from '../../lakehouse/merge/merge.ts';
import { MergeOp } from '../../lakehouse/merge/merge.ts';
import type { OutgoingRecord } from '../log/log.ts';
import type { HealedEvent, ParkedEvent } from './ingest-batch.ts';
import { keyCellText } from './key-cell.ts';
import { QUARANTINE_FORMAT, QUARANTINE_SCHEMA, quarantineId } from './quarantine-row.ts';
import type { QuarantineStatus } from './quarantine-row.ts';
import { columnsOfRecords } from './record-columns.ts';
import type { PlainRecord } from './record-columns.ts';

export interface QuarantineContext {
  readonly batchId: bigint;
  /** The batch's clock, ms. */
  readonly timestampMs: number;
  readonly contract: { readonly id: string; readonly version: string; readonly hash: string };
}

/**
 * Revision of a quarantine row: its fence. Parked rows have the first, each retry that parks the row again the next, and a
 * final status (healed, released, dropped) the last: nothing follows it.
 */
const PARKED_REVISION = 1;
export const FINAL_REVISION = 2 ** 30;
export const attemptRevision = (attempts: number): number => PARKED_REVISION + attempts;

export interface StatusChange {
  readonly id: string;
  readonly status: QuarantineStatus;
  readonly attempts?: number;
  readonly revision: number;
}

/** Rows of one quarantine commit. */
export function parkedRecord(event: ParkedEvent, context: QuarantineContext): PlainRecord {
  const { record, violations } = event;
  const micros = BigInt(context.timestampMs) * 1000n;
  return {
    id: quarantineId(record),
    format_version: QUARANTINE_FORMAT,
    status: 'parked' satisfies QuarantineStatus,
    status_changed_at: micros,
    attempts: 0,
    batch_id: context.batchId,
    quarantined_at: micros,
    rule_ids: violations.map(({ ruleId }) => ruleId),
    codes: violations.map(({ code }) => code),
    columns: violations.map(({ column }) => column),
    messages: violations.map(({ message }) => message),
    value: violations.find(({ value }) => value !== null)?.value ?? null,
    contract_id: context.contract.id,
    contract_version: context.contract.version,
    contract_hash: context.contract.hash,
    op: event.op,
    key: event.key === null ? null : keyCellText(event.key),
    absent_columns: [...event.absentColumns],
    topic: record.topic,
    partition: record.partition,
    offset: record.offset,
    epoch: event.epoch,
    lsn: BigInt.asIntN(64, event.lsn),
    ord: event.ord,
    shape_version: event.shapeVersion,
    committed_at: event.committedAtMicros,
    record_key: record.key,
    record_value: record.value,
    record_header: record.header,
  };
}

/** Quarantine topic's records: key = id, value and header as they were read, so that any consumer can run them again. */
export function quarantineTopicRecords(topic: string, parked: readonly ParkedEvent[]): OutgoingRecord[] {
  return parked.map(({ record }) => ({
    topic,
    key: Buffer.from(quarantineId(record)),
    value: record.value,
    header: record.header,
  }));
}

/**
 * Commits parked rows and status changes in one version. Ids and revisions alone make it idempotent: a batch that runs
 * again adds only what its first run did not park (a base may have been lost in between), usually nothing.
 * `txn` is null for changes that no batch made (a person's drop, a retry).
 */
export async function commitQuarantine(
  table: MergeTable,
  rows: readonly PlainRecord[],
  changes: readonly StatusChange[],
  commit: {
    readonly txn: { readonly appId: string; readonly version: bigint } | null;
    readonly timestampMs: number;
    readonly info: Readonly<Record<string, string>>;
  },
): Promise<void> {
  const done = commit.txn === null ? null : await table.txnVersion(commit.txn.appId);
  const again = commit.txn !== null && done !== null && done >= commit.txn.version;
  const parkedIds = new Set(rows.map(idOf));
  // A row parked and healed by the same batch is written once, with its last status.
  const changed = new Map(changes.map((change) => [change.id, change]));
  const records: PlainRecord[] = rows.map((row) => {
    const change = changed.get(idOf(row));
    return change === undefined ? row : { ...row, status: change.status };
  });
  const revisions = rows.map((row) => changed.get(idOf(row))?.revision ?? PARKED_REVISION);
  const micros = BigInt(commit.timestampMs) * 1000n;
  for (const { id, status, attempts, revision } of changed.values()) {
    if (parkedIds.has(id)) continue;
    const record: PlainRecord = { id, status, status_changed_at: micros };
    records.push(attempts === undefined ? record : { ...record, attempts });
    revisions.push(revision);
  }
  const unique = firstOfEachId(records);
  const { columns, absent } = columnsOfRecords(
    QUARANTINE_SCHEMA,
    unique.map((index) => records[index] ?? {}),
  );
  const prepared = await table.prepare({
    rowCount: unique.length,
    schema: QUARANTINE_SCHEMA,
    columns,
    keyColumns: ['id'],
    ops: new Uint8Array(unique.length).fill(MergeOp.upsert),
    absent,
    epoch: Int32Array.from(unique, (index) => revisions[index] ?? PARKED_REVISION),
    lsn: new BigUint64Array(unique.length),
    ord: new Int32Array(unique.length),
    truncate: null,
  });
  await table.commit(prepared, {
    txns: commit.txn === null || again ? [] : [commit.txn],
    info: commit.info,
    timestampMs: commit.timestampMs,
  });
}

const idOf = (record: PlainRecord): string => (typeof record['id'] === 'string' ? record['id'] : '');

/** The same record read twice in one batch (taken up again after it had awaited its base) is one row. */
function firstOfEachId(records: readonly PlainRecord[]): number[] {
  const seen = new Set<unknown>();
  const kept: number[] = [];
  records.forEach((record, index) => {
    if (seen.has(record['id'])) return;
    seen.add(record['id']);
    kept.push(index);
  });
  return kept;
}

export function healedChanges(healed: readonly HealedEvent[]): StatusChange[] {
  return healed.map(({ id }) => ({ id, status: 'healed', revision: FINAL_REVISION }));
}
