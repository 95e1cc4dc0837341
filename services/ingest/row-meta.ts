/** Position, operation, key and coordinates of each row, in typed arrays that grow together. */
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { DecodedEvent } from '../log/envelope-decode.ts';
import { ORD_STEP, type RowBlock } from '../log/row-block.ts';
import { ROW_OPS } from '../stream/sink.ts';
import type { RowOp } from '../stream/sink.ts';
import { EventKind } from './fold.ts';

const INITIAL_ROWS = 1024;
const NO_KIND = 0xff;
const OP_NAMES: Readonly<Record<string, RowOp>> = {
  c: 'insert',
  u: 'update',
  d: 'delete',
  r: 'read',
  tombstone: 'delete',
};
const OP_CODES: ReadonlyMap<string, number> = new Map(
  Object.entries(OP_NAMES).map(([letter, name]) => [letter, ROW_OPS.indexOf(name)]),
);

export class RowMeta {
  length = 0;
  private capacity = INITIAL_ROWS;
  private epochValues = new Int32Array(INITIAL_ROWS);
  private lsnValues = new BigUint64Array(INITIAL_ROWS);
  private ordValues = new Int32Array(INITIAL_ROWS);
  private kindValues = new Uint8Array(INITIAL_ROWS);
  private opValues = new Uint8Array(INITIAL_ROWS);
  private keyValues = new Int32Array(INITIAL_ROWS);
  private otherValues = new Int32Array(INITIAL_ROWS);
  private partitionValues = new Int32Array(INITIAL_ROWS);
  private offsetValues = new BigInt64Array(INITIAL_ROWS);
  private shapeValues = new Int32Array(INITIAL_ROWS);
  private committedValues = new BigInt64Array(INITIAL_ROWS);
  /** Kind of each key's newest row. */
  private lastKinds = new Uint8Array(INITIAL_ROWS).fill(NO_KIND);

  push(event: DecodedEvent, kind: number, keyId: number, otherKeyId: number, partition: number, offset: bigint): void {
    const row = this.length;
    if (row === this.capacity) this.grow();
    this.epochValues[row] = event.epoch;
    this.lsnValues[row] = event.lsn;
    this.ordValues[row] = event.ord;
    this.kindValues[row] = kind;
    this.opValues[row] = OP_CODES.get(event.op) ?? 0;
    this.keyValues[row] = keyId;
    this.otherValues[row] = otherKeyId;
    this.partitionValues[row] = partition;
    this.offsetValues[row] = offset;
    this.shapeValues[row] = event.shapeVersion;
    this.committedValues[row] = event.committedAtMicros;
    if (keyId >= this.lastKinds.length) this.lastKinds = widerKinds(this.lastKinds, keyId);
    this.lastKinds[keyId] = kind;
    this.length = row + 1;
  }

  /** Rows from..to of a block, each with its own ordinal and offset; `keyIds` by row of the block. */
  pushRead(
    block: RowBlock,
    place: { readonly partition: number; readonly base: bigint; readonly from: number; readonly to: number },
    keyIds: Int32Array,
  ): void {
    const count = place.to - place.from;
    this.expect(count);
    const first = this.length;
    const end = first + count;
    const firstOrd = block.firstOrd + place.from * ORD_STEP;
    this.epochValues.fill(block.epoch, first, end);
    this.lsnValues.fill(block.lsn, first, end);
    this.kindValues.fill(EventKind.upsert, first, end);
    this.opValues.fill(OP_CODES.get('r') ?? 0, first, end);
    this.otherValues.fill(-1, first, end);
    this.partitionValues.fill(place.partition, first, end);
    this.shapeValues.fill(block.shape.version, first, end);
    this.committedValues.fill(block.committedAtMicros, first, end);
    countUp(this.ordValues, first, end, firstOrd, ORD_STEP);
    countOffsets(this.offsetValues, first, end, place.base + BigInt(place.from));
    const ids = keyIds.subarray(place.from, place.to);
    this.keyValues.set(ids, first);
    this.lastKinds = markKinds(this.lastKinds, ids, EventKind.upsert);
    this.length = end;
  }

  /** Room for so many rows more. */
  expect(rows: number): void {
    let { capacity } = this;
    while (capacity < this.length + rows) capacity *= 2;
    if (capacity > this.capacity) this.grow(capacity);
  }

  /** Forgets every row, and keeps the memory. */
  reset(): void {
    this.length = 0;
    this.lastKinds.fill(NO_KIND);
  }

