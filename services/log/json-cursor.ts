/**
 * A walk over JSON bytes, token by token, without building a tree (RFC 8259). Whoever walks knows what it wants: it reads
 * a string, a number's exact text, or skips a value. int64 and decimals keep every digit, which JSON.parse loses.
 */
import { isUtf8 } from 'node:buffer';

export interface JsonCursor {
  bytes: Buffer;
  at: number;
  end: number;
  /** The bytes as Latin-1, so that ASCII strings are substrings of it; empty for values too large for that. */
  text: string;
  /** True once the bytes are known to be valid UTF-8; asked only when a byte above 0x7f turns up. */
  utf8: boolean;
}

/** The bytes are not JSON, or not the JSON that was expected; `at` is the byte offset. Says no data. */
export class JsonError extends Error {
  readonly at: number;
  constructor(expected: string, at: number) {
    super(expected);
    this.name = 'JsonError';
    this.at = at;
  }
}

/** Larger values are read string by string, so that one small cell does not keep megabytes alive. */
const TEXT_BYTES_MAX = 16 * 1024;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const COMMA = 0x2c;
export const COLON = 0x3a;

export function createJsonCursor(): JsonCursor {
  return { bytes: Buffer.alloc(0), at: 0, end: 0, text: '', utf8: true };
}

export function openCursor(cursor: JsonCursor, bytes: Buffer): void {
  cursor.bytes = bytes;
  cursor.at = 0;
  cursor.end = bytes.length;
  cursor.text = bytes.length <= TEXT_BYTES_MAX ? bytes.toString('latin1') : '';
  cursor.utf8 = false;
}

export function skipSpace(cursor: JsonCursor): void {
  const { bytes, end } = cursor;
  let { at } = cursor;
  while (at < end) {
    const byte = bytes[at] as number;
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) break;
    at++;
  }
  cursor.at = at;
}

/** The next byte that is not white space, left in place; 0 at the end. */
export function peek(cursor: JsonCursor): number {
  if (cursor.at < cursor.end && (cursor.bytes[cursor.at] as number) > 0x20) return cursor.bytes[cursor.at] as number;
  skipSpace(cursor);
  return cursor.at < cursor.end ? (cursor.bytes[cursor.at] as number) : 0;
}

export function expectByte(cursor: JsonCursor, byte: number): void {
  if (peek(cursor) !== byte) throw new JsonError(`expected '${String.fromCharCode(byte)}'`, cursor.at);
  cursor.at++;
}

/** After a member or element: true when another follows (the comma is eaten), false at the closing byte (eaten too). */
export function more(cursor: JsonCursor, close: number): boolean {
  const byte = peek(cursor);
  if (byte !== COMMA && byte !== close) {
    throw new JsonError(`expected ',' or '${String.fromCharCode(close)}'`, cursor.at);
  }
  cursor.at++;
  return byte === COMMA;
}

/** Eats the opening byte; false for an empty object or array, whose closing byte is eaten as well. */
export function enter(cursor: JsonCursor, open: number, close: number): boolean {
  expectByte(cursor, open);
  if (peek(cursor) !== close) return true;
  cursor.at++;
  return false;
}

/** A member's name and its colon. */
export function readName(cursor: JsonCursor): string {
  if (peek(cursor) !== QUOTE) throw new JsonError('expected a member name', cursor.at);
  const name = readString(cursor);
  expectByte(cursor, COLON);
  return name;
}

/** True, with the cursor moved behind it, when these very bytes come next. */
export function eat(cursor: JsonCursor, expected: Uint8Array): boolean {
  const { bytes, at } = cursor;
  const length = expected.length;
  if (at + length > cursor.end) return false;
  for (let i = 0; i < length; i++) if (bytes[at + i] !== expected[i]) return false;
  cursor.at = at + length;
  return true;
}

/** The string whose opening quote is next. */
export function readString(cursor: JsonCursor): string {
  const { bytes, end } = cursor;
  const start = cursor.at + 1;
  let high = 0;
  for (let i = start; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte === QUOTE) {
      cursor.at = i + 1;
      return slice(cursor, start, i, high >= 0x80);
    }
    if (byte === BACKSLASH) return readEscaped(cursor, start, i, high);
    if (byte < 0x20) throw new JsonError('a control character in a string', i);
    high |= byte;
  }
  throw new JsonError('the string has no end', end);
}

