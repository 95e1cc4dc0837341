/**
 * Row changes to log records: key, Debezium envelope and `sluice` header, written straight from column text.
 *
 * A table's shape is compiled once (`compileShapeEncoder`); `encode` then appends one record to a chunk and returns three
 * slices of it. The slices stay valid for as long as they are held (a chunk is never written again); whoever keeps one of
 * them for long should copy it, since it keeps its whole chunk of `chunkBytes` alive.
 *
 * Envelope, one line, no schema part (field names: Debezium docs, "PostgreSQL connector, data change events"):
 *   {"before":…,"after":…,"source":{…},"op":"u","ts_ms":…,"transaction":{…},"unchanged":[…],"otherKey":{…}}
 */
import { ENVELOPE_FORMAT, RECORD_HEADER_BYTES, RecordFlags, type ColumnShape, type TableShape } from './event.ts';
import { createByteSink, reserve, writeBytes, writeNatural, type ByteSink } from './byte-sink.ts';
import { writeCell, writeNull } from './cell-encode.ts';
import type { CellReplacer } from './cell-privacy.ts';
import type { RowEvent } from './row-event.ts';
import { CellKind, type Tuple } from './tuple.ts';
import { wireFormOf, type WireForm } from './wire-kind.ts';

/** What every event of a pipeline has in common. */
export interface EnvelopeSource {
  /** The pipeline's name (`name` in sluice.yaml). */
  readonly name: string;
  readonly database: string;
}

export interface EncodedRecord {
  /** Null for truncate, and for tables without key columns. */
  readonly key: Buffer | null;
  readonly value: Buffer;
  readonly header: Buffer;
}

interface ColumnEncoder {
  /** `,"name":` */
  readonly prefix: Buffer;
  /** `,"name"` */
  readonly quotedName: Buffer;
  readonly form: WireForm;
  /** What stands in the log for a value; null = the value itself. */
  readonly replace: CellReplacer | null;
  /** The column is in no record. */
  readonly dropped: boolean;
}

/** A shape made ready for encoding. Holds the bytes of the last transaction's constant parts: use one a reader. */
export interface ShapeEncoder {
  readonly shape: TableShape;
  readonly columns: readonly ColumnEncoder[];
  /** Column indexes of the key, in key order. */
  readonly keyColumns: readonly number[];
  readonly isKey: Uint8Array;
  readonly source: EnvelopeSource;
  readonly cache: TransactionBytes;
}

/** The parts of an envelope that only change with the transaction. */
interface TransactionBytes {
  lsn: bigint;
  epoch: number;
  xid: number;
  committedAtMicros: bigint;
  snapshot: boolean;
  /** The record header with nothing but operation, flags and ordinal left out. */
  readonly header: Buffer;
  /** `,"source":{…,"ord":` */
  sourceHead: Buffer;
  /** `,"transaction":{"id":"…","total_order":` */
  transactionHead: Buffer;
}

export class EncodeError extends Error {
  readonly code = 'ENCODE_KEY_MISSING';
  constructor(message: string) {
    super(message);
    this.name = 'EncodeError';
  }
}

const EMPTY = Buffer.alloc(0);
const OPEN = 0x7b;
const CLOSE = 0x7d;
const OPEN_LIST = 0x5b;

const BEFORE = Buffer.from('{"before":');
const AFTER = Buffer.from(',"after":');
const OP = Buffer.from('},"op":"x","ts_ms":');
const OP_LETTER_AT = OP.indexOf('x');
const COLLECTION_ORDER = Buffer.from(',"data_collection_order":');
const NO_TRANSACTION = Buffer.from(',"transaction":null');
const UNCHANGED = Buffer.from(',"unchanged":');
const OTHER_KEY = Buffer.from(',"otherKey":');

/** Null for a column whose values go into the log as they are. @throws when a value must be replaced and cannot be */
export type ReplacerOf = (column: ColumnShape) => CellReplacer | null;

