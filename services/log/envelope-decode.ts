/**
 * Log records to changes: the envelope's bytes are walked once, straight into a reused row of cells; JSON.parse is not used
 * (it is slower and loses int64). With a `sluice` header, position and operation come from it and `source` is skipped.
 *
 * Resolve claims first (`claim-check.ts`): the value given here is the envelope itself.
 */
import type { GateRow } from '../../contracts/engine/gate.ts';
import { DecodeError, type RecordPlace } from './decode-error.ts';
import { ENVELOPE_FORMAT, RECORD_HEADER_BYTES, RecordFlags, type EventOp, type TableShape } from './event.ts';
import type { Lsn } from './position.ts';
import {
  asciiFrom,
  CLOSE_OBJECT,
  createJsonCursor,
  eat,
  enter,
  JsonError,
  more,
  OPEN_OBJECT,
  openCursor,
  passNumber,
  peek,
  readLiteral,
  readName,
  readString,
  skipSpace,
  skipValue,
  type JsonCursor,
} from './json-cursor.ts';
import { clearCells, createRowCells, readCells, rowColumnsOf, type RowCells } from './row-cells.ts';

/** `m` is Debezium's logical message, `tombstone` a record with a key and no value; both carry no row to apply. */
export type DecodedOp = EventOp | 'm' | 'tombstone';

/** One decoded record. The object and its rows are reused: read what is needed before the next call. */
export interface DecodedEvent {
  op: DecodedOp;
  /** RecordFlags. */
  flags: number;
  epoch: number;
  lsn: Lsn;
  ord: number;
  /** 0 when the record had no header. */
  shapeVersion: number;
  /** Commit time at the source, µs since 1970 UTC. */
  committedAtMicros: bigint;
  /**
   * c, u, r: the new row, undefined = unchanged or left out. d: the old row, or just its key columns.
   * tombstone: the key columns, from the record's key. t, m: all absent.
   */
  row: GateRow;
  /** Columns of the shape that `row` does not carry. */
  absent: number;
  /** Columns in `row` that the shape does not know. */
  unknown: number;
  /** On the halves of a key change: the other half's key columns. */
  otherKey: GateRow | null;
  /** Columns whose values were replaced before the log. */
  readonly replaced: ReadonlySet<string>;
}

/** A table's shape made ready for decoding, with the objects that decoding reuses. One a table and shape version. */
export interface EnvelopeDecoder {
  readonly shape: TableShape;
  readonly keyed: boolean;
  readonly cells: RowCells;
  readonly otherCells: RowCells;
  readonly cursor: JsonCursor;
  readonly event: DecodedEvent;
}

export function createEnvelopeDecoder(shape: TableShape): EnvelopeDecoder {
  const columns = rowColumnsOf(shape);
  const cells = createRowCells(columns);
  return {
    shape,
    keyed: shape.columns.some((column) => column.keyPosition > 0),
    cells,
    otherCells: createRowCells(columns),
    cursor: createJsonCursor(),
    event: {
      op: 'c',
      flags: 0,
      epoch: 0,
      lsn: 0n as Lsn,
      ord: 0,
      shapeVersion: 0,
      committedAtMicros: 0n,
      row: cells.row,
      absent: 0,
      unknown: 0,
      otherKey: null,
      replaced: new Set(shape.columns.flatMap(({ name, replaced }) => (replaced === undefined ? [] : [name]))),
    },
  };
}

/**
 * Decodes one record into the decoder's reused event.
 * @throws DecodeError with the record's place and no data
 */
export function decodeRecord(
  decoder: EnvelopeDecoder,
  key: Buffer | null,
  value: Buffer | null,
  header: Buffer | null,
  place: RecordPlace,
): DecodedEvent {
  const { event } = decoder;
  try {
    event.otherKey = null;
    if (header === null) clearPosition(event);
    else readHeader(event, header, place);
    if (value === null) decodeTombstone(decoder, key, place);
    else {
      openCursor(decoder.cursor, value);
      if (header === null) decodeWhole(decoder, place);
      else decodeBehindHeader(decoder, place);
      if (key === null && decoder.keyed && event.op !== 't' && event.op !== 'm') throw nullKey(place);
    }
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw malformed(error, value ?? key, place);
  }
  event.row = decoder.cells.row;
  event.absent = decoder.cells.absent;
  event.unknown = decoder.cells.unknown;
  return event;
}

