/**
 * One column's PostgreSQL text to its JSON form, bytes to bytes: no string, number or object is made on the way.
 * Sources: PostgreSQL docs, chapter 8 (text forms of each type, with bytea_output=hex, DateStyle=ISO, TimeZone=UTC), and
 * section 8.15.6 (array output); RFC 8259 section 7 (string escapes).
 */
import { reserve, type ByteSink } from './byte-sink.ts';
import { WireKind, type WireForm, type WireKindCode } from './wire-kind.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const MINUS = 0x2d;
const SPACE = 0x20;
const PLUS = 0x2b;
const ZERO = 0x30;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const HEX_DIGITS = Buffer.from('0123456789abcdef');
const BASE64 = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/');

/** 0 = as it is, 1 = \u00XX, otherwise the letter behind the backslash. */
const ESCAPE = new Uint8Array(256);
ESCAPE.fill(1, 0, 0x20);
ESCAPE[0x08] = 0x62;
ESCAPE[0x09] = 0x74;
ESCAPE[0x0a] = 0x6e;
ESCAPE[0x0c] = 0x66;
ESCAPE[0x0d] = 0x72;
ESCAPE[QUOTE] = QUOTE;
ESCAPE[BACKSLASH] = BACKSLASH;

const NIBBLE = new Uint8Array(256);
for (let digit = 0; digit < 16; digit++) {
  NIBBLE['0123456789abcdef'.charCodeAt(digit)] = digit;
  NIBBLE['0123456789ABCDEF'.charCodeAt(digit)] = digit;
}

/** Above this, room for a cell is counted exactly rather than guessed at six bytes a byte. */
const GUESS_BYTES_MAX = 8192;
/** Runs of plain text longer than this are copied by the platform, shorter ones byte by byte. */
const COPY_BYTES_MIN = 64;

/** Writes the cell src[start .. end) of the given form; room is reserved here. */
export function writeCell(sink: ByteSink, form: WireForm, src: Buffer, start: number, end: number): void {
  reserve(sink, roomFor(src, start, end));
  if (form.kind === WireKind.array) writeArray(sink, form, src, start, end);
  else writeScalar(sink, form.kind, src, start, end);
}

/** Most bytes that a cell can take: every byte escaped, or `f,` as `false,` in an array. */
function roomFor(src: Buffer, start: number, end: number): number {
  const length = end - start;
  if (length <= GUESS_BYTES_MAX) return length * 6 + 16;
  let escapes = 0;
  for (let i = start; i < end; i++) if (ESCAPE[src[i] as number] !== 0) escapes++;
  return length * 3 + escapes * 6 + 16;
}

function writeScalar(sink: ByteSink, kind: WireKindCode, src: Buffer, start: number, end: number): void {
  switch (kind) {
    case WireKind.integer:
      copyPlain(sink, src, start, end);
      return;
    case WireKind.float: {
      const first = src[start] as number;
      const digit = first === MINUS ? (src[start + 1] as number) : first;
      // NaN, Infinity and -Infinity have no JSON number.
      if (digit > 0x39) writeString(sink, src, start, end);
      else copyPlain(sink, src, start, end);
      return;
    }
    case WireKind.boolean:
      writeBoolean(sink, src[start] === 0x74);
      return;
    case WireKind.bytea:
      writeBase64(sink, src, start, end);
      return;
    case WireKind.timestamp:
    case WireKind.timestamptz:
      writeTimestamp(sink, kind, src, start, end);
      return;
    default:
      writeString(sink, src, start, end);
  }
}

function copyPlain(sink: ByteSink, src: Buffer, start: number, end: number): void {
  const { bytes } = sink;
  let { at } = sink;
  for (let i = start; i < end; i++) bytes[at++] = src[i] as number;
  sink.at = at;
}