const nothingReplaced: ReplacerOf = ({ name, replaced }) => {
  if (replaced === undefined || replaced === 'drop') return null;
  throw new TypeError(`column ${name} is to be replaced, and the encoder was given nothing to do it with`);
};

export function compileShapeEncoder(
  shape: TableShape,
  source: EnvelopeSource,
  replacerOf: ReplacerOf = nothingReplaced,
): ShapeEncoder {
  const columns = shape.columns.map((column): ColumnEncoder => {
    const name = JSON.stringify(column.name);
    const prefix = Buffer.from(`,${name}:`);
    const replace = replacerOf(column);
    const dropped = column.replaced === 'drop';
    return { prefix, quotedName: Buffer.from(`,${name}`), form: wireFormOf(column), replace, dropped };
  });
  const keyColumns = shape.columns
    .map((column, index) => ({ index, position: column.keyPosition }))
    .filter((column) => column.position > 0)
    .sort((a, b) => a.position - b.position)
    .map((column) => column.index);
  const isKey = new Uint8Array(shape.columns.length);
  for (const index of keyColumns) isKey[index] = 1;
  const cache = {
    lsn: -1n,
    epoch: -1,
    xid: -1,
    committedAtMicros: -1n,
    snapshot: false,
    header: Buffer.alloc(RECORD_HEADER_BYTES),
    sourceHead: EMPTY,
    transactionHead: EMPTY,
  };
  return { shape, columns, keyColumns, isKey, source, cache };
}

export interface EnvelopeEncoder {
  /** @throws EncodeError when a key column's value was not sent; RangeError when text is not in the session's agreed form */
  encode(shape: ShapeEncoder, event: RowEvent): EncodedRecord;
  /** The record key of a row that carries all its key columns. @throws as `encode` */
  key(shape: ShapeEncoder, row: Tuple): Buffer;
}

export function createEnvelopeEncoder(options?: { readonly chunkBytes?: number }): EnvelopeEncoder {
  const sink = createByteSink(options?.chunkBytes ?? 256 * 1024);
  return {
    encode: (shape, event) => encodeRecord(sink, shape, event),
    key(shape, row) {
      sink.start = sink.at;
      writeKeyColumns(sink, shape, row, null);
      return sink.bytes.subarray(sink.start, sink.at);
    },
  };
}

function encodeRecord(sink: ByteSink, shape: ShapeEncoder, event: RowEvent): EncodedRecord {
  sink.start = sink.at;
  writeHeader(sink, shape, event);
  const keyed = event.op !== 't' && shape.keyColumns.length > 0;
  if (keyed) writeKey(sink, shape, event);
  const valueFrom = sink.at - sink.start;
  writeEnvelope(sink, shape, event);

  const { bytes, start } = sink;
  const headerEnd = start + RECORD_HEADER_BYTES;
  const valueAt = start + valueFrom;
  return {
    key: keyed ? bytes.subarray(headerEnd, valueAt) : null,
    value: bytes.subarray(valueAt, sink.at),
    header: bytes.subarray(start, headerEnd),
  };
}

/** Layout: event.ts, RECORD_HEADER. Only operation, flags and ordinal differ within a transaction. */
function writeHeader(sink: ByteSink, shape: ShapeEncoder, event: RowEvent): void {
  refreshTransaction(shape, event);
  reserve(sink, RECORD_HEADER_BYTES);
  const { bytes, at } = sink;
  const { header } = shape.cache;
  for (let i = 0; i < RECORD_HEADER_BYTES; i++) bytes[at + i] = header[i] as number;
  bytes[at + 1] = event.op.charCodeAt(0);
  bytes[at + 2] = event.otherKey === null ? event.flags : event.flags | RecordFlags.otherKey;
  const { ord } = event;
  bytes[at + 16] = ord >>> 24;
  bytes[at + 17] = ord >>> 16;
  bytes[at + 18] = ord >>> 8;
  bytes[at + 19] = ord;
  sink.at = at + RECORD_HEADER_BYTES;
}

