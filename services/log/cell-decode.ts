/**
 * One JSON value of an envelope to a cell (contracts/engine/gate.ts): whole numbers stay exact (number while safe, else
 * bigint), floats are numbers (NaN and infinities too), everything that is text stays text, arrays are arrays of cells.
 * A value that does not fit its column's type is passed as it is, for the gate to name.
 */
import type { Cell } from '../../contracts/engine/gate.ts';
import {
  asciiFrom,
  CLOSE_ARRAY,
  enter,
  JsonError,
  more,
  OPEN_ARRAY,
  OPEN_OBJECT,
  passNumber,
  peek,
  rawValue,
  readLiteral,
  readString,
  type JsonCursor,
} from './json-cursor.ts';
import { WireKind, type WireForm, type WireKindCode } from './wire-kind.ts';

const QUOTE = 0x22;
/** Nested arrays are only followed so deep. PostgreSQL's own limit is 6 (MAXDIM). */
const ARRAY_DEPTH_MAX = 32;
/** Every whole number of so many digits is exact as a double. */
const EXACT_DIGITS = 15;

export function readCell(cursor: JsonCursor, form: WireForm): Cell {
  const byte = peek(cursor);
  if (byte === QUOTE) {
    const text = readString(cursor);
    return form.kind === WireKind.float ? floatOfText(text) : text;
  }
  if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return readNumber(cursor, form.kind);
  if (byte === OPEN_ARRAY && form.kind === WireKind.array) return readArray(cursor, form.element, 0);
  return readOther(cursor, byte);
}

/** The cell of a column that the shape does not have: exact, whatever it is. */
export function readUnknownCell(cursor: JsonCursor): Cell {
  const byte = peek(cursor);
  if (byte === QUOTE) return readString(cursor);
  if (byte !== 0x2d && (byte < 0x30 || byte > 0x39)) return readOther(cursor, byte);
  const start = cursor.at;
  if (passNumber(cursor)) return wholeNumber(asciiFrom(cursor, start));
  const text = asciiFrom(cursor, start);
  const value = Number(text);
  return String(value) === text ? value : text;
}

function readOther(cursor: JsonCursor, byte: number): Cell {
  // Objects and unexpected arrays of foreign types keep their exact text.
  if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) return rawValue(cursor);
  const literal = readLiteral(cursor);
  if (literal === undefined) throw new JsonError('expected a value', cursor.at);
  return literal;
}

function readNumber(cursor: JsonCursor, kind: WireKindCode): Cell {
  if (kind === WireKind.integer) {
    const quick = readShortInteger(cursor);
    if (quick !== undefined) return quick;
  }
  const start = cursor.at;
  const whole = passNumber(cursor);
  const text = asciiFrom(cursor, start);
  if (kind === WireKind.float) return Number(text);
  // A number where text is expected (numeric written by others) keeps its digits.
  if (kind === WireKind.text) return text;
  return whole ? wholeNumber(text) : Number(text);
}

/** Undefined, with the cursor unmoved, unless up to 15 digits stand alone. */
function readShortInteger(cursor: JsonCursor): number | undefined {
  const { bytes, end } = cursor;
  let i = cursor.at;
  const negative = bytes[i] === 0x2d;
  if (negative) i++;
  const from = i;
  let value = 0;
  while (i < end) {
    const digit = (bytes[i] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
    i++;
  }
  const digits = i - from;
  if (digits === 0 || digits > EXACT_DIGITS || (digits > 1 && bytes[from] === 0x30)) return undefined;
  const next = i < end ? (bytes[i] as number) : 0;
  if (next === 0x2e || next === 0x65 || next === 0x45) return undefined;
  cursor.at = i;
  return negative && value !== 0 ? -value : value;
}

export function wholeNumber(text: string): number | bigint {
  const value = BigInt(text);
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

function floatOfText(text: string): number | string {
  if (text === 'NaN') return NaN;
  if (text === 'Infinity') return Infinity;
  if (text === '-Infinity') return -Infinity;
  return text;
}

const ELEMENT_FORMS: readonly WireForm[] = Object.values(WireKind).map((kind) => ({
  kind,
  element: WireKind.text,
  delimiter: 0x2c,
  single: false,
}));

function readArray(cursor: JsonCursor, element: WireKindCode, depth: number): Cell {
  if (depth >= ARRAY_DEPTH_MAX) throw new JsonError(`arrays nested deeper than ${ARRAY_DEPTH_MAX}`, cursor.at);
  const form = ELEMENT_FORMS[element] as WireForm;
  const cells: Cell[] = [];
  if (!enter(cursor, OPEN_ARRAY, CLOSE_ARRAY)) return cells;
  do {
    cells.push(peek(cursor) === OPEN_ARRAY ? readArray(cursor, element, depth + 1) : readCell(cursor, form));
  } while (more(cursor, CLOSE_ARRAY));
  return cells;
}
