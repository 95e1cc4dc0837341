/**
 * What a batch keeps out of its table: events that break the contract or cannot be decoded, and those that may not overtake
 * them; and what a later event of their key mends.
 */
import { decisiveAction } from '../../contracts/engine/gate.ts';
import type { GateRow, Violation } from '../../contracts/engine/gate.ts';
import { DecodeError } from '../log/decode-error.ts';
import type { DecodedEvent } from '../log/envelope-decode.ts';
import { StreamError } from '../stream/stream-error.ts';
import { PARK_RULES } from './ingest-batch.ts';
import type { DecodeCounts, HealedEvent, ParkedEvent, RawRecord } from './ingest-batch.ts';
import type { KeyCell } from './key-cell.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { quarantineId } from './quarantine-row.ts';
import type { PlanField } from './table-plan.ts';

export class Parking {
  readonly parked: ParkedEvent[] = [];
  readonly healed: HealedEvent[] = [];
  /** Violations by rule and action, of rows that were let through with a warning too. */
  readonly violations = new Map<string, number>();
  /** Of the plan in force: they grow within a batch. */
  fields: readonly PlanField[];
  private readonly table: string;
  private readonly parkedKeys: ParkedKeys;
  private readonly counts: DecodeCounts;

  /** @param parkedKeys the batch's working copy */
  constructor(table: string, parkedKeys: ParkedKeys, counts: DecodeCounts, fields: readonly PlanField[]) {
    this.table = table;
    this.parkedKeys = parkedKeys;
    this.counts = counts;
    this.fields = fields;
  }

  /**
   * True when the violations keep the row out.
   * @throws StreamError CONTRACT_FAILED, where a rule says so
   */
  refused(record: RawRecord, event: DecodedEvent, key: KeyCell, found: readonly Violation[]): boolean {
    for (const { ruleId, action } of found) {
      const label = `${ruleId} ${action}`;
      this.violations.set(label, (this.violations.get(label) ?? 0) + 1);
    }
    switch (decisiveAction(found)) {
      case 'warn':
        this.counts.warned++;
        return false;
      case 'drop':
        this.counts.dropped++;
        return true;
      case 'quarantine':
        this.park(record, event, key, found);
        return true;
      case 'fail': {
        const rule = found.find(({ action }) => action === 'fail');
        throw new StreamError(
          'CONTRACT_FAILED',
          `${this.table}: rule ${rule?.ruleId} failed at ${place(record)}: ${rule?.message}`,
          'correct the row at the source or change the rule, then resume the table; nothing of this batch was committed',
        );
      }
    }
  }

  /** A key with parked events: true when this one had to park behind them. */
  parksBehind(record: RawRecord, event: DecodedEvent, key: KeyCell, partial: boolean): boolean {
    const absentColumns = partial ? this.absentColumns(event.row) : [];
    if (!this.parkedKeys.blocks(key, event, absentColumns)) return false;
    this.park(record, event, key, [
      violation(PARK_RULES.parkedBase, 'RULE', 'an unchanged column has its newest value in a parked event'),
    ]);
    return true;
  }

  parkWithoutKey(record: RawRecord, event: DecodedEvent): void {
    this.park(record, event, null, [violation(PARK_RULES.decode, 'KEY_NULL', 'a key column is NULL or missing')]);
  }

  /** @throws StreamError FORMAT_NEWER; and the error itself, if it is no DecodeError */
  parkUndecodable(record: RawRecord, error: unknown): void {
    if (!(error instanceof DecodeError)) throw error;
    if (error.code === 'DECODE_FORMAT_NEWER')
      throw new StreamError('FORMAT_NEWER', error.message, 'upgrade the stream before the reader', { cause: error });
    const nothing = { op: null, epoch: 0, lsn: 0n, ord: 0, shapeVersion: 0, committedAtMicros: 0n, key: null };
    const code = error.code === 'DECODE_NULL_KEY' ? 'KEY_NULL' : 'DECODE';
    const violations = [violation(`${PARK_RULES.decode}:${error.code}`, code, error.message)];
    this.parked.push({ record: { ...record }, ...nothing, absentColumns: [], violations });
  }

  /** An event of a parked key got into the table. */
  heal(event: DecodedEvent, key: KeyCell): void {
    const { epoch, lsn, ord } = event;
    for (const { id } of this.parkedKeys.heal(key, event)) this.healed.push({ id, epoch, lsn, ord });
  }

  /** A TRUNCATE: rows that wait in quarantine went at the source, too. */
  healAll(event: DecodedEvent): void {
    const { epoch, lsn, ord } = event;
    for (const { id } of this.parkedKeys.healAll(event)) this.healed.push({ id, epoch, lsn, ord });
  }

  private park(record: RawRecord, event: DecodedEvent, key: KeyCell | null, violations: readonly Violation[]): void {
    const { epoch, lsn, ord, op, shapeVersion, committedAtMicros } = event;
    const absentColumns = event.absent > 0 && op !== 'd' ? this.absentColumns(event.row) : [];
    const parked = { record: { ...record }, op, epoch, lsn, ord, shapeVersion, committedAtMicros, key, absentColumns };
    this.parked.push({ ...parked, violations });
    if (key !== null) this.parkedKeys.add(key, { id: quarantineId(record), epoch, lsn, ord, absentColumns });
  }

  private absentColumns(row: GateRow): readonly string[] {
    return this.fields.filter(({ sourceName }) => row[sourceName] === undefined).map(({ sourceName }) => sourceName);
  }
}

function violation(ruleId: string, code: Violation['code'], message: string): Violation {
  return { ruleId, code, column: null, action: 'quarantine', message, value: null };
}

function place(record: RawRecord): string {
  return `${record.topic}[${record.partition}] offset ${record.offset}`;
}
