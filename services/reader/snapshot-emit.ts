/**
 * A chunk's rows to records, at its high mark: each as it is, not at all, or as a fill row, as the key recorder says. Their
 * position is the high mark's LSN with ordinals 0, 2, 4 …, so that what the stream brings later is newer. Where the log takes
 * them, rows that go as they are go as the server sent them, in blocks (services/log/row-block.ts).
 */
import type { createEnvelopeEncoder, ShapeEncoder } from '../log/envelope-encode.ts';
import { rowEventAt } from '../log/row-event.ts';
import { RecordFlags } from '../log/event.ts';
import type { Lsn } from '../log/position.ts';
import { CellKind, type Tuple } from '../log/tuple.ts';
import type { FillRow, KeyRecorder, RowFate } from './key-recorder.ts';
import { createRowBlockBuilder, ORD_STEP, ROW_HEAD_BYTES } from '../log/row-block.ts';
import { addRecord, addRowBlock, type ClaimStore, type OutgoingBatch } from './outgoing-batch.ts';
import type { MutableTuple } from './pgoutput/read-tuple.ts';
import { forEachRow, type RowPiece } from './row-pieces.ts';
import { createChunkTuple, fillTuple, firstCell, type ChunkRows } from './snapshot-read.ts';

export interface EmitOptions {
  readonly encoder: ReturnType<typeof createEnvelopeEncoder>;
  readonly shape: ShapeEncoder;
  readonly topic: string;
  readonly epoch: number;
  readonly claims: ClaimStore;
  readonly batch: OutgoingBatch;
  readonly at: { readonly lsn: Lsn; readonly committedAtMicros: bigint };
  readonly atMs: number;
  /** Null when no event of the table was recorded. */
  readonly recorder: KeyRecorder | null;
  /** The log takes blocks of rows, and the topic has one partition. */
  readonly rowBlocks: boolean;
  /** Columns that were read, beside the key: every row is a fill row of them. Absent = all. */
  readonly taken?: readonly number[];
}

export interface EmittedChunk {
  readonly rows: number;
  readonly fills: number;
  readonly skipped: number;
  /** Deletes of keys that no row of the source has. */
  readonly removed: number;
  /** Last ordinal used; 0 when nothing was written. */
  readonly lastOrd: number;
}

/** Rows of a block, at most: what a reader of the log holds of it at a time. */
const BLOCK_BYTES_MAX = 2 * 1024 * 1024;
/** JSON can be six times as long as its text, and has names: a row above this share of the record limit goes by itself. */
const ROW_SHARE = 16;

export function emitChunk(chunk: ChunkRows, options: EmitOptions): EmittedChunk {
  const { encoder, shape, recorder, batch, claims, epoch, topic } = options;
  const { lsn } = options.at;
  const columns = shape.columns.length;
  const tuple = createChunkTuple(columns);
  const event = rowEventAt('r', { ...options.at, epoch, atMs: options.atMs });
  event.after = tuple;
  const recording = recorder !== null && !recorder.isEmpty && shape.keyColumns.length > 0;
  const { taken } = options;
  const blocks = options.rowBlocks && taken === undefined && takesBlocks(shape) ? createBlockWriter(options) : null;
  const rowBytesMax = Math.floor(claims.recordBytesMax / ROW_SHARE);
  let rows = 0;
  let fills = 0;
  let skipped = 0;
  let removed = 0;
  let ord = 0;
  const emitRow = (bytes: Buffer, start: number, end: number): void => {
    fillTuple(tuple, bytes, start, columns);
    const told = recording ? recorder.fate(encoder.key(shape, tuple).toString('latin1'), chunk.snapshot) : 'emit';
    const fate = taken === undefined ? told : fillOf(told, taken);
    if (fate === 'skip') {
      skipped++;
      return;
    }
    if (blocks !== null && fate === 'emit' && end - start <= rowBytesMax) {
      blocks.add({ bytes, from: start - ROW_HEAD_BYTES, to: end, rows: 1 }, ord);
    } else {
      blocks?.flush();
      event.after = fate === 'emit' ? tuple : fillTupleOf(shape, tuple, fate);
      event.flags = fate === 'emit' ? 0 : RecordFlags.fill;
      event.ord = ord;
      if (fate !== 'emit') fills++;
      addRecord(batch, encoder.encode(shape, event), { topic, partition: null, epoch, lsn, ord }, claims);
    }
    rows++;
    ord += ORD_STEP;
  };
  if (blocks === null || recording || chunk.rows.widest > rowBytesMax) forEachRow(chunk.rows, emitRow);
  else {
    for (const piece of chunk.rows.pieces) {
      // All rows answer one query, so the first has what all have.
      firstCell(piece.bytes, piece.from + ROW_HEAD_BYTES, columns);
      blocks.add(piece, ord);
      rows += piece.rows;
      ord += piece.rows * ORD_STEP;
    }
  }
  blocks?.flush();
  event.op = 'd';
  event.flags = 0;
  event.after = null;
  event.before = tuple;
  forEachRow(chunk.absent, (bytes, start) => {
    fillTuple(tuple, bytes, start, columns);
    event.ord = ord;
    const encoded = encoder.encode(shape, event);
    // What a transaction behind the snapshot did to the key is in the log already, and is what holds.
    if (recorder !== null && !recorder.isEmpty && encoded.key !== null) {
      if (recorder.fate(encoded.key.toString('latin1'), chunk.snapshot) !== 'emit') {
        skipped++;
        return;
      }
    }
    addRecord(batch, encoded, { topic, partition: null, epoch, lsn, ord }, claims);
    removed++;
    ord += ORD_STEP;
  });
  return { rows, fills, skipped, removed, lastOrd: Math.max(0, ord - ORD_STEP) };
}