function writeKey(sink: ByteSink, shape: ShapeEncoder, event: RowEvent): void {
  const tuple = event.after ?? event.before;
  if (tuple === null) throw new EncodeError(`${where(shape)}: a '${event.op}' event came without a key`);
  // A key column too wide for its page can come as unchanged TOAST; the old key then has it.
  writeKeyColumns(sink, shape, tuple, event.before);
}

function writeKeyColumns(sink: ByteSink, shape: ShapeEncoder, tuple: Tuple, fallback: Tuple | null): void {
  const from = sink.at - sink.start;
  for (const index of shape.keyColumns) {
    const held = tuple.kinds[index] === CellKind.unchanged ? fallback : tuple;
    if (held === null || held.kinds[index] === CellKind.unchanged) {
      throw new EncodeError(
        `${where(shape)}: the key column '${shape.shape.columns[index]?.name ?? index}' was not sent; ` +
          'set its storage to MAIN or PLAIN, or replica identity FULL',
      );
    }
    writeColumn(sink, shape, held, index);
  }
  closeObject(sink, from);
}

function writeEnvelope(sink: ByteSink, shape: ShapeEncoder, event: RowEvent): void {
  writeBytes(sink, BEFORE);
  writeBefore(sink, shape, event);
  writeBytes(sink, AFTER);
  const unchanged = event.after === null ? writeNullValue(sink) : writeAfter(sink, shape, event, event.after);

  const { cache } = shape;
  writeBytes(sink, cache.sourceHead);
  writeNatural(sink, event.ord);
  writeBytes(sink, OP);
  sink.bytes[sink.at - OP.length + OP_LETTER_AT] = event.op.charCodeAt(0);
  writeNatural(sink, event.atMs);
  if (event.totalOrder > 0) {
    writeBytes(sink, cache.transactionHead);
    writeNatural(sink, event.totalOrder);
    writeBytes(sink, COLLECTION_ORDER);
    writeNatural(sink, event.collectionOrder);
    writeByte(sink, CLOSE);
  } else writeBytes(sink, NO_TRANSACTION);
  if (unchanged > 0 && event.after !== null) writeUnchanged(sink, shape, event, event.after);
  if (event.otherKey !== null) {
    writeBytes(sink, OTHER_KEY);
    writeKeyColumns(sink, shape, event.otherKey, null);
  }
  writeByte(sink, CLOSE);
}

/** The old row under replica identity FULL, otherwise the key columns; null for inserts, snapshot rows and truncates. */
function writeBefore(sink: ByteSink, shape: ShapeEncoder, event: RowEvent): void {
  if (event.op !== 'u' && event.op !== 'd') {
    writeNullValue(sink);
    return;
  }
  const { before } = event;
  if (before === null || event.beforeIs === 'key') {
    const tuple = before ?? event.after;
    if (tuple === null || shape.keyColumns.length === 0) writeNullValue(sink);
    else writeKeyColumns(sink, shape, tuple, before);
    return;
  }
  const from = sink.at - sink.start;
  for (let index = 0; index < shape.columns.length; index++) {
    if (before.kinds[index] !== CellKind.unchanged) writeColumn(sink, shape, before, index);
  }
  closeObject(sink, from);
}

/** Returns how many columns are left out as unchanged. */
function writeAfter(sink: ByteSink, shape: ShapeEncoder, event: RowEvent, after: Tuple): number {
  const from = sink.at - sink.start;
  let unchanged = 0;
  for (let index = 0; index < shape.columns.length; index++) {
    if (after.kinds[index] !== CellKind.unchanged) writeColumn(sink, shape, after, index);
    else if (oldHolds(shape, event, index)) writeColumn(sink, shape, event.before as Tuple, index);
    else if (!(shape.columns[index] as ColumnEncoder).dropped) unchanged++;
  }
  closeObject(sink, from);
  return unchanged;
}

