/**
 * Rows of a snapshot chunk as one record of the embedded log: the messages in which the source sent them, without an envelope
 * a row. They still are records in every other sense: each has an offset of its own, and whoever does not ask for blocks reads
 * the very envelopes that the encoder would have written (`rowBlockRecords`).
 *
 * Little-endian:
 *   u8 format (2) | u8 0 | u16 columns | u32 rows | u32 epoch | u32 ordinal of the first row (the others follow in steps of
 *   2) | u64 lsn | i64 commit time, µs since 1970 UTC | f64 reader's clock, ms | u32 shape version | u32 context bytes |
 *   context, JSON: {name, database, shape} | rows × DataRow
 * DataRow is PostgreSQL's message as it came (big-endian: 'D' | u32 length | u16 cells | cells × { i32 length, -1 = NULL |
 * text }); its first cell is the row's place in the heap and no column.
 *
 * Format 1 is read as before; it had the text column by column:
 *   … context | columns × u32 text bytes | columns × { rows × i32 length (-1 = NULL) | text }
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
import { CellKind } from './tuple.ts';

export const ROW_BLOCK_FORMAT = 2;
/** Between two rows of a snapshot: the place of an insert half stays free, as in every transaction. */
export const ORD_STEP = 2;
const HEAD_BYTES = 48;
/** Of a DataRow, before its body. */
export const ROW_HEAD_BYTES = 5;
/** Pieces smaller than this, on average, are put together before they are written. */
const PIECE_BYTES_MIN = 4096;
/** Below this a loop beats the call that copies. */
const COPY_BYTES_MIN = 48;

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
  /** Of messages, so far. */
  readonly bytes: number;
  /** `rows` DataRows, one behind the other in bytes[from .. to). */
  add(bytes: Buffer, from: number, to: number, rows: number): void;
  /** The block: its parts, one behind the other, of the very bytes that were added. The builder is empty again. */
  finish(head: RowBlockHead): readonly Buffer[];
}

export function createRowBlockBuilder(): RowBlockBuilder {
  let pieces: { readonly bytes: Buffer; readonly from: number; to: number }[] = [];
  let rows = 0;
  let size = 0;
  return {
    get rows() {
      return rows;
    },
    get bytes() {
      return size;
    },
    add(bytes, from, to, count) {
      const last = pieces.at(-1);
      if (last?.bytes === bytes && last.to === from) last.to = to;
      else pieces.push({ bytes, from, to });
      rows += count;
      size += to - from;
    },
    finish(head) {
      const context = contextBytes(head);
      const out = Buffer.allocUnsafe(HEAD_BYTES + context.length);
      writeHead(out, head, rows, context);
      const rest = pieces.map(({ bytes, from, to }) => bytes.subarray(from, to));
      // A server's rows come some hundred to a piece; where they do not, a call a piece would cost more than the copy.
      const scattered = size < pieces.length * PIECE_BYTES_MIN;
      pieces = [];
      rows = 0;
      size = 0;
      return scattered ? [out, Buffer.concat(rest)] : [out, ...rest];
    },
  };
}

function contextBytes({ shape, source }: RowBlockHead): Buffer {
  return Buffer.from(JSON.stringify({ name: source.name, database: source.database, shape }));
}

function writeHead(out: Buffer, head: RowBlockHead, rows: number, context: Buffer): void {
  out.writeUInt8(ROW_BLOCK_FORMAT, 0);
  out.writeUInt8(0, 1);
  out.writeUInt16LE(head.shape.columns.length, 2);
  out.writeUInt32LE(rows, 4);
  out.writeUInt32LE(head.epoch, 8);
  out.writeUInt32LE(head.firstOrd, 12);
  out.writeBigUInt64LE(head.lsn, 16);
  out.writeBigInt64LE(head.committedAtMicros, 24);
  out.writeDoubleLE(head.atMs, 32);
  out.writeUInt32LE(head.shape.version, 40);
  out.writeUInt32LE(context.length, 44);
  context.copy(out, HEAD_BYTES);
}

