/**
 * The fold of a table without key (docs/decisions/0015-tables-without-a-key.md). Equal rows stand in the lake as (hash, 0),
 * (hash, 1), … without gaps. A row that comes takes the next place, one that goes gives the last place up: they are equal, so
 * it does not matter which. How many there are is asked of the table's own key index: the count is kept nowhere else, so
 * nothing can disagree with it after a crash.
 */
import { MergeOp, RowOutcome } from '../../lakehouse/merge/merge.ts';
import type { MergeBatch, RowPosition } from '../../lakehouse/merge/merge.ts';
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { StructType } from '../../lakehouse/table/schema.ts';
import { OCCURRENCE, ROW_HASH } from '../log/bag-key.ts';
import { ROW_OPS } from '../stream/sink.ts';
import { EventKind } from './fold.ts';
import type { Folded } from './fold.ts';
import type { IngestBatch } from './ingest-batch.ts';
import { mergeInput } from './merge-input.ts';

/** Resolves a batch against the table without writing; asked for deletes alone, so its outcomes say which rows are there. */
export type ProbeTable = (batch: MergeBatch) => Promise<{ readonly outcomes: Uint8Array }>;

export interface FoldedBag {
  readonly folded: Folded;
  readonly input: MergeBatch;
}

export async function foldBag(batch: IngestBatch, probe: ProbeTable): Promise<FoldedBag> {
  const live = liveRows(batch);
  const hashes = batch.keys.map(String);
  const start =
    batch.truncate === null
      ? await countRows(hashes, touchedKeys(batch, live.rows), probe)
      : new Int32Array(batch.keyCount);
  const settled = settle(batch, live.rows, start);
  const count = settled.rows.length;
  const folded: Folded = {
    rowCount: count,
    rows: Int32Array.from(settled.rows),
    ops: Uint8Array.from(settled.ops),
    gather: batch.columns.map(() => null),
    absent: batch.columns.map(() => null),
    baseRow: null,
    missing: new Int32Array(0),
    previous: new Int32Array(batch.rowCount).fill(-1),
    folded: batch.rowCount - count - settled.noop,
    duplicates: 0,
    stale: 0,
    noop: settled.noop,
  };
  const input = mergeInput(batch, folded);
  const at = batch.schema.fields.findIndex(({ name }) => name === OCCURRENCE);
  const places = occurrenceColumn(Int32Array.from(settled.places));
  return { folded, input: { ...input, columns: input.columns.map((column, i) => (i === at ? places : column)) } };
}

function occurrenceColumn(values: Int32Array): ColumnVector {
  return { kind: 'int32', length: values.length, validity: null, values };
}

/** Rows that no TRUNCATE of the batch took. */
function liveRows(batch: IngestBatch): { readonly rows: readonly number[] } {
  const rows: number[] = [];
  for (let row = 0; row < batch.rowCount; row++)
    if (batch.truncate === null || !isBefore(batch, row, batch.truncate)) rows.push(row);
  return { rows };
}

function isBefore({ epochs, lsns, ords }: IngestBatch, row: number, position: RowPosition): boolean {
  const epoch = epochs[row] ?? 0;
  if (epoch !== position.epoch) return epoch < position.epoch;
  const lsn = lsns[row] ?? 0n;
  return lsn === position.lsn ? (ords[row] ?? 0) < position.ord : lsn < position.lsn;
}

function touchedKeys({ keyIds }: IngestBatch, rows: readonly number[]): readonly number[] {
  return [...new Set(rows.map((row) => keyIds[row] ?? 0))];
}

const UPDATE = ROW_OPS.indexOf('update');

interface Settled {
  /** Per output row: the event that it comes from, what it does, and which of the equal rows it is. */
  readonly rows: number[];
  readonly ops: number[];
  readonly places: number[];
  /** Deletes of rows that are not there: parked ones, mostly. */
  readonly noop: number;
}