/** Of a row that was read in part: what no newer event carries of it. */
function fillOf(fate: RowFate, taken: readonly number[]): RowFate {
  if (fate === 'skip') return 'skip';
  if (fate === 'emit') return { columns: taken, keyCells: null };
  const columns = fate.columns.filter((column) => taken.includes(column));
  return columns.length === 0 ? 'skip' : { ...fate, columns };
}

/** Without a key the rows of a block could not be told apart; what is replaced before the log is replaced by the encoder. */
function takesBlocks(shape: ShapeEncoder): boolean {
  return shape.keyColumns.length > 0 && shape.shape.columns.every(({ replaced }) => replaced === undefined);
}

interface BlockWriter {
  /** Rows of which the first has the ordinal. A block that would grow too large is written before. */
  add(piece: RowPiece, ord: number): void;
  flush(): void;
}

function createBlockWriter(options: EmitOptions): BlockWriter {
  const { shape, batch, topic, epoch, atMs, claims } = options;
  const { lsn, committedAtMicros } = options.at;
  const builder = createRowBlockBuilder();
  const bytesMax = Math.min(BLOCK_BYTES_MAX, claims.recordBytesMax >> 1);
  let firstOrd = 0;
  const flush = (): void => {
    const { rows } = builder;
    if (rows === 0) return;
    const head = { shape: shape.shape, source: shape.source, epoch, lsn, firstOrd, committedAtMicros, atMs };
    addRowBlock(batch, topic, builder.finish(head), rows);
  };
  return {
    add({ bytes, from, to, rows }, ord) {
      if (builder.bytes + to - from > bytesMax) flush();
      if (builder.rows === 0) firstOrd = ord;
      builder.add(bytes, from, to, rows);
    },
    flush,
  };
}

/** A TRUNCATE event in every partition, at a watermark's place: what is older goes. */
export function emitClear(options: Omit<EmitOptions, 'recorder' | 'rowBlocks'>, partitions: number): void {
  const { encoder, shape, batch, claims, epoch, topic, atMs } = options;
  const { lsn } = options.at;
  const event = rowEventAt('t', { ...options.at, epoch, atMs });
  for (let partition = 0; partition < partitions; partition++) {
    addRecord(batch, encoder.encode(shape, event), { topic, partition, epoch, lsn, ord: 0 }, claims);
  }
}

/** The key that the row has now, the columns that no event carried, and every other column left out. */
function fillTupleOf(shape: ShapeEncoder, row: MutableTuple, fill: FillRow): Tuple {
  const columns = shape.columns.length;
  const out = createChunkTuple(columns);
  const moved = fill.keyCells;
  // Cells are ranges of one buffer: a moved key is joined to the row's bytes.
  out.bytes = moved === null ? row.bytes : Buffer.concat([row.bytes, ...moved]);
  let keyAt = row.bytes.length;
  for (let i = 0; i < columns; i++) {
    const place = shape.keyColumns.indexOf(i);
    if (moved !== null && place >= 0) continue;
    const taken = place >= 0 || fill.columns.includes(i);
    out.kinds[i] = taken ? (row.kinds[i] as number) : CellKind.unchanged;
    out.starts[i] = row.starts[i] as number;
    out.ends[i] = row.ends[i] as number;
  }
  if (moved !== null) {
    for (const [place, cell] of moved.entries()) {
      const index = shape.keyColumns[place] as number;
      out.kinds[index] = CellKind.text;
      out.starts[index] = keyAt;
      keyAt += cell.length;
      out.ends[index] = keyAt;
    }
  }
  return out;
}
