/**
 * One value as Debezium's PostgreSQL connector writes it, to the cell that our own envelope would have given (Debezium docs,
 * "PostgreSQL connector, data type mappings"). What a value means is said by the inlined schema where there is one, and
 * otherwise by the connector's modes, as configured, and the column's type.
 */
import { formatDecimal, parseDecimal } from '../../contracts/engine/decimal-text.ts';
import type { Cell } from '../../contracts/engine/gate.ts';
import type { ColumnShape } from './event.ts';
import { readCell, readUnknownCell, wholeNumber } from './cell-decode.ts';
import { dateText, timestampText, timeText } from './debezium-time.ts';
import {
  asciiFrom,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  enter,
  JsonError,
  more,
  OPEN_ARRAY,
  OPEN_OBJECT,
  passNumber,
  peek,
  rawValue,
  readName,
  readString,
  type JsonCursor,
} from './json-cursor.ts';
import { WireKind, wireFormOf, type WireForm } from './wire-kind.ts';

/** The connector's settings, needed where topics carry no inlined schema. */
export interface DebeziumModes {
  /** decimal.handling.mode */
  readonly decimals: 'precise' | 'string' | 'double';
  /** time.precision.mode */
  readonly times: 'adaptive' | 'adaptive_time_microseconds' | 'connect' | 'isostring';
  /** binary.handling.mode; `bytes` is base64 in JSON. */
  readonly binary: 'bytes' | 'base64' | 'base64-url-safe' | 'hex';
  /** unavailable.value.placeholder */
  readonly placeholder: string;
}

export const DEBEZIUM_DEFAULTS: DebeziumModes = {
  decimals: 'precise',
  times: 'adaptive',
  binary: 'bytes',
  placeholder: '__debezium_unavailable_value',
};

/** A field of a Kafka Connect schema, as JsonConverter inlines it. */
export interface ConnectField {
  readonly field?: string;
  readonly type?: string;
  readonly name?: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly items?: ConnectField;
  readonly fields?: readonly ConnectField[];
}

type Meaning =
  | 'plain'
  | 'bytea'
  | 'decimal'
  | 'date'
  | 'time'
  | 'timetz'
  | 'timestamp'
  | 'timestamptz'
  | 'bits'
  | 'point';

export interface DebeziumColumn {
  readonly form: WireForm;
  readonly meaning: Meaning;
  readonly array: boolean;
  /** numeric(p,s): s; otherwise null. */
  readonly scale: number | null;
  /** timestamp(n), time(n): n; 6 when not given. */
  readonly precision: number;
  readonly toastable: boolean;
}

const MEANING_OF_NAME: Readonly<Record<string, Meaning>> = {
  bytea: 'bytea',
  numeric: 'decimal',
  money: 'decimal',
  date: 'date',
  'time without time zone': 'time',
  'time with time zone': 'timetz',
  'timestamp without time zone': 'timestamp',
  'timestamp with time zone': 'timestamptz',
  bit: 'bits',
  'bit varying': 'bits',
  point: 'point',
};

/** Types of fixed length, which PostgreSQL never moves out of the row; enums and their kin neither. */
const NEVER_TOASTED =
  /^(smallint|integer|bigint|oid|xid|xid8|cid|tid|real|double precision|boolean|date|time|timestamp|interval|uuid|money|name|"char"|point|lseg|box|circle|line|macaddr|macaddr8|pg_lsn)\b/;

export function debeziumColumn(column: ColumnShape): DebeziumColumn {
  const form = wireFormOf(column);
  const whole = column.kind === 'domain' ? (column.baseType ?? column.pgType) : column.pgType;
  const array = form.kind === WireKind.array;
  const type = array && column.kind === 'array' ? (column.baseType ?? whole) : whole.replace(/(\[\])+$/, '');
  const bare = type.replace(/\([^)]*\)/, '').trim();
  const modifier = /\((\d+)(?:,(-?\d+))?\)/.exec(type);
  const given = modifier === null ? null : Number(modifier[1]);
  const numericScale = modifier?.[2] === undefined ? 0 : Number(modifier[2]);
  return {
    form,
    meaning: MEANING_OF_NAME[bare] ?? 'plain',
    array,
    scale: bare === 'money' ? 2 : given === null ? null : numericScale,
    precision: given ?? 6,
    toastable: array || (column.kind !== 'enum' && !NEVER_TOASTED.test(bare)),
  };
}

