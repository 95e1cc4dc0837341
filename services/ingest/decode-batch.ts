/**
 * Records → columns: decode, gate and append in one pass, on reused objects, so that a good row allocates next to nothing.
 *
 * Order of one record: header and envelope (decode), the contract (gate), the lake's types (append), then parked keys and
 * the key's number. Whatever fails parks the record whole; `fail` stops the table before anything of the batch is committed.
 */
import type { Cell, GateOp, GateRow, Violation } from '../../contracts/engine/gate.ts';
import { applyPrivacy } from '../../contracts/engine/privacy.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { RowPosition } from '../../lakehouse/merge/merge.ts';
import { rowHashOf } from '../log/bag-key.ts';
import type { DecodedEvent } from '../log/envelope-decode.ts';
import { RecordFlags } from '../log/event.ts';
import type { LogBatch, RowBlockSlice } from '../log/log.ts';
import { cellBytes, openRowBlock, type CellPlaces, type RowBlock } from '../log/row-block.ts';
import type { Awaiting } from './awaiting.ts';
import { giveMemory, takeMemory } from './batch-memory.ts';
import { createColumnBuilder } from './columns/create-builder.ts';
import { BlockDecoder } from './decode-block.ts';
import { cellText } from './columns/bytes-builders.ts';
import type { ColumnBuilder } from './columns/column-builder.ts';
import { EventKind } from './fold.ts';
import type { DecodeCounts, HealedEvent, ParkedEvent, RawRecord } from './ingest-batch.ts';
import { keyCellOf } from './key-cell.ts';
import type { KeyCell } from './key-cell.ts';
import { KeyNumbers } from './key-numbers.ts';
import type { ParkedKeys } from './parked-keys.ts';
import { Parking } from './parking.ts';
import { RowMeta } from './row-meta.ts';
import type { PlanField, TablePlan } from './table-plan.ts';

/** Turns a record into an event; knows the shapes. @throws DecodeError */
export type RecordDecoder = (record: RawRecord) => DecodedEvent;

export interface DecodeOptions {
  readonly table: string;
  readonly plan: TablePlan;
  readonly decode: RecordDecoder;
  /** Called when a record carries a newer shape than the plan; gives the plan to go on with (its fields only grow). */
  readonly evolve: (shapeVersion: number, current: TablePlan) => TablePlan;
  /** Working copies: the batch changes them, the caller keeps them when the batch is committed. */
  readonly parkedKeys: ParkedKeys;
  readonly awaiting: Awaiting;
  /** The columns are given back by `release`, and may lie in memory that was. */
  readonly reuse?: boolean;
  /** LSN of a tombstone that opens a batch and has no position of its own. */
  readonly resolvedLsn: bigint;
  /** Records that are to come, where that is known. */
  readonly expected?: number;
}

/** Rows of a batch for which memory is taken before they come. */
const EXPECTED_ROWS_MAX = 128 * 1024;

export interface DecodedColumns {
  readonly plan: TablePlan;
  readonly columns: readonly ColumnVector[];
  readonly absent: readonly (Uint8Array | null)[];
  readonly meta: RowMeta;
  readonly keyCount: number;
  readonly keys: readonly KeyCell[];
  readonly truncate: RowPosition | null;
  readonly partialRecords: ReadonlyMap<number, RawRecord>;
  readonly parked: readonly ParkedEvent[];
  readonly healed: readonly HealedEvent[];
  readonly counts: DecodeCounts;
  readonly violations: ReadonlyMap<string, number>;
  /** To be called once nobody reads the columns any more: their memory is then another batch's. */
  readonly release: () => void;
}

const GATE_OPS: Readonly<Record<string, GateOp>> = { c: 'insert', r: 'snapshot', u: 'update', d: 'delete' };

/** Blocks are decoded whole, one at a time, so all batches share the memory that this takes. */
const blocks = new BlockDecoder();
const places: CellPlaces = { lengths: [], starts: [] };