function writeBoolean(sink: ByteSink, value: boolean): void {
  const { bytes, at } = sink;
  if (value) {
    bytes[at] = 0x74;
    bytes[at + 1] = 0x72;
    bytes[at + 2] = 0x75;
    bytes[at + 3] = 0x65;
    sink.at = at + 4;
    return;
  }
  bytes[at] = 0x66;
  bytes[at + 1] = 0x61;
  bytes[at + 2] = 0x6c;
  bytes[at + 3] = 0x73;
  bytes[at + 4] = 0x65;
  sink.at = at + 5;
}

/** `null`; the caller has reserved 4 bytes. */
export function writeNull(sink: ByteSink): void {
  const { bytes, at } = sink;
  bytes[at] = 0x6e;
  bytes[at + 1] = 0x75;
  bytes[at + 2] = 0x6c;
  bytes[at + 3] = 0x6c;
  sink.at = at + 4;
}

function writeString(sink: ByteSink, src: Buffer, start: number, end: number): void {
  const { bytes } = sink;
  let { at } = sink;
  bytes[at++] = QUOTE;
  if (end - start < COPY_BYTES_MIN) {
    for (let i = start; i < end; i++) {
      const byte = src[i] as number;
      if (ESCAPE[byte] === 0) bytes[at++] = byte;
      else at = writeEscape(bytes, at, byte);
    }
  } else {
    let run = start;
    for (let i = start; i < end; i++) {
      const byte = src[i] as number;
      if (ESCAPE[byte] === 0) continue;
      at = copyRun(bytes, at, src, run, i);
      at = writeEscape(bytes, at, byte);
      run = i + 1;
    }
    at = copyRun(bytes, at, src, run, end);
  }
  bytes[at++] = QUOTE;
  sink.at = at;
}

function copyRun(bytes: Buffer, at: number, src: Buffer, start: number, end: number): number {
  if (end - start < COPY_BYTES_MIN) {
    let to = at;
    for (let i = start; i < end; i++) bytes[to++] = src[i] as number;
    return to;
  }
  src.copy(bytes, at, start, end);
  return at + end - start;
}

function writeEscape(bytes: Buffer, at: number, byte: number): number {
  const letter = ESCAPE[byte] as number;
  bytes[at] = BACKSLASH;
  if (letter !== 1) {
    bytes[at + 1] = letter;
    return at + 2;
  }
  bytes[at + 1] = 0x75;
  bytes[at + 2] = ZERO;
  bytes[at + 3] = ZERO;
  bytes[at + 4] = HEX_DIGITS[byte >> 4] as number;
  bytes[at + 5] = HEX_DIGITS[byte & 15] as number;
  return at + 6;
}

/** `\x…` to base64. The escape format (bytea_output=escape) is never asked for, and would not begin with `\x`. */
function writeBase64(sink: ByteSink, src: Buffer, start: number, end: number): void {
  if (src[start] !== BACKSLASH || src[start + 1] !== 0x78) {
    throw new RangeError(`a bytea of ${end - start} characters is not in hex form (bytea_output must be hex)`);
  }
  const { bytes } = sink;
  let { at } = sink;
  bytes[at++] = QUOTE;
  let i = start + 2;
  for (; i + 6 <= end; i += 6) {
    const word = (hexByte(src, i) << 16) | (hexByte(src, i + 2) << 8) | hexByte(src, i + 4);
    bytes[at++] = BASE64[word >> 18] as number;
    bytes[at++] = BASE64[(word >> 12) & 63] as number;
    bytes[at++] = BASE64[(word >> 6) & 63] as number;
    bytes[at++] = BASE64[word & 63] as number;
  }
  if (i < end) {
    const two = i + 4 <= end;
    const word = (hexByte(src, i) << 16) | (two ? hexByte(src, i + 2) << 8 : 0);
    bytes[at++] = BASE64[word >> 18] as number;
    bytes[at++] = BASE64[(word >> 12) & 63] as number;
    bytes[at++] = two ? (BASE64[(word >> 6) & 63] as number) : 0x3d;
    bytes[at++] = 0x3d;
  }
  bytes[at++] = QUOTE;
  sink.at = at;
}

