/**
 * The merge in twenty lines, over a map: what the table must hold after any sequence of batches. Random sequences (with
 * crashes, lost indexes, compaction and foreign commits in between) are run on both and their rows compared.
 */
import { columnFrom, type Cell } from '../support/column-from.ts';
import { MergeOp, RowOutcome, type MergeBatch, type MergeMode } from '../../lakehouse/merge/merge.ts';
import type { StructField } from '../../lakehouse/table/schema.ts';

export interface Position {
  readonly epoch: number;
  readonly lsn: bigint;
  readonly ord: number;
}

export interface ModelEvent {
  readonly tenant: string;
  readonly id: bigint;
  readonly delete: boolean;
  readonly position: Position;
  /** Column values; `undefined` = the event did not carry the column. */
  readonly cells: Readonly<Record<string, Cell | undefined>>;
}

export interface ModelBatch {
  readonly events: readonly ModelEvent[];
  readonly truncate: Position | null;
  /** Columns beside the key, of this batch's schema. */
  readonly fields: readonly StructField[];
}

export interface ModelRow {
  readonly tenant: string;
  readonly id: bigint;
  readonly position: Position;
  readonly deleted: boolean;
  readonly cells: Readonly<Record<string, Cell>>;
}

export interface Model {
  readonly rows: Map<string, ModelRow>;
  readonly fences: Map<string, Position>;
  truncate: Position | null;
}

export const newModel = (): Model => ({ rows: new Map(), fences: new Map(), truncate: null });
export const keyOf = ({ tenant, id }: { tenant: string; id: bigint }): string => `${tenant}\0${id}`;

export function compare(a: Position, b: Position): number {
  if (a.epoch !== b.epoch) return a.epoch - b.epoch;
  if (a.lsn !== b.lsn) return a.lsn < b.lsn ? -1 : 1;
  return a.ord - b.ord;
}

/** Applies a batch; returns its outcomes. */
export function applyToModel(model: Model, batch: ModelBatch, mode: Exclude<MergeMode, 'append'>): number[] {
  const before = model.truncate;
  const { truncate } = batch;
  const cleared = new Set<string>();
  if (truncate !== null) {
    for (const [key, row] of model.rows) if (compare(row.position, truncate) < 0) cleared.add(key);
    for (const key of cleared) {
      const row = model.rows.get(key)!;
      if (mode === 'soft-delete') model.rows.set(key, { ...row, deleted: true, position: truncate });
      else model.rows.delete(key);
    }
    if (before === null || compare(truncate, before) > 0) model.truncate = truncate;
  }
  return batch.events.map((event) => applyEvent(model, event, batch, before, mode));
}

function applyEvent(
  model: Model,
  event: ModelEvent,
  { truncate, fields }: ModelBatch,
  before: Position | null,
  mode: MergeMode,
): number {
  const key = keyOf(event);
  const { position } = event;
  const standing = model.rows.get(key);
  const fence = model.fences.get(key);
  if (truncate !== null && compare(position, truncate) < 0) return RowOutcome.stale;
  if (before !== null && compare(position, before) <= 0) return RowOutcome.stale;
  const held = standing?.position ?? fence;
  // A row that this batch's own truncate marked stands at the truncate's position, which no event of the batch is below.
  const marked = standing !== undefined && truncate !== null && compare(standing.position, truncate) === 0;
  if (held !== undefined && !marked && compare(position, held) <= 0) return RowOutcome.stale;
  const living = standing !== undefined && !standing.deleted ? standing : undefined;
  if (event.delete) {
    if (mode === 'soft-delete' && standing !== undefined) model.rows.set(key, { ...standing, deleted: true, position });
    else {
      model.rows.delete(key);
      model.fences.set(key, position);
    }
    return living === undefined ? RowOutcome.noop : RowOutcome.delete;
  }
  const missing = fields.some((field) => event.cells[field.name] === undefined);
  if (missing && living === undefined) return RowOutcome.missingBase;
  const cells: Record<string, Cell> = { ...living?.cells };
  for (const field of fields) {
    const cell = event.cells[field.name];
    if (cell !== undefined) cells[field.name] = cell;
  }
  model.rows.set(key, { tenant: event.tenant, id: event.id, position, deleted: false, cells });
  return living === undefined ? RowOutcome.insert : RowOutcome.update;
}