export class BatchDecoder {
  private readonly options: DecodeOptions;
  private plan: TablePlan;
  private readonly builders: ColumnBuilder[];
  private readonly meta: RowMeta;
  private readonly keyNumbers: KeyNumbers;
  private readonly partialRecords = new Map<number, RawRecord>();
  private readonly parking: Parking;
  private readonly counts: DecodeCounts = {
    read: 0,
    carriedIn: 0,
    noop: 0,
    dropped: 0,
    warned: 0,
    nulled: 0,
    bytes: 0,
  };
  private truncate: RowPosition | null = null;
  /** Shapes whose columns the plan has. Their numbers are no order: a shape known from the catalog may come last in the stream. */
  private readonly metShapes: Set<number>;
  /** Of the row in hand, in a table without key. */
  private rowHash: KeyCell | null = null;

  constructor(options: DecodeOptions) {
    this.options = options;
    this.plan = options.plan;
    const known = options.reuse === true ? takeMemory(this.plan.fields, options.expected ?? 0) : null;
    this.builders = known?.builders ?? options.plan.fields.map(({ type }) => createColumnBuilder(type));
    this.meta = known?.meta ?? new RowMeta();
    this.keyNumbers = known?.keyNumbers ?? new KeyNumbers();
    this.metShapes = new Set([options.plan.shapeVersion]);
    this.parking = new Parking(options.table, options.parkedKeys, this.counts, this.plan.fields);
  }

  /** All records of a log batch. Claim checks must have been fetched. */
  add(batch: LogBatch): void {
    if (batch.block !== undefined) {
      this.addBlock(batch, batch.block);
      return;
    }
    const { offsets, keys, values, headers, topic, partition } = batch;
    const record = { topic, partition, offset: 0n, key: null, value: null, header: null } as {
      -readonly [K in keyof RawRecord]: RawRecord[K];
    };
    for (let i = 0; i < offsets.length; i++) {
      record.offset = offsets[i] ?? 0n;
      record.key = keys[i] ?? null;
      record.value = values[i] ?? null;
      record.header = headers[i] ?? null;
      this.counts.read++;
      this.one(record);
    }
    this.counts.bytes += batch.bytes;
  }

  private addBlock({ topic, partition, bytes }: LogBatch, slice: RowBlockSlice): void {
    const block = openRowBlock(slice.bytes, places);
    this.counts.read += slice.to - slice.from;
    this.counts.bytes += bytes;
    if (!this.metShapes.has(block.shape.version)) this.evolve(block.shape.version);
    if (this.meta.length === 0) this.expect(block);
    const { builders, meta } = this;
    const { awaiting, parkedKeys } = this.options;
    const target = {
      builders,
      meta,
      keyIds: (keys: readonly KeyCell[], from: number, to: number, into: Int32Array) =>
        this.keyNumbers.takeAll(keys, from, to, into),
      isParked: (key: KeyCell) => parkedKeys.size > 0 && parkedKeys.has(key),
      record: (record: RawRecord) => this.one(record),
    };
    // An awaiting event of a row's key comes before the row.
    blocks.decode(block, { topic, partition, ...slice }, this.plan, target, awaiting.events === 0);
  }

  /** Takes memory for the whole batch, by its first block: what grows as it fills leaves twice as much behind, in pieces of every size. */
  private expect(block: RowBlock): void {
    const rows = Math.min(this.options.expected ?? 0, EXPECTED_ROWS_MAX);
    if (rows <= block.rows) return;
    const places = new Map(block.shape.columns.map(({ name }, index) => [name, index]));
    this.meta.expect(rows);
    this.keyNumbers.expect(rows);
    for (const [index, builder] of this.builders.entries()) {
      const column = block.columns[places.get(this.plan.fields[index]?.sourceName ?? '') ?? -1];
      const bytes = column === undefined ? 0 : cellBytes(column, 0, block.rows);
      builder.expect(rows, Math.ceil((bytes / block.rows) * rows));
    }
  }

  /** Single records, in position order. */
  addRecords(records: readonly RawRecord[]): void {
    for (const record of records) {
      this.counts.read++;
      this.one(record);
    }
  }

  /** Takes awaiting events up again: the table is no longer snapshotting, so only those whose row was asked for may wait on. */
  addAwaiting(asked: (key: KeyCell) => boolean = () => false): void {
    this.carryIn(this.options.awaiting.takeAll((key) => !asked(key)));
  }

