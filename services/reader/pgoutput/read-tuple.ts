/** TupleData to byte ranges: no copy, no string. */
import { CellKind, type Tuple } from '../../log/tuple.ts';
import { malformed, readUint16, type ByteCursor } from './byte-cursor.ts';

/** MaxHeapAttributeNumber of PostgreSQL is 1600. */
export const COLUMNS_MAX = 1664;

export interface MutableTuple extends Tuple {
  bytes: Buffer;
}

export function createTuple(columns: number = COLUMNS_MAX): MutableTuple {
  return {
    bytes: Buffer.alloc(0),
    kinds: new Uint8Array(columns),
    starts: new Int32Array(columns),
    ends: new Int32Array(columns),
  };
}

/** A tuple of another length than its RELATION is fatal: PostgreSQL 15.0 and 15.1 could send such under a column list. */
export function readTuple(cursor: ByteCursor, tuple: MutableTuple, columns: number, table: string): void {
  const count = readUint16(cursor);
  if (count !== columns) throw malformed(`a tuple of ${count} columns for ${table}, whose RELATION has ${columns}`);
  const { bytes, end } = cursor;
  const { kinds, starts, ends } = tuple;
  let { at } = cursor;
  tuple.bytes = bytes;
  for (let i = 0; i < count; i++) {
    if (at >= end) throw malformed('a tuple is cut short');
    const kind = bytes[at++] as number;
    kinds[i] = kind;
    if (kind === CellKind.text) {
      if (at + 4 > end) throw malformed('a tuple is cut short');
      const length =
        ((bytes[at] as number) << 24) |
        ((bytes[at + 1] as number) << 16) |
        ((bytes[at + 2] as number) << 8) |
        (bytes[at + 3] as number);
      at += 4;
      if (length < 0 || at + length > end) throw malformed('a column is cut short');
      starts[i] = at;
      at += length;
      ends[i] = at;
    } else if (kind !== CellKind.null && kind !== CellKind.unchanged) {
      throw malformed(`a column of unknown form 0x${kind.toString(16)} in ${table} (binary is never asked for)`);
    }
  }
  cursor.at = at;
}
