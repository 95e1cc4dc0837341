/**
 * A block of rows → columns, column by column: parse, ask the contract, then append in runs. A row that is not clean in every
 * part (a rule fails, a value has no place in its column, its key has parked events) is taken out of the runs, and goes as the
 * record that it stands for through the way of all other records, at its own place in the order.
 */
import { isUtf8 } from 'node:buffer';
import type { Cell, GateRow } from '../../contracts/engine/gate.ts';
import { cellBytes, gatherCells, rowBlockRecords, type BlockColumn, type RowBlock } from '../log/row-block.ts';
import { cellOfText, type WireForm } from '../log/text-cell.ts';
import { JsonError } from '../log/json-cursor.ts';
import { planBlock, type BlockField, type BlockPlan } from './block-plan.ts';
import { Utf8Builder } from './columns/bytes-builders.ts';
import type { ColumnBuilder } from './columns/column-builder.ts';
import { createColumnBuilder } from './columns/create-builder.ts';
import { DecimalBuilder } from './columns/decimal-builder.ts';
import { BooleanBuilder, FloatBuilder, Int32Builder, Int64Builder } from './columns/number-builders.ts';
import { isCleanText } from './columns/parse-column.ts';
import type { RawRecord } from './ingest-batch.ts';
import { keyCellOf, type KeyCell } from './key-cell.ts';
import type { RowMeta } from './row-meta.ts';
import type { TablePlan } from './table-plan.ts';

export interface BlockPlace {
  readonly topic: string;
  readonly partition: number;
  /** Offset of the block's row 0. */
  readonly base: bigint;
  readonly from: number;
  readonly to: number;
}

/** What the batch lends to the decoder of its blocks. */
export interface BlockTarget {
  readonly builders: readonly ColumnBuilder[];
  readonly meta: RowMeta;
  /** Numbers of keys from..to, each in its place. */
  keyIds(keys: readonly KeyCell[], from: number, to: number, into: Int32Array): void;
  /** The key has parked events: its row goes the long way. */
  isParked(key: KeyCell): boolean;
  /** The long way. */
  record(record: RawRecord): void;
}

/** What a column of the block came to. */
interface Parsed {
  readonly source: BlockColumn;
  readonly values: Float64Array;
  /** By row: what a row rule or the key asked for. */
  readonly cells: (Cell | undefined)[] | null;
  /** By row: values that go into the column by their cell. */
  readonly odd: (Cell | undefined)[] | null;
}

/** The last block: what V8 compiled for a form of objects goes when none of them is left. */
const kept: { last: readonly unknown[] } = { last: [] };
/** Of the block in hand. */
let keyIds = new Int32Array(0);

const NO_VALUES: Float64Array = new Float64Array(0);
const NO_TEXT = { bytes: Buffer.alloc(0), starts: new Int32Array(0) };

export class BlockDecoder {
  private readonly plans = new WeakMap<TablePlan, Map<number, BlockPlan | null>>();
  private readonly probes = new Map<string, ColumnBuilder>();
  private readonly scratch: Float64Array[] = [];
  private readonly texts: Pick<BlockColumn, 'bytes' | 'starts'>[] = [];
  /** @param fast false: every row goes the long way */
  decode(block: RowBlock, place: BlockPlace, plan: TablePlan, target: BlockTarget, fast: boolean): void {
    const blockPlan = fast ? this.planOf(block, plan) : null;
    const isFine = new Uint8Array(block.rows).fill(blockPlan === null ? 0 : 1);
    const parsed: Parsed[] = [];
    const keys: KeyCell[] = [];
    if (blockPlan !== null) {
      for (const [index, field] of blockPlan.fields.entries())
        parsed.push(this.column(block, field, { index, needed: isNeeded(blockPlan, index), place, isFine }));
      applyRules(blockPlan, parsed, place, isFine);
      keysOf(blockPlan, plan, parsed, { place, isFine, keys, target });
    }
    kept.last = [block, parsed];
    const long = this.longWay(block, place, target);
    for (let row = place.from; row < place.to;) {
      if (isFine[row] !== 1) {
        long(row++);
        continue;
      }
      let end = row + 1;
      while (end < place.to && isFine[end] === 1) end++;
      if (blockPlan !== null) append(block, parsed, { keys, place, target, from: row, to: end });
      row = end;
    }
  }

