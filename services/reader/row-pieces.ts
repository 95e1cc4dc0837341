/** Rows as the server sent them: DataRow messages that stand one behind the other in a chunk of the socket. */
import { ROW_HEAD_BYTES } from '../log/row-block.ts';

export interface RowPiece {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
  readonly rows: number;
}

export interface RowPieces {
  readonly pieces: readonly RowPiece[];
  readonly rows: number;
  /** Of bodies. */
  readonly bytes: number;
  /** The largest body. */
  readonly widest: number;
  /** The DataRow whose body is bytes[start .. end); its head stands before it. */
  readonly add: (bytes: Buffer, start: number, end: number) => void;
}

export function createRowPieces(): RowPieces {
  const pieces: { readonly bytes: Buffer; readonly from: number; to: number; rows: number }[] = [];
  let last: (typeof pieces)[number] | null = null;
  let rows = 0;
  let total = 0;
  let widest = 0;
  return {
    pieces,
    get rows() {
      return rows;
    },
    get bytes() {
      return total;
    },
    get widest() {
      return widest;
    },
    add(bytes, start, end) {
      const from = start - ROW_HEAD_BYTES;
      if (last !== null && last.bytes === bytes && last.to === from) {
        last.to = end;
        last.rows++;
      } else {
        last = { bytes, from, to: end, rows: 1 };
        pieces.push(last);
      }
      rows++;
      total += end - start;
      if (end - start > widest) widest = end - start;
    },
  };
}

/** Each row's body, in order. */
export function forEachRow(
  { pieces }: Pick<RowPieces, 'pieces'>,
  visit: (bytes: Buffer, start: number, end: number) => void,
): void {
  for (const { bytes, from, to } of pieces) {
    for (let at = from; at < to;) {
      const end = at + 1 + bytes.readUInt32BE(at + 1);
      visit(bytes, at + ROW_HEAD_BYTES, end);
      at = end;
    }
  }
}
