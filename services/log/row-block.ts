/**
 * Rows of a snapshot chunk, column by column, as one record of the embedded log: the source's text as it came, without an
 * envelope a row. They still are records in every other sense: each has an offset of its own, and whoever does not ask for
 * blocks reads the very envelopes that the encoder would have written (`rowBlockRecords`).
 *
 * Little-endian:
 *   u8 format (1) | u8 0 | u16 columns | u32 rows | u32 epoch | u32 ordinal of the first row (the others follow in steps of
 *   2) | u64 lsn | i64 commit time, µs since 1970 UTC | f64 reader's clock, ms | u32 shape version | u32 context bytes |
 *   context, JSON: {name, database, shape} | columns × u32 text bytes | columns × { rows × i32 length (-1 = NULL) | text }
 */
import {
  compileShapeEncoder,
  createEnvelopeEncoder,
  type EncodedRecord,
  type EnvelopeSource,
  type ShapeEncoder,
} from './envelope-encode.ts';
import { rowEventAt } from './row-event.ts';
import type { TableShape } from './event.ts';
import { LogError } from './log.ts';
import type { Lsn } from './position.ts';
import { CellKind, type Tuple } from './tuple.ts';

export const ROW_BLOCK_FORMAT = 1;
/** Between two rows of a snapshot: the place of an insert half stays free, as in every transaction. */
export const ORD_STEP = 2;
const HEAD_BYTES = 48;
/** Below this a loop beats the call that copies. */
const COPY_BYTES_MIN = 48;
const INITIAL_ROWS = 1024;

export interface RowBlockHead {
  readonly shape: TableShape;
  readonly source: EnvelopeSource;
  readonly epoch: number;
  readonly lsn: Lsn;
  readonly firstOrd: number;
  readonly committedAtMicros: bigint;
  readonly atMs: number;
}

export interface RowBlockBuilder {
  readonly rows: number;
  /** Of text, so far. */
  readonly bytes: number;
  add(row: Tuple): void;
  /** The cells at bytes[at ..) as PostgreSQL's DataRow has them: a big-endian length each, -1 for NULL, and the text. */
  addCells(bytes: Buffer, at: number): void;
  /** The block, in bytes of its own; the builder is empty again. */
  finish(head: RowBlockHead): Buffer;
}

export function createRowBlockBuilder(columns: number): RowBlockBuilder {
  const lengths: Int32Array[] = [];
  const datas: Buffer[] = [];
  for (let i = 0; i < columns; i++) {
    lengths.push(new Int32Array(INITIAL_ROWS));
    datas.push(Buffer.allocUnsafeSlow(INITIAL_ROWS * 8));
  }
  /** Bytes in each column so far. */
  const ends = new Int32Array(columns);
  let capacity = INITIAL_ROWS;
  let rows = 0;
  let bytes = 0;
  const ensureRow = (): void => {
    if (rows < capacity) return;
    capacity *= 2;
    for (let i = 0; i < columns; i++) {
      const wider = new Int32Array(capacity);
      wider.set(lengths[i] as Int32Array);
      lengths[i] = wider;
    }
  };
  const put = (column: number, source: Buffer, start: number, length: number): void => {
    const at = ends[column] as number;
    let data = datas[column] as Buffer;
    if (at + length > data.length) {
      const wider = Buffer.allocUnsafeSlow(Math.max(data.length * 2, at + length));
      data.copy(wider, 0, 0, at);
      datas[column] = data = wider;
    }
    if (length < COPY_BYTES_MIN) for (let k = 0; k < length; k++) data[at + k] = source[start + k] as number;
    else source.copy(data, at, start, start + length);
    ends[column] = at + length;
  };
  return {
    get rows() {
      return rows;
    },
    get bytes() {
      return bytes;
    },
    add(row) {
      ensureRow();
      for (let i = 0; i < columns; i++) {
        const start = row.starts[i] as number;
        const length = row.kinds[i] === CellKind.text ? (row.ends[i] as number) - start : -1;
        (lengths[i] as Int32Array)[rows] = length;
        if (length <= 0) continue;
        put(i, row.bytes, start, length);
        bytes += length;
      }
      rows++;
    },
    addCells(source, from) {
      ensureRow();
      let at = from;
      for (let i = 0; i < columns; i++) {
        const length =
          ((source[at] as number) << 24) |
          ((source[at + 1] as number) << 16) |
          ((source[at + 2] as number) << 8) |
          (source[at + 3] as number);
        at += 4;
        (lengths[i] as Int32Array)[rows] = length;
        if (length <= 0) continue;
        put(i, source, at, length);
        at += length;
        bytes += length;
      }
      rows++;
    },
    finish(head) {
      const out = assemble(lengths, datas, ends, rows, head);
      ends.fill(0);
      rows = 0;
      bytes = 0;
      return out;
    },
  };
}

