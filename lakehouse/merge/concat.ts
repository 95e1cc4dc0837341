/** Columns of one type, one after another: whole buffers are moved at a time. */
import type { BytesColumn, ColumnVector } from '../table/column.ts';
import { gather, picksOf } from './gather.ts';

type Of<K extends ColumnVector['kind']> = Extract<ColumnVector, { readonly kind: K }>;

/** @throws RangeError for columns of different kinds, or more than 2 GiB of text */
export function concat(columns: readonly ColumnVector[]): ColumnVector {
  const [first] = columns;
  if (first === undefined) throw new RangeError('no column to join');
  if (columns.length === 1) return first;
  const length = columns.reduce((sum, column) => sum + column.length, 0);
  const validity = concatValidity(columns, length);
  switch (first.kind) {
    case 'boolean':
      return { kind: 'boolean', length, validity, values: concatBits(columns, (column) => bitsOf(column), length) };
    case 'int32':
      return { kind: 'int32', length, validity, values: join(only(columns, 'int32'), new Int32Array(length), 1) };
    case 'float32':
      return { kind: 'float32', length, validity, values: join(only(columns, 'float32'), new Float32Array(length), 1) };
    case 'float64':
      return { kind: 'float64', length, validity, values: join(only(columns, 'float64'), new Float64Array(length), 1) };
    case 'int64':
      return { kind: 'int64', length, validity, values: join(only(columns, 'int64'), new BigInt64Array(length), 1) };
    case 'decimal': {
      const values = join(only(columns, 'decimal'), new BigInt64Array(length * 2), 2);
      return { kind: 'decimal', length, validity, precision: first.precision, scale: first.scale, values };
    }
    case 'utf8':
    case 'binary':
      return concatBytes(first.kind, only(columns, first.kind) as readonly BytesColumn[], length, validity);
    case 'list': {
      const lists = only(columns, 'list');
      const { offsets, parts } = joinOffsets(lists, (list, from, to) => slice(list.child, from, to), length);
      return { kind: 'list', length, validity, offsets, child: concat(parts) };
    }
    case 'map': {
      const maps = only(columns, 'map');
      const keys = joinOffsets(maps, (map, from, to) => slice(map.keys, from, to), length);
      const items = joinOffsets(maps, (map, from, to) => slice(map.items, from, to), length);
      return {
        kind: 'map',
        length,
        validity,
        offsets: keys.offsets,
        keys: concat(keys.parts),
        items: concat(items.parts),
      };
    }
    case 'struct': {
      const structs = only(columns, 'struct');
      const children = first.names.map((name) =>
        concat(structs.map((struct) => struct.children[struct.names.indexOf(name)] as ColumnVector)),
      );
      return { kind: 'struct', length, validity, names: first.names, children };
    }
  }
}

function only<K extends ColumnVector['kind']>(columns: readonly ColumnVector[], kind: K): readonly Of<K>[] {
  for (const column of columns)
    if (column.kind !== kind) throw new RangeError(`a ${column.kind} column cannot follow a ${kind} column`);
  return columns as readonly Of<K>[];
}

function join<T extends Int32Array | Float32Array | Float64Array | BigInt64Array>(
  columns: readonly { readonly length: number; readonly values: T }[],
  out: T,
  wordsARow: number,
): T {
  let at = 0;
  for (const { values, length } of columns) {
    out.set(values.subarray(0, length * wordsARow) as never, at);
    at += length * wordsARow;
  }
  return out;
}

function bitsOf(column: ColumnVector): Uint8Array {
  if (column.kind !== 'boolean') throw new RangeError(`a ${column.kind} column cannot follow a boolean column`);
  return column.values;
}

function concatValidity(columns: readonly ColumnVector[], length: number): Uint8Array | null {
  if (columns.every((column) => column.validity === null)) return null;
  return concatBits(columns, (column) => column.validity, length);
}

/** Bitmaps bit by bit, but whole bytes where the place allows; null stands for all ones. */
function concatBits(
  columns: readonly ColumnVector[],
  bits: (column: ColumnVector) => Uint8Array | null,
  length: number,
): Uint8Array {
  const out = new Uint8Array((length + 7) >> 3);
  let at = 0;
  for (const column of columns) {
    const from = bits(column);
    let row = 0;
    if ((at & 7) === 0)
      for (; row + 8 <= column.length; row += 8, at += 8) out[at >> 3] = from === null ? 255 : (from[row >> 3] ?? 0);
    for (; row < column.length; row++, at++)
      if (from === null || ((from[row >> 3] ?? 0) & (1 << (row & 7))) !== 0)
        out[at >> 3] = (out[at >> 3] ?? 0) | (1 << (at & 7));
  }
  return out;
}

function concatBytes(
  kind: 'utf8' | 'binary',
  columns: readonly BytesColumn[],
  length: number,
  validity: Uint8Array | null,
): BytesColumn {
  const { offsets, parts } = joinOffsets(columns, (column, from, to) => column.data.subarray(from, to), length);
  const data = new Uint8Array(offsets[length] ?? 0);
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.length;
  }
  return { kind, length, validity, offsets, data };
}

function joinOffsets<C extends { readonly length: number; readonly offsets: Int32Array }, P>(
  columns: readonly C[],
  part: (column: C, from: number, to: number) => P,
  length: number,
): { readonly offsets: Int32Array; readonly parts: readonly P[] } {
  const offsets = new Int32Array(length + 1);
  const parts: P[] = [];
  let at = 0;
  let total = 0;
  for (const column of columns) {
    const first = column.offsets[0] ?? 0;
    const last = column.offsets[column.length] ?? first;
    if (total + last - first > 0x7fff_ffff) throw new RangeError('a column of more than 2 GiB: use smaller batches');
    parts.push(part(column, first, last));
    for (let row = 1; row <= column.length; row++) offsets[at + row] = total + (column.offsets[row] ?? 0) - first;
    at += column.length;
    total += last - first;
  }
  return { offsets, parts };
}

/** Rows [from, to) of a column; the column itself when that is all of it. */
function slice(column: ColumnVector, from: number, to: number): ColumnVector {
  if (from === 0 && to === column.length) return column;
  return gather([column], picksOf(Uint32Array.from({ length: to - from }, (_, i) => from + i)));
}