/** The value that is next, in our form. */
export function readDebeziumCell(
  cursor: JsonCursor,
  column: DebeziumColumn,
  schema: ConnectField | undefined,
  modes: DebeziumModes,
): Cell {
  if (column.array) {
    if (peek(cursor) !== OPEN_ARRAY) return readUnknownCell(cursor);
    const cells: Cell[] = [];
    if (!enter(cursor, OPEN_ARRAY, CLOSE_ARRAY)) return cells;
    const form = { ...column.form, kind: column.form.element };
    const element = { ...column, array: false, form };
    do cells.push(readDebeziumCell(cursor, element, schema?.items, modes));
    while (more(cursor, CLOSE_ARRAY));
    return cells;
  }
  if (column.meaning === 'plain') return readCell(cursor, column.form);
  return convert(cursor, column, schema, modes);
}

function convert(
  cursor: JsonCursor,
  column: DebeziumColumn,
  schema: ConnectField | undefined,
  modes: DebeziumModes,
): Cell {
  const byte = peek(cursor);
  if (byte === OPEN_OBJECT) return readStruct(cursor, column.meaning);
  if (byte === 0x22) return fromText(readString(cursor), column, schema, modes);
  if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
    const start = cursor.at;
    const whole = passNumber(cursor);
    const text = asciiFrom(cursor, start);
    if (whole) return fromWhole(text, column, schema, modes);
    return column.meaning === 'decimal' ? plainDecimal(text) : text;
  }
  const cell = readCell(cursor, column.form);
  // bit(1) is a boolean there.
  return column.meaning === 'bits' && typeof cell === 'boolean' ? (cell ? '1' : '0') : cell;
}

function fromText(text: string, column: DebeziumColumn, schema: ConnectField | undefined, modes: DebeziumModes): Cell {
  switch (column.meaning) {
    case 'bytea':
      return base64Of(text, modes);
    case 'decimal': {
      const bytes = schema === undefined ? modes.decimals === 'precise' : schema.type === 'bytes';
      if (!bytes) return text;
      const scale = schema?.parameters?.['scale'] ?? column.scale ?? 0;
      return decimalText(text, Number(scale));
    }
    case 'bits':
      return bitText(text, Number(schema?.parameters?.['length'] ?? column.precision));
    case 'date':
      return calendarYear(text.replace(/Z$/, ''));
    case 'time':
      return trimFraction(text.replace(/Z$/, ''));
    case 'timetz':
      return trimFraction(text.replace(/Z$/, '+00'));
    case 'timestamp':
      return infinityOr(text, calendarYear(trimFraction(text.replace(/Z$/, ''))));
    case 'timestamptz':
      return infinityOr(text, calendarYear(trimFraction(text)));
    default:
      return text;
  }
}

function infinityOr(text: string, otherwise: string): string {
  if (/^\+?infinity$/i.test(text)) return 'infinity';
  return /^-infinity$/i.test(text) ? '-infinity' : otherwise;
}

/** ISO years as Java prints them, `+15000-…` and `-0043-…` (there is a year 0), as PostgreSQL's: `15000-…`, `0044-… BC`. */
function calendarYear(text: string): string {
  const match = /^(?:[+-]|0000)/.test(text) ? /^([+-]?)(\d{4,})(-.*)$/.exec(text) : null;
  if (match === null) return text;
  const [, sign = '', digits = '', rest = ''] = match;
  const year = sign === '-' ? -Number(digits) : Number(digits);
  return year > 0 ? `${digits}${rest}` : `${String(1 - year).padStart(4, '0')}${rest} BC`;
}

/** Java prints a double of 10,000,000 and more, and a small one, with an exponent: `1.23E7`. */
function plainDecimal(text: string): string {
  const exact = /e/i.test(text) ? parseDecimal(text) : null;
  return exact === null ? text : formatDecimal(exact);
}

/** PostgreSQL prints no trailing zeros behind the point, and always the seconds. */
function trimFraction(text: string): string {
  const seconds = text.replace(/(^|T)(\d\d:\d\d)(?=$|[Z+-])/, '$1$2:00');
  return seconds.replace(/\.(\d*?)0+(?=$|[Z+-])/, (_, kept: string) => (kept === '' ? '' : `.${kept}`));
}