/** The shape version that a record's header names; 0 without a header. */
export function shapeVersionOf(header: Buffer | null): number {
  return header === null || header.length < RECORD_HEADER_BYTES ? 0 : header.readUInt32BE(20);
}

export function nullKey(place: RecordPlace): DecodeError {
  return new DecodeError('DECODE_NULL_KEY', place, 'the record has no key, although its table has one');
}

export function notEnvelope(place: RecordPlace, what: string): DecodeError {
  return new DecodeError('DECODE_NOT_ENVELOPE', place, `not a change envelope: ${what}`);
}

export function clearPosition(event: DecodedEvent): void {
  event.flags = 0;
  event.epoch = 0;
  event.lsn = 0n as Lsn;
  event.ord = 0;
  event.shapeVersion = 0;
  event.committedAtMicros = 0n;
}

/** Layout: event.ts, RECORD_HEADER. */
function readHeader(event: DecodedEvent, header: Buffer, place: RecordPlace): void {
  const format = header.length === 0 ? 0 : (header[0] as number);
  if (format > ENVELOPE_FORMAT) {
    throw new DecodeError(
      'DECODE_FORMAT_NEWER',
      place,
      `the record has format ${format}, this version reads up to ${ENVELOPE_FORMAT}; upgrade the stream before the reader`,
    );
  }
  const op = opOf(header[1] ?? 0);
  if (format === 0 || header.length < RECORD_HEADER_BYTES || op === null) {
    throw notEnvelope(place, `its sluice header of ${header.length} bytes is none of ours`);
  }
  event.op = op;
  event.flags = header[2] as number;
  event.epoch = header.readUInt32BE(4);
  event.lsn = header.readBigUInt64BE(8) as Lsn;
  event.ord = header.readUInt32BE(16);
  event.shapeVersion = header.readUInt32BE(20);
  event.committedAtMicros = header.readBigInt64BE(24);
}

export function opOf(letter: number): Exclude<DecodedOp, 'tombstone'> | null {
  switch (letter) {
    case 0x63:
      return 'c';
    case 0x75:
      return 'u';
    case 0x64:
      return 'd';
    case 0x72:
      return 'r';
    case 0x74:
      return 't';
    case 0x6d:
      return 'm';
    default:
      return null;
  }
}

function decodeTombstone(decoder: EnvelopeDecoder, key: Buffer | null, place: RecordPlace): void {
  if (key === null) throw nullKey(place);
  decoder.event.op = 'tombstone';
  openCursor(decoder.cursor, key);
  readCells(decoder.cursor, decoder.cells);
}

const BEFORE = Buffer.from('{"before":');
const AFTER = Buffer.from(',"after":');

/** Our own envelope: order known, position in the header. Whatever stands after the row is only looked at when needed. */
function decodeBehindHeader(decoder: EnvelopeDecoder, place: RecordPlace): void {
  const { cursor, cells, event } = decoder;
  if (!eat(cursor, BEFORE)) {
    decodeMembers(decoder, place, false);
    return;
  }
  if (event.op === 'd') readCells(cursor, cells);
  else skipValue(cursor);
  if (!eat(cursor, AFTER)) throw notEnvelope(place, "'after' does not follow 'before'");
  if (event.op === 't' || event.op === 'm') clearCells(cells);
  else if (event.op === 'd') skipValue(cursor);
  else readCells(cursor, cells);
  if (cursor.bytes[cursor.end - 1] !== CLOSE_OBJECT) throw new JsonError('the envelope has no end', cursor.end);
  if ((event.flags & RecordFlags.otherKey) === 0) return;
  while (more(cursor, CLOSE_OBJECT)) {
    if (readName(cursor) === 'otherKey') readOtherKey(decoder);
    else skipValue(cursor);
  }
}

