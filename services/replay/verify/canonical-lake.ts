/** The same canonical text as canonical-source.ts, computed from the lake's columns. */
import { civilOf } from '../../../lakehouse/table/calendar.ts';
import { isNull, type ColumnVector } from '../../../lakehouse/table/column.ts';
import type { DeltaType } from '../../../lakehouse/table/schema.ts';

/** Text of a row's cell, without its frame; null for NULL. */
export type CellText = (row: number) => string | null;

export function cellText(column: ColumnVector, type: DeltaType): CellText {
  const read = valueText(column, type);
  return (row) => (isNull(column, row) ? null : read(row));
}

/** `<octets>:<text>`, or `~` for NULL. */
export function frame(text: string | null): string {
  return text === null ? '~' : `${Buffer.byteLength(text)}:${text}`;
}

function valueText(column: ColumnVector, type: DeltaType): (row: number) => string {
  switch (column.kind) {
    case 'boolean':
      return (row) => (((column.values[row >> 3] ?? 0) >> (row & 7)) & 1 ? 't' : 'f');
    case 'int32':
      return type === 'date' ? (row) => dateText(column.values[row] ?? 0) : (row) => String(column.values[row]);
    case 'int64':
      if (type === 'timestamp') return (row) => `${timestampText(column.values[row] ?? 0n, '+00')}`;
      if (type === 'timestamp_ntz') return (row) => timestampText(column.values[row] ?? 0n, '');
      return (row) => String(column.values[row]);
    case 'float32':
      return floatHex(4, (view, row) => view.setFloat32(0, column.values[row] ?? 0));
    case 'float64':
      return floatHex(8, (view, row) => view.setFloat64(0, column.values[row] ?? 0));
    case 'decimal':
      return (row) => decimalText(column.values[row * 2] ?? 0n, column.values[row * 2 + 1] ?? 0n, column.scale);
    case 'utf8':
    case 'binary': {
      const encoding = column.kind === 'utf8' ? 'utf8' : 'hex';
      const bytes = Buffer.from(column.data.buffer, column.data.byteOffset, column.data.byteLength);
      return (row) => bytes.toString(encoding, column.offsets[row], column.offsets[row + 1]);
    }
    case 'list': {
      const element = cellText(
        column.child,
        typeof type === 'object' && type.type === 'array' ? type.elementType : 'string',
      );
      return (row) => {
        const start = column.offsets[row] ?? 0;
        const end = column.offsets[row + 1] ?? start;
        let text = `A${end - start}`;
        for (let i = start; i < end; i += 1) text += frame(element(i));
        return text;
      };
    }
    case 'struct':
    case 'map':
      throw new TypeError(`a ${column.kind} column has no PostgreSQL text; tables kept by the pipeline hold none`);
  }
}

function floatHex(bytes: number, write: (view: DataView, row: number) => void): (row: number) => string {
  const buffer = Buffer.alloc(bytes);
  const view = new DataView(buffer.buffer, buffer.byteOffset, bytes);
  return (row) => {
    write(view, row);
    return buffer.toString('hex');
  };
}

export function decimalText(low: bigint, high: bigint, scale: number): string {
  const unscaled = (high << 64n) | BigInt.asUintN(64, low);
  if (scale === 0) return unscaled.toString();
  const negative = unscaled < 0n;
  const digits = (negative ? -unscaled : unscaled).toString().padStart(scale + 1, '0');
  return `${negative ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** PostgreSQL's ISO date: `2024-01-02`, `15000-01-01`, `0044-03-15 BC`. Days since 1970-01-01, proleptic Gregorian. */
export function dateText(days: number): string {
  const { year, month, day } = civilOf(days);
  const era = year <= 0 ? ' BC' : '';
  const shown = year <= 0 ? 1 - year : year;
  return `${String(shown).padStart(4, '0')}-${two(month)}-${two(day)}${era}`;
}

const MICROS_PER_DAY = 86_400_000_000n;

/** PostgreSQL's ISO timestamp: fractional seconds without trailing zeros, then the zone, then the era. */
export function timestampText(micros: bigint, zone: string): string {
  let days = micros / MICROS_PER_DAY;
  let rest = micros % MICROS_PER_DAY;
  if (rest < 0n) {
    rest += MICROS_PER_DAY;
    days -= 1n;
  }
  const date = dateText(Number(days));
  const era = date.endsWith(' BC') ? ' BC' : '';
  const seconds = Number(rest / 1_000_000n);
  const fraction = Number(rest % 1_000_000n);
  const time = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  const decimals = fraction === 0 ? '' : `.${String(fraction).padStart(6, '0').replace(/0+$/, '')}`;
  return `${era === '' ? date : date.slice(0, -3)} ${time}${decimals}${zone}${era}`;
}

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value);
}