const UNIT_OF_SCHEMA: Readonly<Record<string, bigint>> = {
  'io.debezium.time.Timestamp': 1000n,
  'io.debezium.time.Time': 1000n,
  'org.apache.kafka.connect.data.Timestamp': 1000n,
  'org.apache.kafka.connect.data.Time': 1000n,
  'io.debezium.time.MicroTimestamp': 1n,
  'io.debezium.time.MicroTime': 1n,
  'io.debezium.time.NanoTimestamp': -1000n,
  'io.debezium.time.NanoTime': -1000n,
};

function fromWhole(text: string, column: DebeziumColumn, schema: ConnectField | undefined, modes: DebeziumModes): Cell {
  const value = BigInt(text);
  switch (column.meaning) {
    case 'date':
      return dateText(value);
    case 'time':
      return timeText(inMicros(value, column, schema, modes));
    case 'timestamp':
      return timestampText(inMicros(value, column, schema, modes), '');
    case 'timestamptz':
      return timestampText(inMicros(value, column, schema, modes), 'Z');
    case 'decimal':
      return text;
    default:
      return wholeNumber(text);
  }
}

function inMicros(
  value: bigint,
  column: DebeziumColumn,
  schema: ConnectField | undefined,
  modes: DebeziumModes,
): bigint {
  const unit = schema?.name === undefined ? unitByMode(column, modes) : (UNIT_OF_SCHEMA[schema.name] ?? 1n);
  return unit < 0n ? value / -unit : value * unit;
}

function unitByMode(column: DebeziumColumn, modes: DebeziumModes): bigint {
  if (modes.times === 'connect') return 1000n;
  if (modes.times === 'adaptive_time_microseconds' && column.meaning === 'time') return 1n;
  return column.precision <= 3 ? 1000n : 1n;
}

/** VariableScaleDecimal {scale, value} and Point {x, y, …}; other structs keep their JSON. */
function readStruct(cursor: JsonCursor, meaning: Meaning): Cell {
  if (meaning !== 'decimal' && meaning !== 'point') return rawValue(cursor);
  const members = new Map<string, Cell>();
  if (enter(cursor, OPEN_OBJECT, CLOSE_OBJECT)) {
    do {
      const name = readName(cursor);
      const start = cursor.at;
      const byte = peek(cursor);
      if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
        passNumber(cursor);
        members.set(name, asciiFrom(cursor, start).trim());
      } else members.set(name, readUnknownCell(cursor));
    } while (more(cursor, CLOSE_OBJECT));
  }
  if (meaning === 'point') return `(${shortNumber(members.get('x'))},${shortNumber(members.get('y'))})`;
  const value = members.get('value');
  if (typeof value !== 'string') throw new JsonError('a decimal struct without a value', cursor.at);
  return decimalText(value, Number(members.get('scale')));
}

/** Java prints 1.0 where PostgreSQL prints 1. */
function shortNumber(value: Cell | undefined): string {
  return typeof value === 'string' ? value.replace(/\.0$/, '') : 'NaN';
}

/** Base64 of a big-endian two's complement number, with the point `scale` digits from the right. */
export function decimalText(base64: string, scale: number): string {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length === 0) return '0';
  if (bytes.toString('base64') !== base64) {
    throw new JsonError("a decimal that is not base64: say the connector's decimal.handling.mode", 0);
  }
  const unscaled = BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString('hex')}`));
  if (scale < 0) return String(unscaled * 10n ** BigInt(-scale));
  return formatDecimal({ unscaled, scale });
}

/** io.debezium.data.Bits: base64 of little-endian bytes, `length` bits. */
function bitText(base64: string, length: number): string {
  const bytes = Buffer.from(base64, 'base64');
  let text = '';
  for (let bit = length - 1; bit >= 0; bit--) text += ((bytes[bit >> 3] ?? 0) >> (bit & 7)) & 1;
  return text;
}

function base64Of(text: string, modes: DebeziumModes): string {
  if (modes.binary === 'hex') return Buffer.from(text, 'hex').toString('base64');
  return modes.binary === 'base64-url-safe' ? Buffer.from(text, 'base64url').toString('base64') : text;
}