function slice(cursor: JsonCursor, start: number, end: number, wide: boolean): string {
  if (wide) {
    checkUtf8(cursor);
    return cursor.bytes.toString('utf8', start, end);
  }
  return cursor.text === '' ? cursor.bytes.toString('latin1', start, end) : cursor.text.substring(start, end);
}

function checkUtf8(cursor: JsonCursor): void {
  if (cursor.utf8) return;
  if (!isUtf8(cursor.bytes)) throw new JsonError('the text is not UTF-8', 0);
  cursor.utf8 = true;
}

/** Escapes are undone here; grown as needed and kept. */
let scratch = Buffer.allocUnsafeSlow(8192);

function readEscaped(cursor: JsonCursor, start: number, firstEscape: number, highBefore: number): string {
  const { bytes, end } = cursor;
  if (scratch.length < end - start) scratch = Buffer.allocUnsafeSlow((end - start) * 2);
  bytes.copy(scratch, 0, start, firstEscape);
  let to = firstEscape - start;
  let high = highBefore;
  let i = firstEscape;
  for (;;) {
    if (i >= end) throw new JsonError('the string has no end', end);
    const byte = bytes[i] as number;
    if (byte === QUOTE) break;
    if (byte < 0x20) throw new JsonError('a control character in a string', i);
    if (byte !== BACKSLASH) {
      high |= byte;
      scratch[to++] = byte;
      i++;
      continue;
    }
    const letter = i + 1 < end ? (bytes[i + 1] as number) : 0;
    if (letter === 0x75) {
      const point = codePoint(bytes, i, end);
      if (point >= 0x80) high |= 0x80;
      to = writePoint(scratch, to, point);
      i += point > 0xffff ? 12 : 6;
    } else {
      scratch[to++] = plainEscape(letter, i);
      i += 2;
    }
  }
  cursor.at = i + 1;
  if (high >= 0x80) checkUtf8(cursor);
  return scratch.toString(high >= 0x80 ? 'utf8' : 'latin1', 0, to);
}

function plainEscape(letter: number, at: number): number {
  switch (letter) {
    case QUOTE:
    case BACKSLASH:
    case 0x2f:
      return letter;
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    default:
      throw new JsonError('an unknown escape in a string', at);
  }
}

/** A lone surrogate has no UTF-8 form: it would silently become U+FFFD, so it is refused. */
function codePoint(bytes: Buffer, at: number, end: number): number {
  const unit = hexUnit(bytes, at, end);
  if (unit < 0xd800 || unit > 0xdfff) return unit;
  const second =
    unit < 0xdc00 && bytes[at + 6] === BACKSLASH && bytes[at + 7] === 0x75 ? hexUnit(bytes, at + 6, end) : 0;
  if (second < 0xdc00 || second > 0xdfff) throw new JsonError('half a surrogate pair in a string', at);
  return 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
}

function hexUnit(bytes: Buffer, at: number, end: number): number {
  let unit = 0;
  for (let i = at + 2; i < at + 6; i++) {
    const byte = i < end ? (bytes[i] as number) : 0;
    const lower = byte | 0x20;
    if (byte >= 0x30 && byte <= 0x39) unit = unit * 16 + byte - 0x30;
    else if (lower >= 0x61 && lower <= 0x66) unit = unit * 16 + lower - 0x57;
    else throw new JsonError('a \\u escape without four hexadecimal digits', at);
  }
  return unit;
}

function writePoint(out: Buffer, at: number, point: number): number {
  if (point < 0x80) {
    out[at] = point;
    return at + 1;
  }
  if (point < 0x800) {
    out[at] = 0xc0 | (point >> 6);
    out[at + 1] = 0x80 | (point & 63);
    return at + 2;
  }
  if (point < 0x10000) {
    out[at] = 0xe0 | (point >> 12);
    out[at + 1] = 0x80 | ((point >> 6) & 63);
    out[at + 2] = 0x80 | (point & 63);
    return at + 3;
  }
  out[at] = 0xf0 | (point >> 18);
  out[at + 1] = 0x80 | ((point >> 12) & 63);
  out[at + 2] = 0x80 | ((point >> 6) & 63);
  out[at + 3] = 0x80 | (point & 63);
  return at + 4;
}