function hexByte(src: Buffer, i: number): number {
  return ((NIBBLE[src[i] as number] as number) << 4) | (NIBBLE[src[i + 1] as number] as number);
}

/** Space to `T`, and `+00` to `Z` where the zone ends there; `infinity` and the BC suffix stay as they are. */
function writeTimestamp(sink: ByteSink, kind: WireKindCode, src: Buffer, start: number, end: number): void {
  const { bytes } = sink;
  let { at } = sink;
  bytes[at++] = QUOTE;
  let dated = false;
  for (let i = start; i < end; i++) {
    const byte = src[i] as number;
    if (byte === SPACE && !dated) {
      dated = true;
      bytes[at++] = 0x54;
    } else if (byte === PLUS && kind === WireKind.timestamptz && isUtcZone(src, i, end)) {
      bytes[at++] = 0x5a;
      i += 2;
    } else bytes[at++] = byte;
  }
  bytes[at++] = QUOTE;
  sink.at = at;
}

function isUtcZone(src: Buffer, plus: number, end: number): boolean {
  return (
    src[plus + 1] === ZERO &&
    src[plus + 2] === ZERO &&
    (plus + 3 === end || (plus + 3 < end && src[plus + 3] === SPACE))
  );
}

/** Elements that carry escapes are undone here first; grown as needed, kept for the next one. */
let scratch = Buffer.allocUnsafeSlow(4096);

/**
 * `{a,"b,c",NULL}` to a JSON array. More dimensions, or bounds that do not start at 1 (`[0:2]={…}`), have no exact JSON
 * array: those pass as PostgreSQL's text.
 */
function writeArray(sink: ByteSink, form: WireForm, src: Buffer, start: number, end: number): void {
  const { at: begin } = sink;
  const last = end - 1;
  if (src[start] !== OPEN_BRACE || src[last] !== CLOSE_BRACE) {
    writeString(sink, src, start, end);
    return;
  }
  sink.bytes[sink.at++] = OPEN_BRACKET;
  let i = start + 1;
  while (i < last) {
    const first = src[i] as number;
    if (first === OPEN_BRACE) {
      sink.at = begin;
      writeString(sink, src, start, end);
      return;
    }
    if (i > start + 1) sink.bytes[sink.at++] = COMMA;
    if (first === QUOTE) i = writeQuotedElement(sink, form.element, src, i + 1, last);
    else {
      let stop = i;
      while (stop < last && src[stop] !== form.delimiter) stop++;
      if (isNullWord(src, i, stop)) writeNull(sink);
      else writeScalar(sink, form.element, src, i, stop);
      i = stop;
    }
    i++; // the delimiter
  }
  sink.bytes[sink.at++] = CLOSE_BRACKET;
}

/** From behind the opening quote; returns the position behind the closing one. */
function writeQuotedElement(sink: ByteSink, kind: WireKindCode, src: Buffer, start: number, last: number): number {
  let i = start;
  while (i < last && src[i] !== QUOTE && src[i] !== BACKSLASH) i++;
  if (src[i] === QUOTE) {
    writeScalar(sink, kind, src, start, i);
    return i + 1;
  }
  if (scratch.length < last - start) scratch = Buffer.allocUnsafeSlow((last - start) * 2);
  src.copy(scratch, 0, start, i);
  let length = i - start;
  while (i < last && src[i] !== QUOTE) {
    if (src[i] === BACKSLASH) i++;
    scratch[length++] = src[i++] as number;
  }
  writeScalar(sink, kind, scratch, 0, length);
  return i + 1;
}

/** The unquoted word NULL; the text "NULL" is always quoted (PostgreSQL docs, 8.15.6). */
function isNullWord(src: Buffer, start: number, end: number): boolean {
  return (
    end - start === 4 &&
    src[start] === 0x4e &&
    src[start + 1] === 0x55 &&
    src[start + 2] === 0x4c &&
    src[start + 3] === 0x4c
  );
}
