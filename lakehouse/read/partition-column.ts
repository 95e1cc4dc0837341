/**
 * Partition values, text in the log, as columns (PROTOCOL.md, "Partition Value Serialization"): null and the empty string
 * are NULL; timestamps come as ISO 8601 or as `yyyy-MM-dd HH:mm:ss[.ffffff]`, which is taken as UTC.
 */
import { decimalOf } from '../parquet/stored-fields.ts';
import { nullColumn } from '../parquet/spread.ts';
import { daysOf } from '../table/calendar.ts';
import type { ColumnVector } from '../table/column.ts';
import type { PrimitiveName } from '../table/schema.ts';

const MICROS_PER_DAY = 86_400_000_000n;

/** `length` rows of one value. @throws RangeError when the text is no value of the type */
export function partitionColumn(type: PrimitiveName, text: string | null, length: number): ColumnVector {
  if (text === null || text === '') return nullColumn(type, length);
  const base = { length, validity: null };
  const decimal = decimalOf(type);
  if (decimal !== null) {
    const value = unscaledOf(text, decimal.scale);
    const values = new BigInt64Array(length * 2);
    for (let i = 0; i < length; i++) {
      values[2 * i] = BigInt.asIntN(64, value);
      values[2 * i + 1] = BigInt.asIntN(64, value >> 64n);
    }
    return { ...base, kind: 'decimal', ...decimal, values };
  }
  switch (type) {
    case 'boolean': {
      if (text !== 'true' && text !== 'false') throw bad(type);
      return { ...base, kind: 'boolean', values: new Uint8Array((length + 7) >> 3).fill(text === 'true' ? 0xff : 0) };
    }
    case 'byte':
    case 'short':
    case 'integer':
      return { ...base, kind: 'int32', values: new Int32Array(length).fill(Number(integerOf(text, type))) };
    case 'date':
      return { ...base, kind: 'int32', values: new Int32Array(length).fill(dateOf(text)) };
    case 'long':
      return { ...base, kind: 'int64', values: new BigInt64Array(length).fill(integerOf(text, type)) };
    case 'timestamp':
    case 'timestamp_ntz':
      return { ...base, kind: 'int64', values: new BigInt64Array(length).fill(microsOf(text)) };
    case 'float':
      return { ...base, kind: 'float32', values: new Float32Array(length).fill(floatOf(text, type)) };
    case 'double':
      return { ...base, kind: 'float64', values: new Float64Array(length).fill(floatOf(text, type)) };
    default:
      return repeated(type === 'string' ? 'utf8' : 'binary', Buffer.from(text), length);
  }
}

const bad = (type: PrimitiveName): RangeError => new RangeError(`a partition value is no ${type}`);

function repeated(kind: 'utf8' | 'binary', bytes: Buffer, length: number): ColumnVector {
  const data = new Uint8Array(bytes.length * length);
  const offsets = new Int32Array(length + 1);
  for (let i = 0; i < length; i++) {
    data.set(bytes, i * bytes.length);
    offsets[i + 1] = (i + 1) * bytes.length;
  }
  return { kind, length, validity: null, offsets, data };
}

function integerOf(text: string, type: PrimitiveName): bigint {
  if (!/^-?\d+$/.test(text)) throw bad(type);
  return BigInt(text);
}

function floatOf(text: string, type: PrimitiveName): number {
  const value = Number(text);
  if (Number.isNaN(value) && text !== 'NaN') throw bad(type);
  return value;
}

/** Plain or exponent digits, exactly; digits behind `scale` must be zeros. */
export function unscaledOf(text: string, scale: number): bigint {
  const match = /^(-?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (match === null) throw bad(`decimal(38,${scale})`);
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = match;
  const shift = scale - fraction.length + Number(exponent);
  const digits = BigInt(`${whole}${fraction}` || '0');
  if (shift < 0 && digits % 10n ** BigInt(-shift) !== 0n) throw bad(`decimal(38,${scale})`);
  const value = shift < 0 ? digits / 10n ** BigInt(-shift) : digits * 10n ** BigInt(shift);
  return sign === '-' ? -value : value;
}

const DATE = /^([+-]?\d{4,6})-(\d\d)-(\d\d)$/;

export function dateOf(text: string): number {
  const match = DATE.exec(text);
  if (match === null) throw bad('date');
  return daysOf(Number(match[1]), Number(match[2]), Number(match[3]));
}

const TIMESTAMP =
  /^([+-]?\d{4,6}-\d\d-\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?)?(?:Z|UTC|([+-])(\d\d):?(\d\d))?$/;

/** Microseconds since the epoch; digits behind them are dropped. Without a zone the text is taken as UTC. */
export function microsOf(text: string): bigint {
  const match = TIMESTAMP.exec(text);
  if (match === null) throw bad('timestamp');
  const [
    ,
    date = '',
    hour = '0',
    minute = '0',
    second = '0',
    fraction = '',
    sign = '+',
    zoneHour = '0',
    zoneMinute = '0',
  ] = match;
  const zone = (Number(zoneHour) * 60 + Number(zoneMinute)) * (sign === '-' ? -60 : 60);
  const seconds = Number(hour) * 3600 + Number(minute) * 60 + Number(second) - zone;
  const micros = BigInt(fraction.slice(0, 6).padEnd(6, '0'));
  return BigInt(dateOf(date)) * MICROS_PER_DAY + BigInt(seconds) * 1_000_000n + micros;
}