/** Moves behind the number that is next; returns true when it is a whole number without fraction or exponent. */
export function passNumber(cursor: JsonCursor): boolean {
  const { bytes, end } = cursor;
  let i = cursor.at;
  if (bytes[i] === 0x2d) i++;
  const digitsFrom = i;
  while (i < end && isDigit(bytes[i] as number)) i++;
  if (i === digitsFrom || (bytes[digitsFrom] === 0x30 && i - digitsFrom > 1)) {
    throw new JsonError('expected a number', cursor.at);
  }
  let whole = true;
  if (i < end && bytes[i] === 0x2e) {
    whole = false;
    const from = ++i;
    while (i < end && isDigit(bytes[i] as number)) i++;
    if (i === from) throw new JsonError('expected a digit', i);
  }
  if (i < end && ((bytes[i] as number) | 0x20) === 0x65) {
    whole = false;
    i++;
    if (i < end && (bytes[i] === 0x2b || bytes[i] === 0x2d)) i++;
    const from = i;
    while (i < end && isDigit(bytes[i] as number)) i++;
    if (i === from) throw new JsonError('expected a digit', i);
  }
  cursor.at = i;
  return whole;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** ASCII text from `start` to the cursor: a number's digits. */
export function asciiFrom(cursor: JsonCursor, start: number): string {
  return slice(cursor, start, cursor.at, false);
}

/** Exact text of the value that is next, as it stands; the cursor moves behind it. */
export function rawValue(cursor: JsonCursor): string {
  skipSpace(cursor);
  const start = cursor.at;
  skipValue(cursor);
  checkUtf8(cursor);
  return cursor.bytes.toString('utf8', start, cursor.at);
}

const LITERALS = [Buffer.from('null'), Buffer.from('true'), Buffer.from('false')];

/** null, true or false; undefined when none of them is next. */
export function readLiteral(cursor: JsonCursor): null | boolean | undefined {
  if (eat(cursor, LITERALS[0] as Buffer)) return null;
  if (eat(cursor, LITERALS[1] as Buffer)) return true;
  if (eat(cursor, LITERALS[2] as Buffer)) return false;
  return undefined;
}

/** Moves behind the value that is next, whatever it is. What lies inside is not checked: only strings and brackets are followed. */
export function skipValue(cursor: JsonCursor): void {
  const { bytes, end } = cursor;
  const byte = peek(cursor);
  if (byte === QUOTE) {
    skipString(cursor);
    return;
  }
  if (byte !== OPEN_OBJECT && byte !== OPEN_ARRAY) {
    if (byte === 0x2d || isDigit(byte)) passNumber(cursor);
    else if (readLiteral(cursor) === undefined) throw new JsonError('expected a value', cursor.at);
    return;
  }
  let depth = 0;
  let i = cursor.at;
  while (i < end) {
    const next = bytes[i] as number;
    if (next === QUOTE) {
      cursor.at = i;
      skipString(cursor);
      i = cursor.at;
      continue;
    }
    i++;
    if (next === OPEN_OBJECT || next === OPEN_ARRAY) depth++;
    else if ((next === CLOSE_OBJECT || next === CLOSE_ARRAY) && --depth === 0) {
      if ((next === CLOSE_OBJECT) !== (byte === OPEN_OBJECT)) break;
      cursor.at = i;
      return;
    }
  }
  throw new JsonError('brackets do not match', Math.min(i, end));
}

function skipString(cursor: JsonCursor): void {
  const { bytes, end } = cursor;
  for (let i = cursor.at + 1; i < end; i++) {
    const byte = bytes[i] as number;
    if (byte === BACKSLASH) i++;
    else if (byte === QUOTE) {
      cursor.at = i + 1;
      return;
    }
  }
  throw new JsonError('the string has no end', end);
}
