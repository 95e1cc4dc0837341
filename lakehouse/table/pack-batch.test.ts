import { describe, expect, it } from 'vitest';
import { batchBytes, packBatch } from './pack-batch.ts';
import type { BytesColumn, ColumnBatch, ColumnVector } from './column.ts';

/** A view in the middle of a larger buffer, as columns that were cut or decoded are. */
function inside<T extends { length: number }>(
  make: new (buffer: ArrayBuffer, at: number, length: number) => T,
  values: { readonly BYTES_PER_ELEMENT: number; readonly length: number },
): T {
  const buffer = new ArrayBuffer((values.length + 4) * values.BYTES_PER_ELEMENT);
  const view = new make(buffer, 2 * values.BYTES_PER_ELEMENT, values.length);
  (view as unknown as { set(from: unknown): void }).set(values);
  return view;
}

const texts = (kind: 'utf8' | 'binary', ...parts: string[]): BytesColumn => {
  const offsets = new Int32Array(parts.length + 1);
  parts.forEach((part, i) => (offsets[i + 1] = (offsets[i] ?? 0) + part.length));
  const data = inside(Uint8Array, Uint8Array.from(Buffer.from(parts.join(''))));
  return { kind, length: parts.length, validity: null, offsets: inside(Int32Array, offsets), data };
};

const batch: ColumnBatch = {
  rowCount: 3,
  names: ['bool', 'int', 'long', 'f', 'd', 'dec', 'text', 'raw', 'list', 'map', 'struct', 'empty'],
  columns: [
    { kind: 'boolean', length: 3, validity: Uint8Array.of(5), values: inside(Uint8Array, Uint8Array.of(4)) },
    { kind: 'int32', length: 3, validity: null, values: inside(Int32Array, Int32Array.of(1, -2, 3)) },
    {
      kind: 'int64',
      length: 3,
      validity: Uint8Array.of(6),
      values: inside(BigInt64Array, BigInt64Array.of(0n, -1n, 7n)),
    },
    { kind: 'float32', length: 3, validity: null, values: inside(Float32Array, Float32Array.of(0.5, -0, NaN)) },
    { kind: 'float64', length: 3, validity: null, values: inside(Float64Array, Float64Array.of(0.1, -0, Infinity)) },
    {
      kind: 'decimal',
      precision: 38,
      scale: 2,
      length: 3,
      validity: null,
      values: BigInt64Array.of(1n, 0n, -1n, -1n, 2n ** 62n, 9n),
    },
    texts('utf8', 'a', '', 'ccc'),
    texts('binary', '\0', 'x', ''),
    {
      kind: 'list',
      length: 3,
      validity: Uint8Array.of(3),
      offsets: Int32Array.of(0, 2, 3, 3),
      child: texts('utf8', 'x', 'yy', 'z'),
    },
    {
      kind: 'map',
      length: 3,
      validity: null,
      offsets: Int32Array.of(0, 1, 1, 2),
      keys: texts('utf8', 'k', 'l'),
      items: { kind: 'int64', length: 2, validity: Uint8Array.of(1), values: BigInt64Array.of(5n, 0n) },
    },
    {
      kind: 'struct',
      length: 3,
      validity: Uint8Array.of(7),
      names: ['in'],
      children: [{ kind: 'int32', length: 3, validity: null, values: Int32Array.of(9, 8, 7) }],
    },
    { kind: 'utf8', length: 3, validity: Uint8Array.of(0), offsets: new Int32Array(4), data: new Uint8Array(0) },
  ],
};

function buffersOf(column: ColumnVector): ArrayBufferLike[] {
  return Object.values(column).flatMap((value: unknown) =>
    ArrayBuffer.isView(value)
      ? [value.buffer]
      : Array.isArray(value)
        ? value.flatMap((child) => (typeof child === 'string' ? [] : buffersOf(child as ColumnVector)))
        : typeof value === 'object' && value !== null
          ? buffersOf(value as ColumnVector)
          : [],
  );
}

describe('packBatch', () => {
  it('has every value of every kind of column in one buffer', () => {
    const { batch: packed, buffer } = packBatch(batch);
    expect(packed).toEqual(batch);
    expect(buffer.byteLength).toBe(batchBytes(batch));
    expect(new Set(packed.columns.flatMap(buffersOf))).toEqual(new Set([buffer]));
  });

  it('comes whole to another thread without a copy, and takes nothing from the batch', () => {
    const { batch: packed, buffer } = packBatch(batch);
    const seen = structuredClone(packed);
    expect(seen).toEqual(batch);
    expect(batchBytes(seen)).toBe(batchBytes(batch));
    new Uint8Array(buffer).fill(0xff);
    expect(seen).toEqual(packed);
    expect(seen).not.toEqual(batch);
  });
});
