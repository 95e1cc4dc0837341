import type { Cell } from '../../../contracts/engine/gate.ts';
import type { ColumnVector } from '../../../lakehouse/table/column.ts';
import { INITIAL_ROWS, RowState } from './column-builder.ts';
import type { ColumnBuilder } from './column-builder.ts';

/** array<T>: a JSON array of T's cells. Text stands here when PostgreSQL's array has several dimensions: refused. */
export class ListBuilder extends RowState implements ColumnBuilder {
  private offsets = new Int32Array(INITIAL_ROWS + 1);
  private readonly child: ColumnBuilder;
  constructor(child: ColumnBuilder) {
    super();
    this.child = child;
  }
  protected grow(capacity: number): void {
    const wider = new Int32Array(capacity + 1);
    wider.set(this.offsets);
    this.offsets = wider;
  }
  append(cell: Cell): boolean {
    if (cell === null) {
      this.appendNull();
      return true;
    }
    if (!Array.isArray(cell)) return false;
    this.ensureRow();
    const start = this.child.length;
    for (const element of cell as readonly Cell[]) {
      if (this.child.append(element)) continue;
      this.child.truncate(start);
      return false;
    }
    this.pushValid();
    this.offsets[this.length] = this.child.length;
    return true;
  }
  appendNull(): void {
    this.ensureRow();
    this.pushNull(false);
    this.offsets[this.length] = this.child.length;
  }
  appendAbsent(): void {
    this.ensureRow();
    this.pushNull(true);
    this.offsets[this.length] = this.child.length;
  }
  override truncate(length: number): void {
    super.truncate(length);
    this.child.truncate(this.offsets[this.length] ?? 0);
  }
  override reset(): void {
    super.reset();
    this.child.reset();
  }
  finish(): ColumnVector {
    return {
      kind: 'list',
      length: this.length,
      validity: this.validity(),
      offsets: this.offsets.subarray(0, this.length + 1),
      child: this.child.finish(),
    };
  }
  bytesHeld(): number {
    return this.offsets.byteLength + this.bitmapBytes() + this.child.bytesHeld();
  }
}