/** Replica identity FULL sends the old row with its TOAST values, so an unchanged column is known after all. */
function oldHolds(shape: ShapeEncoder, event: RowEvent, index: number): boolean {
  const { before } = event;
  if (before === null || before.kinds[index] === CellKind.unchanged) return false;
  return event.beforeIs === 'row' || shape.isKey[index] === 1;
}

function writeUnchanged(sink: ByteSink, shape: ShapeEncoder, event: RowEvent, after: Tuple): void {
  writeBytes(sink, UNCHANGED);
  const from = sink.at - sink.start;
  for (let index = 0; index < shape.columns.length; index++) {
    if (after.kinds[index] !== CellKind.unchanged || oldHolds(shape, event, index)) continue;
    const { quotedName, dropped } = shape.columns[index] as ColumnEncoder;
    if (!dropped) writeBytes(sink, quotedName);
  }
  sink.bytes[sink.start + from] = OPEN_LIST; // the first comma's place
  writeByte(sink, 0x5d);
}

function writeColumn(sink: ByteSink, shape: ShapeEncoder, tuple: Tuple, index: number): void {
  const column = shape.columns[index] as ColumnEncoder;
  if (column.dropped) return;
  writeBytes(sink, column.prefix);
  if (tuple.kinds[index] !== CellKind.text) {
    writeNullValue(sink);
    return;
  }
  const start = tuple.starts[index] as number;
  const end = tuple.ends[index] as number;
  if (column.replace === null) writeCell(sink, column.form, tuple.bytes, start, end);
  else writeBytes(sink, column.replace(tuple.bytes, start, end));
}

/** Every member was written with a comma before it: the first comma becomes the opening brace. */
function closeObject(sink: ByteSink, from: number): void {
  reserve(sink, 2);
  if (sink.at - sink.start === from) sink.at++;
  sink.bytes[sink.start + from] = OPEN;
  sink.bytes[sink.at++] = CLOSE;
}

function writeByte(sink: ByteSink, byte: number): void {
  reserve(sink, 1);
  sink.bytes[sink.at++] = byte;
}

function writeNullValue(sink: ByteSink): 0 {
  reserve(sink, 4);
  writeNull(sink);
  return 0;
}

function refreshTransaction(shape: ShapeEncoder, event: RowEvent): void {
  const { cache, source } = shape;
  const snapshot = event.op === 'r';
  if (
    cache.lsn === event.lsn &&
    cache.xid === event.xid &&
    cache.epoch === event.epoch &&
    cache.committedAtMicros === event.committedAtMicros &&
    cache.snapshot === snapshot
  ) {
    return;
  }
  cache.lsn = event.lsn;
  cache.xid = event.xid;
  cache.epoch = event.epoch;
  cache.committedAtMicros = event.committedAtMicros;
  cache.snapshot = snapshot;
  const { header } = cache;
  header.writeUInt8(ENVELOPE_FORMAT, 0);
  header.writeUInt32BE(event.epoch, 4);
  header.writeBigUInt64BE(event.lsn, 8);
  header.writeUInt32BE(shape.shape.version, 20);
  header.writeBigInt64BE(event.committedAtMicros, 24);
  const { schema, table } = shape.shape;
  cache.sourceHead = Buffer.from(
    `,"source":{"version":"${ENVELOPE_FORMAT}","connector":"postgresql","name":${JSON.stringify(source.name)}` +
      `,"ts_ms":${event.committedAtMicros / 1000n},"snapshot":"${snapshot}","db":${JSON.stringify(source.database)}` +
      `,"sequence":"[\\"${event.lsn}\\",\\"${event.lsn}\\"]","schema":${JSON.stringify(schema)}` +
      `,"table":${JSON.stringify(table)},"txId":${event.xid},"lsn":${event.lsn},"epoch":${event.epoch},"ord":`,
  );
  cache.transactionHead = Buffer.from(`,"transaction":{"id":"${event.xid}:${event.lsn}","total_order":`);
}

function where(shape: ShapeEncoder): string {
  return `table ${shape.shape.schema}.${shape.shape.table}`;
}
