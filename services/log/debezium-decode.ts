/**
 * Records of topics that Debezium's PostgreSQL connector wrote (JSON, with or without the inlined schema) to the same events
 * as our own envelope's. Position is (source.lsn, offset): such topics have no marks, and several rows may share an LSN.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Cell } from '../../contracts/engine/gate.ts';
import {
  debeziumColumn,
  DEBEZIUM_DEFAULTS,
  readDebeziumCell,
  type ConnectField,
  type DebeziumColumn,
  type DebeziumModes,
} from './debezium-cell.ts';
import type { RecordPlace } from './decode-error.ts';
import {
  clearPosition,
  createEnvelopeDecoder,
  malformed,
  notEnvelope,
  nullKey,
  opOf,
  readSource,
  type DecodedEvent,
  type DecodedOp,
  type EnvelopeDecoder,
} from './envelope-decode.ts';
import type { TableShape } from './event.ts';
import {
  CLOSE_OBJECT,
  enter,
  JsonError,
  more,
  OPEN_OBJECT,
  openCursor,
  peek,
  rawValue,
  readLiteral,
  readName,
  readString,
  skipSpace,
  skipValue,
  type JsonCursor,
} from './json-cursor.ts';
import { clearCells, readCellsBy } from './row-cells.ts';

export interface DebeziumDecoder {
  readonly base: EnvelopeDecoder;
  readonly columns: readonly DebeziumColumn[];
  readonly modes: DebeziumModes;
  readonly placeholders: Placeholders;
  /** Schemas of the last value and the last key: the same text means the same fields. */
  readonly valueSchema: SchemaCache;
  readonly keySchema: SchemaCache;
}

interface SchemaCache {
  text: string;
  fields: readonly (ConnectField | undefined)[];
}

interface Placeholders {
  readonly texts: ReadonlySet<string>;
  readonly arrays: readonly (readonly Cell[])[];
}

/** Rows of one lsn are ordered by offset; the ordinal has 31 bits. */
const ORDINAL_MASK = 0x7fff_ffffn;

export function createDebeziumDecoder(shape: TableShape, modes: Partial<DebeziumModes> = {}): DebeziumDecoder {
  const all = { ...DEBEZIUM_DEFAULTS, ...modes };
  return {
    base: createEnvelopeDecoder(shape),
    columns: shape.columns.map(debeziumColumn),
    modes: all,
    placeholders: placeholdersOf(all.placeholder),
    valueSchema: { text: '', fields: [] },
    keySchema: { text: '', fields: [] },
  };
}

/** Every form in which the connector writes its placeholder: text, bytes, hstore, and arrays of text, bytes and numbers. */
function placeholdersOf(placeholder: string): Placeholders {
  const bytes = Buffer.from(placeholder);
  const base64 = bytes.toString('base64');
  const texts = new Set([
    placeholder,
    base64,
    bytes.toString('base64url'),
    bytes.toString('hex'),
    JSON.stringify({ [placeholder]: placeholder }),
  ]);
  return { texts, arrays: [[placeholder], [base64], [...bytes]] };
}

/** @throws DecodeError with the record's place and no data */
export function decodeDebeziumRecord(
  decoder: DebeziumDecoder,
  key: Buffer | null,
  value: Buffer | null,
  place: RecordPlace,
): DecodedEvent {
  const { base } = decoder;
  const { event, cells, cursor } = base;
  event.otherKey = null;
  clearPosition(event);
  event.epoch = 1;
  try {
    if (value === null || !decodeEnvelope(decoder, key, value, place)) decodeTombstone(decoder, key, place);
    else if (key === null && base.keyed && event.op !== 't' && event.op !== 'm') throw nullKey(place);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw malformed(error, cursor.bytes, place);
  }
  event.ord = Number(place.offset & ORDINAL_MASK);
  event.row = cells.row;
  event.absent = cells.absent;
  event.unknown = cells.unknown;
  return event;
}

/** False when the payload is null, which is a tombstone, too. */
function decodeEnvelope(decoder: DebeziumDecoder, key: Buffer | null, value: Buffer, place: RecordPlace): boolean {
  const { base } = decoder;
  const { cursor, event, cells } = base;
  openCursor(cursor, value);
  if (!openPayload(cursor, decoder.valueSchema, base.cells.columns.names, 'after')) return false;
  let op: DecodedOp | null = null;
  let beforeAt = -1;
  let afterAt = -1;
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      const name = readName(cursor);
      const isObject = peek(cursor) === OPEN_OBJECT;
      if (name === 'before' && isObject) beforeAt = cursor.at;
      if (name === 'after' && isObject) afterAt = cursor.at;
      if (name === 'op' && peek(cursor) === 0x22) {
        const letter = readString(cursor);
        op = letter.length === 1 ? opOf(letter.charCodeAt(0)) : null;
      } else if (name === 'source' && isObject) readSource(cursor, event);
      else skipValue(cursor);
    } while (more(cursor, CLOSE_OBJECT));
  }
  if (op === null) throw notEnvelope(place, "it has no 'op' among c, u, d, r, t, m");
  event.op = op;
  if (op === 't' || op === 'm') {
    clearCells(cells);
    return true;
  }
  if (op === 'd' && beforeAt < 0 && key !== null && base.keyed) {
    readKey(decoder, key, place);
    return true;
  }
  cursor.at = op === 'd' ? beforeAt : afterAt;
  if (cursor.at < 0) throw notEnvelope(place, `op '${op}' without '${op === 'd' ? 'before' : 'after'}'`);
  readRow(decoder, decoder.valueSchema.fields, op === 'u');
  // Without replica identity FULL, `before` of a delete holds NULL for every column that is not of the key.
  if (op === 'd') keepKeyOnly(decoder);
  return true;
}