/** Append mode: every event a row of its own, a TRUNCATE a row without key before those of its batch. */
export interface AppendedRow extends Omit<ModelRow, 'tenant' | 'id'> {
  readonly tenant: string | null;
  readonly id: bigint | null;
  /** Names of the columns that the event did not carry. */
  readonly absent: string | null;
}

export function appendToModel(rows: AppendedRow[], { events, truncate, fields }: ModelBatch): number[] {
  if (truncate !== null)
    rows.push({ tenant: null, id: null, position: truncate, deleted: true, cells: {}, absent: null });
  return events.map((event) => {
    const given = fields.filter((field) => !event.delete && event.cells[field.name] !== undefined);
    const lacking = fields.filter((field) => !event.delete && event.cells[field.name] === undefined);
    rows.push({
      tenant: event.tenant,
      id: event.id,
      position: event.position,
      deleted: event.delete,
      cells: Object.fromEntries(given.map((field) => [field.name, event.cells[field.name] ?? null])),
      absent: lacking.length === 0 ? null : lacking.map((field) => field.name).join(','),
    });
    return event.delete ? RowOutcome.delete : RowOutcome.insert;
  });
}

const KEY_FIELDS: readonly StructField[] = [
  { name: 'tenant', type: 'string', nullable: false, metadata: {} },
  { name: 'id', type: 'long', nullable: false, metadata: {} },
];

/** The batch as the merge writer takes it. */
export function toMergeBatch({ events, truncate, fields }: ModelBatch): MergeBatch {
  const all = [...KEY_FIELDS, ...fields];
  const cell = (event: ModelEvent, name: string): Cell =>
    name === 'tenant' ? event.tenant : name === 'id' ? event.id : event.delete ? null : (event.cells[name] ?? null);
  return {
    rowCount: events.length,
    schema: { type: 'struct', fields: all },
    columns: all.map((field) =>
      columnFrom(
        field.type,
        events.map((event) => cell(event, field.name)),
      ),
    ),
    keyColumns: ['tenant', 'id'],
    ops: Uint8Array.from(events, (event) => (event.delete ? MergeOp.delete : MergeOp.upsert)),
    absent: all.map((field, i) => {
      if (i < KEY_FIELDS.length) return null;
      const bits = new Uint8Array((events.length + 7) >> 3);
      let any = false;
      events.forEach((event, row) => {
        if (event.delete || event.cells[field.name] !== undefined) return;
        bits[row >> 3]! |= 1 << (row & 7);
        any = true;
      });
      return any ? bits : null;
    }),
    epoch: Int32Array.from(events, (event) => event.position.epoch),
    lsn: BigUint64Array.from(events, (event) => event.position.lsn),
    ord: Int32Array.from(events, (event) => event.position.ord),
    truncate,
  };
}

/** The row as `canonicalRows` writes it, over the given fields. */
export function rowText(row: ModelRow | AppendedRow, fieldNames: readonly string[]): string {
  const value = (name: string): unknown => {
    switch (name) {
      case 'tenant':
        return row.tenant;
      case 'id':
        return row.id === null ? null : Number(row.id);
      case '_sluice_lsn':
        return Number(row.position.lsn);
      case '_sluice_ord':
        return row.position.ord;
      case '_sluice_epoch':
        return row.position.epoch;
      case '_sluice_deleted':
        return row.deleted;
      case '_sluice_absent':
        return 'absent' in row ? row.absent : null;
      default: {
        const cell = row.cells[name] ?? null;
        return typeof cell === 'bigint' ? Number(cell) : cell;
      }
    }
  };
  return JSON.stringify(Object.fromEntries(fieldNames.map((name) => [name, value(name)])));
}