  private planOf(block: RowBlock, plan: TablePlan): BlockPlan | null {
    let known = this.plans.get(plan);
    if (known === undefined) this.plans.set(plan, (known = new Map()));
    const { version } = block.shape;
    const found = known.get(version);
    if (found !== undefined) return found;
    const made = planBlock(block.shape, plan);
    known.set(version, made);
    return made;
  }

  private longWay(block: RowBlock, place: BlockPlace, target: BlockTarget): (row: number) => void {
    let records: ReturnType<typeof rowBlockRecords> | null = null;
    const { topic, partition, base } = place;
    return (row) => {
      records ??= rowBlockRecords(block);
      target.record({ topic, partition, offset: base + BigInt(row), ...records(row) });
    };
  }

  private column(
    block: RowBlock,
    field: BlockField,
    at: { readonly index: number; readonly needed: boolean; readonly place: BlockPlace; readonly isFine: Uint8Array },
  ): Parsed {
    const { from, to } = at.place;
    const sent = block.columns[field.column] as BlockColumn;
    // Text is taken over as it is, in one piece.
    const source = field.parser === 'text' ? this.gathered(sent, at) : sent;
    const { lengths } = source;
    const { gate, parser } = field;
    if (!gate.nullPasses) for (let row = from; row < to; row++) if ((lengths[row] as number) < 0) at.isFine[row] = 0;
    let values = NO_VALUES;
    const byCell = parser === 'cell';
    let anyOdd = byCell;
    if (parser !== 'cell' && parser !== 'text') {
      values = this.scratchOf(at.index, block.rows);
      anyOdd = parser(source, values, from, to);
    }
    if (!anyOdd && gate.typeOnly && !at.needed) return { source, values, cells: null, odd: null };
    const cells: (Cell | undefined)[] | null = at.needed ? [] : null;
    let oddCells: (Cell | undefined)[] | null = null;
    const probe = this.probeOf(field);
    for (let row = from; row < to; row++) {
      const length = lengths[row] as number;
      if (length < 0) {
        if (cells !== null) cells[row] = null;
        continue;
      }
      const odd = byCell || (anyOdd && Number.isNaN(values[row]));
      const asked = !gate.typeOnly && length > gate.bytesPass;
      if (!odd && !asked && !at.needed) continue;
      const start = source.starts[row] as number;
      const cell = tryCell(field.form, source.bytes, start, start + length);
      if (cell === undefined) {
        at.isFine[row] = 0;
        continue;
      }
      if ((odd || asked) && !gate.passes(cell)) at.isFine[row] = 0;
      else if (odd) {
        // The contract has nothing against it, and the table's column still may.
        if (probe.append(cell)) probe.truncate(0);
        else at.isFine[row] = 0;
      }
      if (cells !== null) cells[row] = cell;
      if (odd) (oddCells ??= [])[row] = cell;
    }
    return { source, values, cells, odd: oddCells };
  }

  private gathered(
    sent: BlockColumn,
    { index, place: { from, to }, isFine }: { index: number; place: BlockPlace; isFine: Uint8Array },
  ): BlockColumn {
    const bytes = cellBytes(sent, from, to);
    const held = this.texts[index] ?? NO_TEXT;
    const text = {
      bytes: held.bytes.length < bytes ? Buffer.allocUnsafeSlow(bytes * 2) : held.bytes,
      starts: held.starts.length < to ? new Int32Array(to) : held.starts,
    };
    this.texts[index] = text;
    const column = gatherCells(sent, from, to, text);
    if (!isCleanText(column, bytes, from, to)) refuseUnclean(column, from, to, isFine);
    return column;
  }

  private scratchOf(index: number, rows: number): Float64Array {
    const known = this.scratch[index];
    if (known !== undefined && known.length >= rows) return known;
    const made = new Float64Array(rows);
    this.scratch[index] = made;
    return made;
  }

  private probeOf({ field }: BlockField): ColumnBuilder {
    const type = JSON.stringify(field.type);
    let known = this.probes.get(type);
    if (known === undefined) this.probes.set(type, (known = createColumnBuilder(field.type)));
    return known;
  }
}

/** Cells are made for the columns of row rules, and for keys other than one whole number. */
function isNeeded({ rules, keyFields, fields }: BlockPlan, index: number): boolean {
  if (rules.some((rule) => rule.fields.includes(index))) return true;
  return keyFields.includes(index) && !isNumberKey(fields, keyFields);
}