function readRow(decoder: DebeziumDecoder, fields: SchemaCache['fields'], update: boolean): void {
  const { base, columns, modes } = decoder;
  readCellsBy(base.cursor, base.cells, (cursor, index) => {
    const column = columns[index] as DebeziumColumn;
    // The placeholder is looked for before a value is converted, and only where PostgreSQL can have left one out.
    if (update && column.toastable && isPlaceholder(decoder, cursor)) return undefined;
    return readDebeziumCell(cursor, column, fields[index], modes);
  });
}

/** Reads past the value when it is the placeholder, and stays before it otherwise. */
function isPlaceholder(decoder: DebeziumDecoder, cursor: JsonCursor): boolean {
  const { texts, arrays } = decoder.placeholders;
  const byte = peek(cursor);
  const start = cursor.at;
  if (byte === 0x22) {
    if (texts.has(readString(cursor))) return true;
  } else if (byte === 0x5b || byte === OPEN_OBJECT) {
    const length = decoder.modes.placeholder.length * 8 + 64;
    const text = rawValue(cursor);
    if (text.length <= length && holdsPlaceholder(text, texts, arrays)) return true;
  }
  cursor.at = start;
  return false;
}

/** An array of the placeholder, an hstore map of it, or a decimal whose unscaled bytes are it. */
function holdsPlaceholder(text: string, texts: ReadonlySet<string>, arrays: Placeholders['arrays']): boolean {
  const value = JSON.parse(text) as unknown;
  if (Array.isArray(value)) return arrays.some((array) => isDeepStrictEqual(array, value));
  if (texts.has(JSON.stringify(value))) return true;
  const inner = (value as Readonly<Record<string, unknown>>)['value'];
  return typeof inner === 'string' && texts.has(inner);
}

function keepKeyOnly(decoder: DebeziumDecoder): void {
  const { cells, shape, keyed } = decoder.base;
  if (!keyed) return;
  const isFull = shape.columns.some((column) => column.keyPosition === 0 && cells.row[column.name] != null);
  if (isFull) return;
  for (const column of shape.columns) {
    if (column.keyPosition > 0 || cells.row[column.name] === undefined) continue;
    cells.row[column.name] = undefined;
    cells.absent++;
  }
}

function decodeTombstone(decoder: DebeziumDecoder, key: Buffer | null, place: RecordPlace): void {
  if (key === null) throw nullKey(place);
  decoder.base.event.op = 'tombstone';
  readKey(decoder, key, place);
}

function readKey(decoder: DebeziumDecoder, key: Buffer, place: RecordPlace): void {
  const { base } = decoder;
  openCursor(base.cursor, key);
  if (!openPayload(base.cursor, decoder.keySchema, base.cells.columns.names, null)) throw nullKey(place);
  readRow(decoder, decoder.keySchema.fields, false);
}

/**
 * Moves the cursor to the payload: the object itself, or the member `payload` beside an inlined `schema`, which is taken
 * note of. False when the payload is null.
 */
function openPayload(cursor: JsonCursor, cache: SchemaCache, names: readonly string[], part: 'after' | null): boolean {
  skipSpace(cursor);
  const start = cursor.at;
  let schema: string | null = null;
  let payloadAt = -1;
  let others = 0;
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      const name = readName(cursor);
      if (name === 'schema' && peek(cursor) === OPEN_OBJECT) schema = rawValue(cursor);
      else {
        if (name === 'payload') {
          skipSpace(cursor);
          payloadAt = cursor.at;
        } else if (name !== 'schema') others++;
        skipValue(cursor);
      }
    } while (more(cursor, CLOSE_OBJECT));
  }
  skipSpace(cursor);
  if (cursor.at !== cursor.end) throw new JsonError('more follows after the value', cursor.at);
  if (payloadAt < 0 || others > 0) {
    cache.text = '';
    cache.fields = [];
    cursor.at = start;
    return true;
  }
  const text = schema ?? '';
  if (text !== cache.text) {
    cache.text = text;
    cache.fields = text === '' ? [] : fieldsOf(JSON.parse(text) as ConnectField, names, part);
  }
  cursor.at = payloadAt;
  return readLiteral(cursor) !== null;
}

/** The row's fields in the order of the shape's columns. */
function fieldsOf(
  schema: ConnectField,
  names: readonly string[],
  part: 'after' | null,
): readonly (ConnectField | undefined)[] {
  const row = part === null ? schema : schema.fields?.find((field) => field.field === part);
  return names.map((name) => row?.fields?.find((field) => field.field === name));
}