  /** Kind of a key's newest row, or NO_KIND. */
  lastKindOf(keyId: number): number {
    return this.lastKinds[keyId] ?? NO_KIND;
  }

  /** Gives `event` the position just behind that of a row. */
  copyPosition(row: number, event: DecodedEvent): void {
    event.epoch = this.epochValues[row] ?? 0;
    event.lsn = (this.lsnValues[row] ?? 0n) as DecodedEvent['lsn'];
    event.ord = (this.ordValues[row] ?? 0) + 1;
    event.committedAtMicros = this.committedValues[row] ?? 0n;
  }

  get epochs(): Int32Array {
    return this.epochValues.subarray(0, this.length);
  }
  get lsns(): BigUint64Array {
    return this.lsnValues.subarray(0, this.length);
  }
  get ords(): Int32Array {
    return this.ordValues.subarray(0, this.length);
  }
  get kinds(): Uint8Array {
    return this.kindValues.subarray(0, this.length);
  }
  get ops(): Uint8Array {
    return this.opValues.subarray(0, this.length);
  }
  get keyIds(): Int32Array {
    return this.keyValues.subarray(0, this.length);
  }
  get otherKeyIds(): Int32Array {
    return this.otherValues.subarray(0, this.length);
  }
  get partitions(): Int32Array {
    return this.partitionValues.subarray(0, this.length);
  }
  get offsets(): BigInt64Array {
    return this.offsetValues.subarray(0, this.length);
  }
  get shapeVersions(): Int32Array {
    return this.shapeValues.subarray(0, this.length);
  }
  get committedAt(): BigInt64Array {
    return this.committedValues.subarray(0, this.length);
  }

  committedAtColumn(): ColumnVector {
    return { kind: 'int64', length: this.length, validity: null, values: this.committedAt };
  }

  bytesHeld(): number {
    return this.capacity * 54;
  }

  private grow(capacity = this.capacity * 2): void {
    this.epochValues = wider(this.epochValues, new Int32Array(capacity));
    this.lsnValues = wider(this.lsnValues, new BigUint64Array(capacity));
    this.ordValues = wider(this.ordValues, new Int32Array(capacity));
    this.kindValues = wider(this.kindValues, new Uint8Array(capacity));
    this.opValues = wider(this.opValues, new Uint8Array(capacity));
    this.keyValues = wider(this.keyValues, new Int32Array(capacity));
    this.otherValues = wider(this.otherValues, new Int32Array(capacity));
    this.partitionValues = wider(this.partitionValues, new Int32Array(capacity));
    this.offsetValues = wider(this.offsetValues, new BigInt64Array(capacity));
    this.shapeValues = wider(this.shapeValues, new Int32Array(capacity));
    this.committedValues = wider(this.committedValues, new BigInt64Array(capacity));
    this.capacity = capacity;
  }
}

function countUp(into: Int32Array, from: number, to: number, first: number, step: number): void {
  for (let i = from, value = first; i < to; i++, value += step) into[i] = value;
}

/** As two words: a bigint a row would be an allocation a row. */
function countOffsets(into: BigInt64Array, from: number, to: number, first: bigint): void {
  const words = new Uint32Array(into.buffer);
  let low = Number(first & 0xffff_ffffn);
  let high = Number(first >> 32n);
  for (let i = from; i < to; i++) {
    words[i * 2] = low;
    words[i * 2 + 1] = high;
    if (++low > 0xffff_ffff) {
      low = 0;
      high++;
    }
  }
}

function markKinds(kinds: Uint8Array<ArrayBuffer>, keyIds: Int32Array, kind: number): Uint8Array<ArrayBuffer> {
  let wide = kinds;
  for (let i = 0; i < keyIds.length; i++) {
    const keyId = keyIds[i] as number;
    if (keyId >= wide.length) wide = widerKinds(wide, keyId);
    wide[keyId] = kind;
  }
  return wide;
}

function widerKinds(from: Uint8Array<ArrayBuffer>, keyId: number): Uint8Array<ArrayBuffer> {
  const to = new Uint8Array(Math.max(from.length * 2, keyId + 1)).fill(NO_KIND);
  to.set(from);
  return to;
}

function wider<A extends Int32Array | BigUint64Array | Uint8Array | BigInt64Array>(from: A, to: A): A {
  (to as { set(values: A): void }).set(from);
  return to;
}
