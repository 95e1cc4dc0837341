/** Looking at the quarantine, and giving rows up. Values of classified columns are masked wherever they are shown. */
import type { Cell } from '../../contracts/engine/gate.ts';
import { MASK, showValue } from '../../contracts/engine/privacy.ts';
import type { MergeTable } from '../../lakehouse/merge/merge.ts';
import type { Snapshot } from '../../lakehouse/table/snapshot.ts';
import { DecodeError } from '../log/decode-error.ts';
import { formatLsn } from '../log/position.ts';
import type { RecordDecoder } from './decode-batch.ts';
import { FINAL_REVISION, commitQuarantine } from './quarantine.ts';
import { scanQuarantine } from './quarantine-scan.ts';
import type { QuarantineRow } from './quarantine-scan.ts';
import type { QuarantineStatus } from './quarantine-row.ts';
import type { TablePlan } from './table-plan.ts';

export interface QuarantineEntry {
  readonly id: string;
  readonly status: QuarantineStatus;
  readonly quarantinedAt: string;
  readonly rules: readonly string[];
  readonly codes: readonly string[];
  readonly messages: readonly string[];
  /** First offending value; masked where its column is classified. */
  readonly value: string | null;
  readonly contract: string;
  readonly op: string | null;
  readonly topic: string;
  readonly partition: number;
  readonly offset: string;
  readonly epoch: number;
  readonly lsn: string;
  readonly ord: number;
  readonly attempts: number;
}

/** Whether values of a column may not be shown, by the contract as it is now: it may have become private since the event came. */
export type IsClassified = (column: string) => boolean;

export interface ListOptions {
  readonly statuses: ReadonlySet<QuarantineStatus>;
  /** Only rows that failed this rule. */
  readonly ruleId: string | null;
  readonly limit: number;
}

export async function listQuarantine(
  snapshot: Snapshot | null,
  options: ListOptions,
  isClassified: IsClassified,
): Promise<QuarantineEntry[]> {
  const entries: QuarantineEntry[] = [];
  if (snapshot === null) return entries;
  for await (const row of scanQuarantine(snapshot, { statuses: options.statuses, withBytes: false })) {
    if (options.ruleId !== null && !row.ruleIds.includes(options.ruleId)) continue;
    entries.push(entryOf(row, isClassified));
    if (entries.length >= options.limit) break;
  }
  return entries;
}

export interface QuarantineDetail extends QuarantineEntry {
  /** Columns of the event as text, masked where classified; null when it cannot be decoded. */
  readonly columns: Readonly<Record<string, string | null>> | null;
  readonly absentColumns: readonly string[];
}

/** Null when there is no such row. */
export async function showQuarantine(
  snapshot: Snapshot | null,
  id: string,
  using: { readonly decode: RecordDecoder; readonly tablePlan: TablePlan },
): Promise<QuarantineDetail | null> {
  if (snapshot === null) return null;
  const isClassified = classifiedBy(using.tablePlan);
  for await (const row of scanQuarantine(snapshot, { statuses: ANY, withBytes: true }))
    if (row.id === id)
      return {
        ...entryOf(row, isClassified),
        absentColumns: row.absentColumns,
        columns: columnsOf(row, using.decode, isClassified),
      };
  return null;
}
const ANY: ReadonlySet<QuarantineStatus> = new Set(['parked', 'healed', 'released', 'dropped']);

/** Gives rows up: their keys stay as the table has them. Returns how many were parked. */
export async function dropQuarantined(
  snapshot: Snapshot | null,
  quarantine: MergeTable,
  ids: ReadonlySet<string>,
  nowMs: number,
): Promise<number> {
  if (snapshot === null) return 0;
  const parked: string[] = [];
  for await (const { id } of scanQuarantine(snapshot, { statuses: new Set(['parked']), withBytes: false }))
    if (ids.has(id)) parked.push(id);
  if (parked.length === 0) return 0;
  const changes = parked.map((id) => ({ id, status: 'dropped' as const, revision: FINAL_REVISION }));
  const info = { 'sluice.dropped': String(parked.length) };
  await commitQuarantine(quarantine, [], changes, { txn: null, timestampMs: nowMs, info });
  return parked.length;
}

/** A table that its contract stopped has no plan: nobody knows what is private in it. */
export const classifiedIn = (plan: () => Promise<TablePlan>): Promise<IsClassified> =>
  plan().then(classifiedBy, () => () => true);

/** A column that the contract does not know may hold anything. */
function classifiedBy({ fields }: Pick<TablePlan, 'fields'>): IsClassified {
  const classified = new Map(fields.map((field) => [field.sourceName, field.classified]));
  return (column) => classified.get(column) ?? true;
}

function entryOf(row: QuarantineRow, isClassified: IsClassified): QuarantineEntry {
  // Which of the columns the value is of does not stand beside it.
  const hidden = row.columns.some((column) => column !== null && isClassified(column));
  return {
    id: row.id,
    status: row.status,
    quarantinedAt: row.quarantinedAt,
    rules: row.ruleIds,
    codes: row.codes,
    messages: row.messages,
    value: row.value !== null && hidden ? MASK : row.value,
    contract: `${row.contractId}@${row.contractVersion}`,
    op: row.op,
    topic: row.topic,
    partition: row.partition,
    offset: String(row.offset),
    epoch: row.epoch,
    lsn: formatLsn(row.lsn),
    ord: row.ord,
    attempts: row.attempts,
  };
}

function columnsOf(
  row: QuarantineRow,
  decode: RecordDecoder,
  isClassified: IsClassified,
): Record<string, string | null> | null {
  const { topic, partition, offset, recordKey: key, recordValue: value, recordHeader: header } = row;
  try {
    const event = decode({ topic, partition, offset, key, value, header });
    const shown: Record<string, string | null> = {};
    for (const [name, cell] of Object.entries(event.row)) {
      if (cell === undefined) continue;
      shown[name] = cell === null ? null : isClassified(name) ? MASK : showValue(cell satisfies Cell);
    }
    return shown;
  } catch (error) {
    if (error instanceof DecodeError) return null;
    throw error;
  }
}