/** An envelope without a header: members in any order, position from `source`. */
function decodeWhole(decoder: EnvelopeDecoder, place: RecordPlace): void {
  decodeMembers(decoder, place, true);
}

function decodeMembers(decoder: EnvelopeDecoder, place: RecordPlace, positionInSource: boolean): void {
  const { cursor, cells, event } = decoder;
  let beforeAt = -1;
  let afterAt = -1;
  let op: DecodedOp | null = positionInSource ? null : event.op;
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      const name = readName(cursor);
      const byte = peek(cursor);
      if (name === 'before' && byte === OPEN_OBJECT) beforeAt = cursor.at;
      else if (name === 'after' && byte === OPEN_OBJECT) afterAt = cursor.at;
      if (name === 'op' && byte === 0x22 && positionInSource) {
        const letter = readString(cursor);
        op = letter.length === 1 ? opOf(letter.charCodeAt(0)) : null;
      } else if (name === 'source' && byte === OPEN_OBJECT && positionInSource) readSource(cursor, event);
      else if (name === 'otherKey' && byte === OPEN_OBJECT) readOtherKey(decoder);
      else skipValue(cursor);
    } while (more(cursor, CLOSE_OBJECT));
  }
  skipSpace(cursor);
  if (cursor.at !== cursor.end) throw new JsonError('more follows after the envelope', cursor.at);
  if (op === null) throw notEnvelope(place, "it has no 'op' among c, u, d, r, t, m");
  event.op = op;
  if (op === 't' || op === 'm') {
    clearCells(cells);
    return;
  }
  cursor.at = op === 'd' ? beforeAt : afterAt;
  if (cursor.at < 0) throw notEnvelope(place, `op '${op}' without '${op === 'd' ? 'before' : 'after'}'`);
  readCells(cursor, cells);
}

/** JSON of another shape, or no JSON at all: told apart here, where time does not matter. */
export function malformed(error: JsonError, bytes: Buffer | null, place: RecordPlace): DecodeError {
  const found = `${error.message} at byte ${error.at}`;
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes ?? Buffer.alloc(0)));
  } catch {
    // The parser's own message quotes the text, so it is not passed on.
    return new DecodeError('DECODE_NOT_JSON', place, `not JSON: ${found}`, { cause: error });
  }
  return new DecodeError('DECODE_NOT_ENVELOPE', place, `not a change envelope: ${found}`, { cause: error });
}

function readOtherKey(decoder: EnvelopeDecoder): void {
  readCells(decoder.cursor, decoder.otherCells);
  decoder.event.otherKey = decoder.otherCells.row;
}

/** Position fields of `source`, where no header has them. */
export function readSource(cursor: JsonCursor, event: DecodedEvent): void {
  if (!enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) return;
  do {
    const name = readName(cursor);
    switch (name) {
      case 'lsn':
        event.lsn = BigInt.asUintN(64, readWhole(cursor)) as Lsn;
        break;
      case 'epoch':
        event.epoch = Number(readWhole(cursor));
        break;
      case 'ord':
        event.ord = Number(readWhole(cursor));
        break;
      case 'ts_ms':
        if (event.committedAtMicros === 0n) event.committedAtMicros = readWhole(cursor) * 1000n;
        else skipValue(cursor);
        break;
      case 'ts_us':
        // Debezium from 2.7 on: the same instant, finer.
        event.committedAtMicros = readWhole(cursor);
        break;
      default:
        skipValue(cursor);
    }
  } while (more(cursor, CLOSE_OBJECT));
}

function readWhole(cursor: JsonCursor): bigint {
  const byte = peek(cursor);
  if (byte !== 0x2d && (byte < 0x30 || byte > 0x39)) {
    if (readLiteral(cursor) === null) return 0n;
    throw new JsonError('expected a whole number', cursor.at);
  }
  const start = cursor.at;
  if (!passNumber(cursor)) throw new JsonError('expected a whole number', start);
  return BigInt(asciiFrom(cursor, start));
}
