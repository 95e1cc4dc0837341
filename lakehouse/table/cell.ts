/** Single cells of columns as plain values, for small files (checkpoints, fences). Not for the data path. */
import type { ColumnVector, StructColumn } from './column.ts';
import { isNull } from './column.ts';

export function structChild(column: StructColumn, name: string): ColumnVector | null {
  return column.children[column.names.indexOf(name)] ?? null;
}

export function textCell(column: ColumnVector | null, row: number): string | null {
  if (column === null || column.kind !== 'utf8' || isNull(column, row)) return null;
  const { buffer, byteOffset, byteLength } = column.data;
  return Buffer.from(buffer, byteOffset, byteLength).toString('utf8', column.offsets[row], column.offsets[row + 1]);
}

export function longCell(column: ColumnVector | null, row: number): bigint | null {
  if (column === null || isNull(column, row)) return null;
  if (column.kind === 'int64') return column.values[row] ?? null;
  if (column.kind === 'int32') return BigInt(column.values[row] ?? 0);
  return null;
}

export function intCell(column: ColumnVector | null, row: number): number | null {
  const value = longCell(column, row);
  return value === null ? null : Number(value);
}

export function booleanCell(column: ColumnVector | null, row: number): boolean | null {
  if (column === null || column.kind !== 'boolean' || isNull(column, row)) return null;
  return ((column.values[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
}

/** A map of text to text; null when the map is NULL. */
export function textMapCell(column: ColumnVector | null, row: number): Record<string, string | null> | null {
  if (column === null || column.kind !== 'map' || isNull(column, row)) return null;
  const out: Record<string, string | null> = {};
  const end = column.offsets[row + 1] ?? 0;
  for (let at = column.offsets[row] ?? 0; at < end; at++) {
    const key = textCell(column.keys, at);
    if (key !== null) out[key] = textCell(column.items, at);
  }
  return out;
}

/** A list of text; null when the list is NULL. */
export function textListCell(column: ColumnVector | null, row: number): string[] | null {
  if (column === null || column.kind !== 'list' || isNull(column, row)) return null;
  const out: string[] = [];
  const end = column.offsets[row + 1] ?? 0;
  for (let at = column.offsets[row] ?? 0; at < end; at++) {
    const item = textCell(column.child, at);
    if (item !== null) out.push(item);
  }
  return out;
}