/** One column of a block: cell `row` is bytes[starts[row] .. starts[row] + lengths[row]), NULL where the length is -1. */
export interface BlockColumn {
  readonly bytes: Buffer;
  readonly lengths: Int32Array;
  readonly starts: Int32Array;
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

/** Memory for where the cells of a block stand, for one block after the other. */
export interface CellPlaces {
  readonly lengths: Int32Array[];
  readonly starts: Int32Array[];
}

/**
 * @param places taken for the block's columns, which hold only until the next block; without it they get memory of their own
 * @throws LogError LOG_FORMAT_NEWER
 */
export function openRowBlock(bytes: Buffer, places: CellPlaces = { lengths: [], starts: [] }): RowBlock {
  const format = bytes.readUInt8(0);
  if (format > ROW_BLOCK_FORMAT)
    throw new LogError(
      'LOG_FORMAT_NEWER',
      `a block of rows has format ${format}; this version reads up to ${ROW_BLOCK_FORMAT}: upgrade this process first`,
    );
  const count = bytes.readUInt16LE(2);
  const rows = bytes.readUInt32LE(4);
  const { shape, source } = contextOf(bytes);
  const from = HEAD_BYTES + bytes.readUInt32LE(44);
  return {
    rows,
    epoch: bytes.readUInt32LE(8),
    firstOrd: bytes.readUInt32LE(12),
    lsn: bytes.readBigUInt64LE(16) as Lsn,
    committedAtMicros: bytes.readBigInt64LE(24),
    atMs: bytes.readDoubleLE(32),
    shape,
    source,
    columns: format === 1 ? textColumns(bytes, from, count, rows) : rowColumns(bytes, from, count, rows, places),
  };
}

/** Where the cells of each column stand in the rows. */
function rowColumns(
  bytes: Buffer,
  from: number,
  count: number,
  rows: number,
  { lengths, starts }: CellPlaces,
): BlockColumn[] {
  for (let i = 0; i < count; i++) {
    if ((lengths[i]?.length ?? 0) >= rows) continue;
    lengths[i] = new Int32Array(rows);
    starts[i] = new Int32Array(rows);
  }
  for (let row = 0, at = from; row < rows; row++) {
    at += ROW_HEAD_BYTES + 2;
    at += 4 + int32At(bytes, at);
    for (let i = 0; i < count; i++) {
      const length = int32At(bytes, at);
      at += 4;
      (lengths[i] as Int32Array)[row] = length;
      (starts[i] as Int32Array)[row] = at;
      if (length > 0) at += length;
    }
  }
  return Array.from({ length: count }, (_, i) => ({
    bytes,
    lengths: lengths[i] as Int32Array,
    starts: starts[i] as Int32Array,
  }));
}

function int32At(bytes: Buffer, at: number): number {
  return (
    ((bytes[at] as number) << 24) |
    ((bytes[at + 1] as number) << 16) |
    ((bytes[at + 2] as number) << 8) |
    (bytes[at + 3] as number)
  );
}

/** Format 1. */
function textColumns(bytes: Buffer, from: number, count: number, rows: number): BlockColumn[] {
  let at = from + count * 4;
  return Array.from({ length: count }, (_, i) => {
    // Copied: the place in the file is aligned to nothing.
    const lengths = new Int32Array(rows);
    bytes.copy(new Uint8Array(lengths.buffer), 0, at, at + rows * 4);
    at += rows * 4;
    const starts = new Int32Array(rows);
    let start = at;
    for (let row = 0; row < rows; row++) {
      starts[row] = start;
      const length = lengths[row] as number;
      if (length > 0) start += length;
    }
    at += bytes.readUInt32LE(from + i * 4);
    return { bytes, lengths, starts };
  });
}

/** Bytes of the cells of rows from..to. */
export function cellBytes({ lengths }: BlockColumn, from: number, to: number): number {
  let bytes = 0;
  for (let row = from; row < to; row++) if ((lengths[row] as number) > 0) bytes += lengths[row] as number;
  return bytes;
}

/** Writes the cells of rows from..to one behind the other, which takes `cellBytes`; gives the column as it stands there. */
export function gatherCells(
  column: BlockColumn,
  from: number,
  to: number,
  { bytes: into, starts }: Pick<BlockColumn, 'bytes' | 'starts'>,
): BlockColumn {
  const { bytes, lengths } = column;
  let at = 0;
  for (let row = from; row < to; row++) {
    const length = lengths[row] as number;
    starts[row] = at;
    if (length <= 0) continue;
    const start = column.starts[row] as number;
    if (length < COPY_BYTES_MIN) for (let k = 0; k < length; k++) into[at + k] = bytes[start + k] as number;
    else bytes.copy(into, at, start, start + length);
    at += length;
  }
  return { bytes: into, lengths, starts };
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
