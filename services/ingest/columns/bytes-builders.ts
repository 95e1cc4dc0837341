import type { Cell } from '../../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import { INITIAL_ROWS, RowState } from './column-builder.ts';
import type { ColumnBuilder } from './column-builder.ts';

const INITIAL_BYTES = 16 * 1024;
/** Arrow's 32-bit offsets end here; the planner's byte limit keeps batches far below. */
const DATA_BYTES_MAX = 2 ** 31 - 1;
/** More than this is not taken on trust. */
const EXPECTED_BYTES_MAX = 16 * 1024 * 1024;
/** Up to this length a loop over char codes beats the call into the encoder. */
const LOOP_CHARS = 48;

abstract class BytesBuilder extends RowState {
  protected data = Buffer.allocUnsafe(INITIAL_BYTES);
  protected dataLength = 0;
  private offsets = new Int32Array(INITIAL_ROWS + 1);

  protected grow(capacity: number): void {
    const wider = new Int32Array(capacity + 1);
    wider.set(this.offsets);
    this.offsets = wider;
  }
  protected reserve(bytes: number): void {
    const needed = this.dataLength + bytes;
    if (needed <= this.data.length) return;
    if (needed > DATA_BYTES_MAX)
      throw new RangeError('one column of one batch would exceed 2 GiB; lower maxOffsetsPerTrigger');
    const wider = Buffer.allocUnsafe(Math.min(DATA_BYTES_MAX, Math.max(needed, this.data.length * 2)));
    this.data.copy(wider, 0, 0, this.dataLength);
    this.data = wider;
  }
  override expect(rows: number, bytes: number): void {
    this.ensureRows(rows);
    const needed = this.dataLength + bytes;
    // In steps of powers of two, as growing has it: batches of one table then ask for memory in the same sizes.
    let size = this.data.length;
    while (size < needed && size < EXPECTED_BYTES_MAX) size *= 2;
    this.reserve(size - this.dataLength);
  }
  /** Closes rows from..to, whose bytes stand behind `dataLength` in one piece. */
  protected pushOffsets(lengths: Int32Array, from: number, to: number): void {
    const { offsets } = this;
    let at = this.dataLength;
    for (let i = from, row = this.length + 1; i < to; i++, row++) {
      const length = lengths[i] as number;
      if (length > 0) at += length;
      offsets[row] = at;
    }
    this.pushRows(lengths, from, to);
    this.dataLength = at;
  }
  /** Closes the row whose bytes end at `dataLength`. */
  protected pushBytes(): void {
    this.pushValid();
    this.offsets[this.length] = this.dataLength;
  }
  appendNull(): void {
    this.ensureRow();
    this.pushNull(false);
    this.offsets[this.length] = this.dataLength;
  }
  appendAbsent(): void {
    this.ensureRow();
    this.pushNull(true);
    this.offsets[this.length] = this.dataLength;
  }
  override truncate(length: number): void {
    super.truncate(length);
    this.dataLength = this.offsets[this.length] ?? 0;
  }
  override reset(): void {
    super.reset();
    this.dataLength = 0;
  }
  protected vector(kind: 'utf8' | 'binary'): ColumnVector {
    return {
      kind,
      length: this.length,
      validity: this.validity(),
      offsets: this.offsets.subarray(0, this.length + 1),
      data: this.data.subarray(0, this.dataLength),
    };
  }
  bytesHeld(): number {
    return this.data.length + this.offsets.byteLength + this.bitmapBytes();
  }
}

/** string: JavaScript text → UTF-8. Scalars of other kinds are written as the text PostgreSQL printed. */
export class Utf8Builder extends BytesBuilder implements ColumnBuilder {
  append(cell: Cell): boolean {
    if (typeof cell === 'string') {
      this.pushText(cell);
      return true;
    }
    if (cell === null) {
      this.appendNull();
      return true;
    }
    this.pushText(cellText(cell));
    return true;
  }
  /** Rows from..to of a block, clean UTF-8 that stands in one piece; NULL where the length is negative. */
  pushRun(bytes: Buffer, starts: Int32Array, lengths: Int32Array, from: number, to: number): void {
    if (from === to) return;
    const first = starts[from] as number;
    const end = (starts[to - 1] as number) + Math.max(0, lengths[to - 1] as number);
    this.ensureRows(to - from);
    this.reserve(end - first);
    bytes.copy(this.data, this.dataLength, first, end);
    this.pushOffsets(lengths, from, to);
  }
  private pushText(text: string): void {
    this.ensureRow();
    const length = text.length;
    this.reserve(length * 3);
    if (length <= LOOP_CHARS) {
      const data = this.data;
      let at = this.dataLength;
      let i = 0;
      for (; i < length; i++) {
        const code = text.charCodeAt(i);
        if (code > 127) break;
        data[at++] = code;
      }
      if (i === length) {
        this.dataLength = at;
        this.pushBytes();
        return;
      }
    }
    this.dataLength += this.data.write(text, this.dataLength, 'utf8');
    this.pushBytes();
  }
  finish(): ColumnVector {
    return this.vector('utf8');
  }
}

/** binary: base64 text → bytes. Text that is not base64 is refused (Buffer would skip what it does not know). */
export class BinaryBuilder extends BytesBuilder implements ColumnBuilder {
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (typeof cell !== 'string') return false;
    const length = cell.length;
    if (length % 4 !== 0) return false;
    const padding = length === 0 ? 0 : cell.endsWith('==') ? 2 : cell.endsWith('=') ? 1 : 0;
    const expected = (length / 4) * 3 - padding;
    this.ensureRow();
    this.reserve(expected);
    const written = this.data.write(cell, this.dataLength, 'base64');
    if (written !== expected) return false;
    this.dataLength += written;
    this.pushBytes();
    return true;
  }
  appendBytes(bytes: Uint8Array): void {
    this.ensureRow();
    this.reserve(bytes.length);
    this.data.set(bytes, this.dataLength);
    this.dataLength += bytes.length;
    this.pushBytes();
  }
  finish(): ColumnVector {
    return this.vector('binary');
  }
}

/** Text of a cell that a contract keeps as string: scalars as digits, arrays as JSON with exact numbers. */
export function cellText(cell: Cell): string {
  if (cell === null) return 'null';
  if (typeof cell === 'string') return cell;
  if (typeof cell === 'number') return Object.is(cell, -0) ? '-0' : String(cell);
  if (typeof cell === 'boolean' || typeof cell === 'bigint') return String(cell);
  if (Array.isArray(cell)) return `[${cell.map(jsonText).join(',')}]`;
  return `{${Object.entries(cell)
    .map(([name, value]) => `${JSON.stringify(name)}:${jsonText(value)}`)
    .join(',')}}`;
}

function jsonText(cell: Cell): string {
  if (typeof cell === 'string') return JSON.stringify(cell);
  return typeof cell === 'number' && !Number.isFinite(cell) ? JSON.stringify(String(cell)) : cellText(cell);
}