function isNumberKey(fields: readonly BlockField[], keyFields: readonly number[]): boolean {
  const only = keyFields.length === 1 ? fields[keyFields[0] ?? 0] : undefined;
  return only !== undefined && only.parser !== 'cell' && only.parser !== 'text' && isInteger(only);
}

function isInteger({ field: { type } }: BlockField): boolean {
  return type === 'byte' || type === 'short' || type === 'integer' || type === 'long';
}

/** The long way says what is wrong with bytes that are no UTF-8. */
function refuseUnclean({ bytes, starts, lengths }: BlockColumn, from: number, to: number, isFine: Uint8Array): void {
  for (let row = from; row < to; row++) {
    const start = starts[row] as number;
    if (!isUtf8(bytes.subarray(start, start + Math.max(0, lengths[row] as number)))) isFine[row] = 0;
  }
}

/** Undefined where the text is none of its type. */
function tryCell(form: WireForm, bytes: Buffer, start: number, end: number): Cell | undefined {
  try {
    return cellOfText(form, bytes, start, end);
  } catch (error) {
    if (error instanceof JsonError || error instanceof RangeError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function applyRules(plan: BlockPlan, parsed: readonly Parsed[], place: BlockPlace, isFine: Uint8Array): void {
  for (const { rule, fields } of plan.rules) {
    const row: GateRow = {};
    const columns = fields.map((index) => parsed[index]?.cells ?? []);
    for (let at = place.from; at < place.to; at++) {
      if (isFine[at] !== 1) continue;
      for (const [i, name] of rule.columns.entries()) row[name] = columns[i]?.[at] ?? null;
      if (!rule.passes(row)) isFine[at] = 0;
    }
  }
}

function keysOf(
  { fields, keyFields }: BlockPlan,
  plan: TablePlan,
  parsed: readonly Parsed[],
  at: {
    readonly place: BlockPlace;
    readonly isFine: Uint8Array;
    readonly keys: (KeyCell | undefined)[];
    readonly target: BlockTarget;
  },
): void {
  const { place, isFine, keys, target } = at;
  const single = isNumberKey(fields, keyFields) ? parsed[keyFields[0] ?? 0] : undefined;
  const row: GateRow = {};
  for (let i = place.from; i < place.to; i++) {
    if (isFine[i] !== 1) continue;
    let key: KeyCell | null;
    const number = single?.values[i] ?? Number.NaN;
    if (Number.isNaN(number)) {
      for (const [k, index] of keyFields.entries()) {
        const column = parsed[index];
        row[plan.keySources[k] ?? ''] = column?.cells?.[i] ?? column?.odd?.[i] ?? null;
      }
      key = keyCellOf(row, plan.keySources);
    } else key = number;
    if (key === null || target.isParked(key)) isFine[i] = 0;
    else keys[i] = key;
  }
}

function append(
  block: RowBlock,
  parsed: readonly Parsed[],
  at: {
    readonly keys: readonly KeyCell[];
    readonly place: BlockPlace;
    readonly target: BlockTarget;
    readonly from: number;
    readonly to: number;
  },
): void {
  const { target, place, from, to } = at;
  for (const [index, column] of parsed.entries())
    appendColumn(target.builders[index] as ColumnBuilder, column, from, to);
  if (keyIds.length < to) keyIds = new Int32Array(block.rows);
  target.keyIds(at.keys, from, to, keyIds);
  target.meta.pushRead(block, { ...place, from, to }, keyIds);
}

function appendColumn(builder: ColumnBuilder, parsed: Parsed, from: number, to: number): void {
  const { odd } = parsed;
  let run = from;
  if (odd !== null) {
    for (let row = from; row < to; row++) {
      const cell = odd[row];
      if (cell === undefined) continue;
      pushRun(builder, parsed, run, row);
      builder.append(cell);
      run = row + 1;
    }
  }
  pushRun(builder, parsed, run, to);
}

function pushRun(builder: ColumnBuilder, { source, values }: Parsed, from: number, to: number): void {
  const { bytes, starts, lengths } = source;
  if (from === to) return;
  if (builder instanceof Utf8Builder) builder.pushRun(bytes, starts, lengths, from, to);
  else if (
    values !== NO_VALUES &&
    (builder instanceof Int64Builder ||
      builder instanceof Int32Builder ||
      builder instanceof DecimalBuilder ||
      builder instanceof FloatBuilder ||
      builder instanceof BooleanBuilder)
  )
    builder.pushRun(values, lengths, from, to);
  else for (let row = from; row < to; row++) builder.appendNull();
}