  bytesHeld(): number {
    return this.builders.reduce((sum, builder) => sum + builder.bytesHeld(), this.meta.bytesHeld());
  }

  finish(): DecodedColumns {
    return {
      plan: this.plan,
      columns: [...this.builders.map((builder) => builder.finish()), this.meta.committedAtColumn()],
      absent: [...this.builders.map((builder) => builder.absent()), null],
      meta: this.meta,
      keyCount: this.keyNumbers.keys.length,
      keys: this.keyNumbers.keys,
      truncate: this.truncate,
      partialRecords: this.partialRecords,
      parked: this.parking.parked,
      healed: this.parking.healed,
      counts: this.counts,
      violations: this.parking.violations,
      release: () => this.release(),
    };
  }

  private release(): void {
    const { builders, meta, keyNumbers } = this;
    if (this.options.reuse === true) giveMemory(this.plan.fields, { builders, meta, keyNumbers });
  }

  private carryIn(records: readonly RawRecord[]): void {
    for (const record of records) {
      this.counts.carriedIn++;
      this.one(record);
    }
  }

  /** `record` is reused by the caller: whoever keeps it copies it. */
  private one(record: RawRecord): void {
    let event: DecodedEvent;
    try {
      event = this.options.decode(record);
    } catch (error) {
      this.parking.parkUndecodable(record, error);
      return;
    }
    if (!this.metShapes.has(event.shapeVersion)) this.evolve(event.shapeVersion);
    switch (event.op) {
      case 't':
        this.barrier(event);
        this.counts.noop++;
        return;
      case 'm':
        this.counts.noop++;
        return;
      case 'tombstone':
        this.tombstone(record, event);
        return;
      default:
        this.row(record, event);
    }
  }

  private row(record: RawRecord, first: DecodedEvent): void {
    let event = first;
    const key = this.plan.bag ? rowHashOf(record.key) : keyCellOf(event.row, this.plan.keySources);
    this.rowHash = this.plan.bag ? key : null;
    if (key === null) {
      this.parking.parkWithoutKey(record, event);
      return;
    }
    if (this.options.awaiting.events > 0) {
      const earlier = this.options.awaiting.take(key);
      if (earlier.length > 0) {
        this.carryIn(earlier);
        // The decoder's row was reused for them.
        event = this.options.decode(record);
      }
    }
    const partial = event.absent > 0 && event.op !== 'd';
    const op: GateOp = partial ? 'update' : (GATE_OPS[event.op] ?? 'update');
    const found = this.plan.gate.check(op, event.row);
    if (found !== null && this.parking.refused(record, event, key, found)) return;
    const parkedKeys = this.options.parkedKeys;
    // Equal rows do not mend one another.
    const behindParked = !this.plan.bag && parkedKeys.size > 0 && parkedKeys.has(key);
    if (behindParked && this.parking.parksBehind(record, event, key, partial)) return;
    if (this.plan.privacy !== null) applyPrivacy(this.plan.privacy, event.row, event.replaced);
    const problem = event.op === 'd' ? this.appendKey(event.row) : this.append(event.row);
    if (problem !== null) {
      this.parking.refused(record, event, key, [problem]);
      return;
    }
    // Only an event that gets into the table mends its key.
    if (behindParked && !partial) this.parking.heal(event, key);
    const kind =
      event.op === 'd' ? EventKind.delete : (event.flags & RecordFlags.fill) !== 0 ? EventKind.fill : EventKind.upsert;
    if (partial) this.partialRecords.set(this.meta.length, { ...record });
    const other = event.otherKey === null ? null : keyCellOf(event.otherKey, this.plan.keySources);
    const otherId = other === null || event.op === 'd' ? -1 : this.keyNumbers.take(other);
    this.meta.push(event, kind, this.keyNumbers.take(key), otherId, record.partition, record.offset);
  }

  private barrier(event: DecodedEvent): void {
    const { epoch, lsn, ord } = event;
    this.parking.healAll(event);
    const known = this.truncate;
    if (
      known === null ||
      epoch > known.epoch ||
      (epoch === known.epoch && (lsn > known.lsn || (lsn === known.lsn && ord > known.ord)))
    )
      this.truncate = { epoch, lsn, ord };
  }

