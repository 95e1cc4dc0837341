/** Columns from plain values, for tests: bigint for 64-bit and unscaled decimals, number, boolean, string, bytes, nested. */
import type { ColumnVector } from '../../lakehouse/table/column.ts';
import type { DeltaType } from '../../lakehouse/table/schema.ts';

export type Cell =
  | null
  | bigint
  | number
  | boolean
  | string
  | Uint8Array
  | readonly Cell[]
  | { readonly [name: string]: Cell }
  | ReadonlyMap<string, Cell>;

function validityOf(cells: readonly Cell[]): Uint8Array | null {
  if (cells.every((cell) => cell !== null)) return null;
  const bits = new Uint8Array((cells.length + 7) >> 3);
  cells.forEach((cell, i) => {
    if (cell !== null) bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
  });
  return bits;
}

function offsetsOf(sizes: readonly number[]): Int32Array {
  const offsets = new Int32Array(sizes.length + 1);
  sizes.forEach((size, i) => (offsets[i + 1] = (offsets[i] ?? 0) + size));
  return offsets;
}

export function columnFrom(type: DeltaType, cells: readonly Cell[]): ColumnVector {
  const base = { length: cells.length, validity: validityOf(cells) };
  if (typeof type === 'object') {
    switch (type.type) {
      case 'array': {
        const lists = cells.map((cell) => (cell === null ? [] : (cell as readonly Cell[])));
        const offsets = offsetsOf(lists.map((list) => list.length));
        return { ...base, kind: 'list', offsets, child: columnFrom(type.elementType, lists.flat(1) as Cell[]) };
      }
      case 'map': {
        const maps = cells.map((cell) => (cell === null ? [] : [...(cell as ReadonlyMap<string, Cell>)]));
        const entries = maps.flat(1);
        return {
          ...base,
          kind: 'map',
          offsets: offsetsOf(maps.map((map) => map.length)),
          keys: columnFrom(
            type.keyType,
            entries.map(([key]) => key),
          ),
          items: columnFrom(
            type.valueType,
            entries.map(([, value]) => value),
          ),
        };
      }
      case 'struct':
        return {
          ...base,
          kind: 'struct',
          names: type.fields.map((field) => field.name),
          children: type.fields.map((field) =>
            columnFrom(
              field.type,
              cells.map((cell) =>
                cell === null ? null : ((cell as { readonly [name: string]: Cell })[field.name] ?? null),
              ),
            ),
          ),
        };
    }
  }
  return primitiveFrom(type, cells, base);
}

function primitiveFrom(
  type: string,
  cells: readonly Cell[],
  base: { length: number; validity: Uint8Array | null },
): ColumnVector {
  const decimal = /^decimal\((\d+),(\d+)\)$/.exec(type);
  if (decimal !== null) {
    const values = new BigInt64Array(cells.length * 2);
    cells.forEach((cell, i) => {
      values[2 * i] = BigInt.asIntN(64, (cell ?? 0n) as bigint);
      values[2 * i + 1] = BigInt.asIntN(64, ((cell ?? 0n) as bigint) >> 64n);
    });
    return { ...base, kind: 'decimal', precision: Number(decimal[1]), scale: Number(decimal[2]), values };
  }
  switch (type) {
    case 'long':
    case 'timestamp':
    case 'timestamp_ntz':
      return { ...base, kind: 'int64', values: BigInt64Array.from(cells, (cell) => (cell ?? 0n) as bigint) };
    case 'float':
      return { ...base, kind: 'float32', values: Float32Array.from(cells, (cell) => (cell ?? 0) as number) };
    case 'double':
      return { ...base, kind: 'float64', values: Float64Array.from(cells, (cell) => (cell ?? 0) as number) };
    case 'boolean': {
      const values = new Uint8Array((cells.length + 7) >> 3);
      cells.forEach((cell, i) => {
        if (cell === true) values[i >> 3] = (values[i >> 3] ?? 0) | (1 << (i & 7));
      });
      return { ...base, kind: 'boolean', values };
    }
    case 'string':
    case 'binary': {
      const parts = cells.map((cell) => (typeof cell === 'string' ? Buffer.from(cell) : ((cell ?? []) as Uint8Array)));
      const offsets = offsetsOf(parts.map((part) => part.length));
      const data = new Uint8Array(Buffer.concat(parts.map((part) => Uint8Array.from(part))));
      return { ...base, kind: type === 'string' ? 'utf8' : 'binary', offsets, data };
    }
    default:
      return { ...base, kind: 'int32', values: Int32Array.from(cells, (cell) => (cell ?? 0) as number) };
  }
}