function settle(batch: IngestBatch, live: readonly number[], start: Int32Array): Settled {
  const { keyIds, kinds, ops: kindsOfChange } = batch;
  const now = Int32Array.from(start);
  /** Rows that came and still stand, a key each, newest last; and the event of the newest delete. */
  const came = new Map<number, number[]>();
  const lastGone = new Int32Array(now.length).fill(-1);
  let noop = 0;
  for (const row of live) {
    const key = keyIds[row] ?? 0;
    if (kinds[row] === EventKind.delete) {
      if ((now[key] ?? 0) === 0) {
        noop++;
        continue;
      }
      now[key] = (now[key] ?? 0) - 1;
      if (came.get(key)?.pop() === undefined) lastGone[key] = row;
      continue;
    }
    // Before and after are the same.
    if (kindsOfChange[row] === UPDATE) continue;
    now[key] = (now[key] ?? 0) + 1;
    const stack = came.get(key);
    if (stack === undefined) came.set(key, [row]);
    else stack.push(row);
  }
  const out: Settled = { rows: [], ops: [], places: [], noop };
  for (let key = 0; key < now.length; key++) {
    const before = start[key] ?? 0;
    const after = now[key] ?? 0;
    const stack = came.get(key) ?? [];
    for (let place = before; place < after; place++) {
      out.rows.push(stack[stack.length - (after - place)] ?? 0);
      out.ops.push(MergeOp.upsert);
      out.places.push(place);
    }
    for (let place = after; place < before; place++) {
      out.rows.push(lastGone[key] ?? 0);
      out.ops.push(MergeOp.delete);
      out.places.push(place);
    }
  }
  return out;
}

const PROBE_SCHEMA: StructType = {
  type: 'struct',
  fields: [
    { name: ROW_HASH, type: 'string', nullable: true, metadata: {} },
    { name: OCCURRENCE, type: 'integer', nullable: true, metadata: {} },
  ],
};

/** How many rows of each key the table has: by doubling steps, then by halving, all keys of a step in one look. */
async function countRows(hashes: readonly string[], keys: readonly number[], probe: ProbeTable): Promise<Int32Array> {
  /** The count is at least `low` and below `high`. */
  const low = new Int32Array(hashes.length);
  const high = new Int32Array(hashes.length).fill(-1);
  let open = keys;
  while (open.length > 0) {
    const places = open.map((key) => {
      const above = high[key] ?? -1;
      const least = low[key] ?? 0;
      return above < 0 ? least * 2 : (least + above) >> 1;
    });
    const there = await probe(
      probeOf(
        open.map((key) => hashes[key] ?? ''),
        places,
      ),
    );
    open.forEach((key, i) => {
      const place = places[i] ?? 0;
      if (there.outcomes[i] === RowOutcome.delete) low[key] = place + 1;
      else high[key] = place;
    });
    open = open.filter((key) => low[key] !== high[key]);
  }
  return low;
}

/** Deletes newer than anything: the outcome of each says whether its row is there. Never committed. */
function probeOf(hashes: readonly string[], places: readonly number[]): MergeBatch {
  const count = hashes.length;
  return {
    rowCount: count,
    schema: PROBE_SCHEMA,
    columns: [textColumn(hashes), occurrenceColumn(Int32Array.from(places))],
    keyColumns: [ROW_HASH, OCCURRENCE],
    ops: new Uint8Array(count).fill(MergeOp.delete),
    absent: [null, null],
    epoch: new Int32Array(count).fill(0x7fff_ffff),
    lsn: new BigUint64Array(count).fill(0xffff_ffff_ffff_ffffn),
    ord: new Int32Array(count).fill(0x7fff_ffff),
    truncate: null,
  };
}

function textColumn(texts: readonly string[]): ColumnVector {
  const data = Buffer.from(texts.join(''), 'latin1');
  const offsets = new Int32Array(texts.length + 1);
  let at = 0;
  texts.forEach((text, i) => {
    at += text.length;
    offsets[i + 1] = at;
  });
  return { kind: 'utf8', length: texts.length, validity: null, offsets, data };
}