  /** A null value deletes its key. Behind a delete event of the same key, as Debezium writes it, it has nothing to do. */
  private tombstone(record: RawRecord, event: DecodedEvent): void {
    const key = this.plan.bag ? null : keyCellOf(event.row, this.plan.keySources);
    const id = key === null ? undefined : this.keyNumbers.get(key);
    const last = this.meta.length - 1;
    if (id !== undefined && this.meta.lastKindOf(id) === EventKind.delete) {
      this.counts.noop++;
      return;
    }
    if (this.plan.privacy !== null) applyPrivacy(this.plan.privacy, event.row, event.replaced);
    if (key === null || this.appendKey(event.row) !== null) {
      this.counts.noop++;
      return;
    }
    // A tombstone has no position: it stands directly behind what its partition showed last.
    if (event.lsn === 0n) {
      if (last >= 0) this.meta.copyPosition(last, event);
      else event.lsn = this.options.resolvedLsn as typeof event.lsn;
    }
    this.meta.push(event, EventKind.delete, this.keyNumbers.take(key), -1, record.partition, record.offset);
  }

  /** Appends a row; null when all its cells fit. */
  private append(row: GateRow): Violation | null {
    const { fields } = this.plan;
    const { builders } = this;
    for (let i = 0; i < builders.length; i++) {
      const field = fields[i] as PlanField;
      const builder = builders[i] as ColumnBuilder;
      const cell = field.made === undefined ? row[field.sourceName] : this.madeCell(field.made);
      if (cell === undefined) {
        // Not in the shape at all (a dropped column): NULL. In the shape, but not carried: absent.
        if (field.sourceName in row) builder.appendAbsent();
        else builder.appendNull();
      } else if (!builder.append(cell)) {
        if (field.onUnrepresentable === 'null' && !field.isKey) {
          builder.appendNull();
          this.counts.nulled++;
          continue;
        }
        this.rollback();
        return unrepresentable(field, cell);
      }
    }
    return null;
  }

  /** A delete carries its key only; whatever else its before image has is not looked at. */
  private appendKey(row: GateRow): Violation | null {
    const { fields } = this.plan;
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i] as PlanField;
      const builder = this.builders[i] as ColumnBuilder;
      if (!field.isKey && !this.plan.keySources.includes(field.sourceName)) builder.appendNull();
      else if (
        !builder.append(field.made === undefined ? (row[field.sourceName] ?? null) : this.madeCell(field.made))
      ) {
        this.rollback();
        return unrepresentable(field, row[field.sourceName] ?? null);
      }
    }
    return null;
  }

  /** The occurrence is known when the table was asked how many equals it has. */
  private madeCell(made: NonNullable<PlanField['made']>): Cell {
    return made === 'row-hash' ? this.rowHash : 0;
  }

  private rollback(): void {
    for (const builder of this.builders) builder.truncate(this.meta.length);
  }

  private evolve(shapeVersion: number): void {
    const next = this.options.evolve(shapeVersion, this.plan);
    this.metShapes.add(shapeVersion);
    for (let i = this.plan.fields.length; i < next.fields.length; i++) {
      const builder = createColumnBuilder((next.fields[i] as PlanField).type);
      for (let row = 0; row < this.meta.length; row++) builder.appendNull();
      this.builders.push(builder);
    }
    this.plan = next;
    this.parking.fields = next.fields;
  }
}

function unrepresentable(field: PlanField, cell: Cell): Violation {
  const type = typeof field.type === 'string' ? field.type : field.type.type;
  const shape = type === 'array' && typeof cell === 'string';
  return {
    ruleId: `type:${field.sourceName}`,
    code: shape ? 'ARRAY_SHAPE' : 'UNREPRESENTABLE',
    column: field.sourceName,
    action: field.onUnrepresentable === 'fail' ? 'fail' : 'quarantine',
    message: shape ? 'an array of one dimension that begins at 1' : `a value that ${type} can hold exactly`,
    value: field.classified ? '***' : cellText(cell).slice(0, 256),
  };
}
