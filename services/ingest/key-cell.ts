/** A row's key as one Map key: what the fold groups by, what parked and awaiting events are found by. */
import type { Cell, GateRow } from '../../contracts/engine/gate.ts';

/** Numbers and text stand for themselves: a key of one column costs nothing to build. */
export type KeyCell = number | bigint | string;

/** Null when a key column is NULL or absent. Equal keys give equal values, whatever event they came in. */
export function keyCellOf(row: GateRow, columns: readonly string[]): KeyCell | null {
  if (columns.length === 1) {
    const cell = row[columns[0] ?? ''];
    if (typeof cell === 'number' || typeof cell === 'string' || typeof cell === 'bigint') return cell;
    return cell === null || cell === undefined ? null : partOf(cell);
  }
  let key = '';
  for (const column of columns) {
    const cell = row[column];
    if (cell === null || cell === undefined) return null;
    key += partOf(cell);
  }
  return columns.length === 0 ? null : key;
}

/** Length before text: no value can imitate the border between two columns. */
function partOf(cell: Cell): string {
  if (typeof cell === 'string') return `s${cell.length}:${cell}`;
  if (typeof cell === 'number' || typeof cell === 'bigint') return `n${cell};`;
  if (typeof cell === 'boolean') return cell ? 't' : 'f';
  const text = JSON.stringify(cell, (_, value: unknown) => (typeof value === 'bigint' ? `n${value}` : value));
  return `j${text.length}:${text}`;
}

/** For keeping a key in the lake: the text and its kind, so that `5` and `'5'` stay two keys. */
export function keyCellText(key: KeyCell): string {
  return typeof key === 'string' ? `s${key}` : `n${key}`;
}

/** The inverse of `keyCellText`. */
export function keyCellFromText(text: string): KeyCell {
  if (text.startsWith('s')) return text.slice(1);
  const digits = text.slice(1);
  const number = Number(digits);
  return Number.isSafeInteger(number) || !/^-?\d+$/.test(digits) ? number : BigInt(digits);
}