function assemble(
  lengths: readonly Int32Array[],
  datas: readonly Buffer[],
  ends: Int32Array,
  rows: number,
  head: RowBlockHead,
): Buffer {
  const { shape, source } = head;
  const context = Buffer.from(JSON.stringify({ name: source.name, database: source.database, shape }));
  let size = HEAD_BYTES + context.length + ends.length * 4;
  for (const end of ends) size += rows * 4 + end;
  const out = Buffer.allocUnsafe(size);
  out.writeUInt8(ROW_BLOCK_FORMAT, 0);
  out.writeUInt8(0, 1);
  out.writeUInt16LE(ends.length, 2);
  out.writeUInt32LE(rows, 4);
  out.writeUInt32LE(head.epoch, 8);
  out.writeUInt32LE(head.firstOrd, 12);
  out.writeBigUInt64LE(head.lsn, 16);
  out.writeBigInt64LE(head.committedAtMicros, 24);
  out.writeDoubleLE(head.atMs, 32);
  out.writeUInt32LE(shape.version, 40);
  out.writeUInt32LE(context.length, 44);
  let at = HEAD_BYTES + context.copy(out, HEAD_BYTES);
  for (const end of ends) at = out.writeUInt32LE(end, at);
  for (const [column, end] of ends.entries()) {
    const own = lengths[column] as Int32Array;
    at += Buffer.from(own.buffer, own.byteOffset, rows * 4).copy(out, at);
    at += (datas[column] as Buffer).copy(out, at, 0, end);
  }
  return out;
}

/** One column of a block: cell `row` is bytes[starts[row] .. starts[row] + lengths[row]), NULL where the length is -1. */
export interface BlockColumn {
  readonly bytes: Buffer;
  readonly lengths: Int32Array;
  readonly starts: Int32Array;
  /** The column's whole text. */
  readonly from: number;
  readonly to: number;
}

export interface RowBlock {
  readonly rows: number;
  readonly epoch: number;
  readonly lsn: Lsn;
  readonly firstOrd: number;
  readonly committedAtMicros: bigint;
  readonly atMs: number;
  readonly shape: TableShape;
  readonly source: EnvelopeSource;
  readonly columns: readonly BlockColumn[];
}

interface Context {
  readonly bytes: Buffer;
  readonly source: EnvelopeSource;
  readonly shape: TableShape;
  encoder: ShapeEncoder | null;
}

/** Blocks of one table come in a row and say the same about it. */
let lastContext: Context | null = null;

/** The shape version of a block, which its reader may have to fetch first. */
export function rowBlockShape(bytes: Buffer): number {
  return bytes.readUInt32LE(40);
}

/** How many rows a block has. */
export function rowBlockRows(bytes: Buffer): number {
  return bytes.readUInt32LE(4);
}

/** @throws LogError LOG_FORMAT_NEWER */
export function openRowBlock(bytes: Buffer): RowBlock {
  const format = bytes.readUInt8(0);
  if (format > ROW_BLOCK_FORMAT)
    throw new LogError(
      'LOG_FORMAT_NEWER',
      `a block of rows has format ${format}; this version reads up to ${ROW_BLOCK_FORMAT}: upgrade this process first`,
    );
  const count = bytes.readUInt16LE(2);
  const rows = bytes.readUInt32LE(4);
  const { shape, source } = contextOf(bytes);
  let sizesAt = HEAD_BYTES + bytes.readUInt32LE(44);
  let at = sizesAt + count * 4;
  const columns: BlockColumn[] = [];
  for (let i = 0; i < count; i++, sizesAt += 4) {
    const size = bytes.readUInt32LE(sizesAt);
    // Copied: the place in the file is aligned to nothing.
    const lengths = new Int32Array(rows);
    bytes.copy(new Uint8Array(lengths.buffer), 0, at, at + rows * 4);
    const from = at + rows * 4;
    const starts = new Int32Array(rows);
    let start = from;
    for (let row = 0; row < rows; row++) {
      starts[row] = start;
      const length = lengths[row] as number;
      if (length > 0) start += length;
    }
    at = from + size;
    columns.push({ bytes, lengths, starts, from, to: at });
  }
  return {
    rows,
    epoch: bytes.readUInt32LE(8),
    firstOrd: bytes.readUInt32LE(12),
    lsn: bytes.readBigUInt64LE(16) as Lsn,
    committedAtMicros: bytes.readBigInt64LE(24),
    atMs: bytes.readDoubleLE(32),
    shape,
    source,
    columns,
  };
}

function contextOf(block: Buffer): Context {
  const bytes = block.subarray(HEAD_BYTES, HEAD_BYTES + block.readUInt32LE(44));
  if (lastContext !== null && lastContext.bytes.equals(bytes)) return lastContext;
  const { name, database, shape } = JSON.parse(bytes.toString('utf8')) as EnvelopeSource & { shape: TableShape };
  lastContext = { bytes: Buffer.from(bytes), source: { name, database }, shape, encoder: null };
  return lastContext;
}

/** Gives single rows of a block as the records that they stand for. */
export function rowBlockRecords(block: RowBlock): (row: number) => EncodedRecord {
  const known = lastContext?.shape === block.shape ? lastContext : null;
  const shape = known?.encoder ?? compileShapeEncoder(block.shape, block.source);
  if (known !== null) known.encoder = shape;
  const encoder = createEnvelopeEncoder();
  const width = Math.max(1, block.columns.length);
  const tuple = {
    bytes: block.columns[0]?.bytes ?? Buffer.alloc(0),
    kinds: new Uint8Array(width),
    starts: new Int32Array(width),
    ends: new Int32Array(width),
  };
  const event = rowEventAt('r', block);
  event.after = tuple;
  return (row) => {
    for (let i = 0; i < block.columns.length; i++) {
      const { starts, lengths } = block.columns[i] as BlockColumn;
      const length = lengths[row] as number;
      tuple.kinds[i] = length < 0 ? CellKind.null : CellKind.text;
      tuple.starts[i] = starts[row] as number;
      tuple.ends[i] = (starts[row] as number) + Math.max(0, length);
    }
    event.ord = block.firstOrd + row * ORD_STEP;
    return encoder.encode(shape, event);
  };
}
