/** A row as one line of JSON: 64-bit integers and decimals with all their digits, binary as base64, NaN as text. */
import type { RowValue, StreamRow } from '../sink.ts';

export function rowJson(row: StreamRow): string {
  const { op, epoch, lsn, ord } = row;
  return `{"op":"${op}","epoch":${epoch},"lsn":${lsn},"ord":${ord},"row":${valuesJson(row.values)}}`;
}

export function valuesJson(values: Readonly<Record<string, RowValue>>): string {
  const members = Object.entries(values).map(([name, value]) => `${JSON.stringify(name)}:${valueJson(value)}`);
  return `{${members.join(',')}}`;
}

function valueJson(value: RowValue): string {
  if (value === null) return 'null';
  switch (typeof value) {
    case 'bigint':
      return String(value);
    case 'number':
      if (Object.is(value, -0)) return '-0';
      return Number.isFinite(value) ? String(value) : JSON.stringify(String(value));
    case 'string':
      return JSON.stringify(value);
    case 'boolean':
      return String(value);
    default:
      return value instanceof Uint8Array
        ? JSON.stringify(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'))
        : `[${(value as readonly RowValue[]).map(valueJson).join(',')}]`;
  }
}
