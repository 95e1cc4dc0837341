/** Present values of a leaf in their physical form; INT96 is turned into microseconds when read. */
import { copyBytes } from './encodings.ts';
import { PageFault } from './codec.ts';
import type { FileNode } from './footer.ts';

export type LeafValues =
  /** One byte a value. */
  | { readonly kind: 'boolean'; readonly values: Uint8Array }
  | { readonly kind: 'int32'; readonly values: Int32Array }
  | { readonly kind: 'int64'; readonly values: BigInt64Array }
  | { readonly kind: 'float32'; readonly values: Float32Array }
  | { readonly kind: 'float64'; readonly values: Float64Array }
  /** BYTE_ARRAY and FIXED_LEN_BYTE_ARRAY. */
  | { readonly kind: 'bytes'; readonly offsets: Int32Array; readonly data: Uint8Array };

export function emptyValues(node: FileNode): LeafValues {
  switch (node.element.type) {
    case 'BOOLEAN':
      return { kind: 'boolean', values: new Uint8Array(0) };
    case 'INT32':
      return { kind: 'int32', values: new Int32Array(0) };
    case 'INT64':
    case 'INT96':
      return { kind: 'int64', values: new BigInt64Array(0) };
    case 'FLOAT':
      return { kind: 'float32', values: new Float32Array(0) };
    case 'DOUBLE':
      return { kind: 'float64', values: new Float64Array(0) };
    default:
      return { kind: 'bytes', offsets: new Int32Array(1), data: new Uint8Array(0) };
  }
}

export function valueCount(values: LeafValues): number {
  return values.kind === 'bytes' ? values.offsets.length - 1 : values.values.length;
}

/** values[indices[i]] for each i. @throws PageFault when an index is outside */
export function gatherValues(from: LeafValues, indices: Int32Array): LeafValues {
  const size = valueCount(from);
  for (let i = 0; i < indices.length; i++)
    if ((indices[i] ?? 0) >>> 0 >= size) throw new PageFault('a page refers outside its dictionary');
  switch (from.kind) {
    case 'boolean':
      return { kind: 'boolean', values: pick(from.values, indices, new Uint8Array(indices.length)) };
    case 'int32':
      return { kind: 'int32', values: pick(from.values, indices, new Int32Array(indices.length)) };
    case 'float32':
      return { kind: 'float32', values: pick(from.values, indices, new Float32Array(indices.length)) };
    case 'float64':
      return { kind: 'float64', values: pick(from.values, indices, new Float64Array(indices.length)) };
    case 'int64':
      return { kind: 'int64', values: pickWords(from.values, indices) };
    case 'bytes':
      return pickBytes(from, indices);
  }
}

function pick<T extends Uint8Array | Int32Array | Float32Array | Float64Array>(
  from: T,
  indices: Int32Array,
  out: T,
): T {
  for (let i = 0; i < indices.length; i++) out[i] = from[indices[i] ?? 0] ?? 0;
  return out;
}

/** 64-bit values move as two 32-bit halves: no BigInt is made a value. */
function pickWords(from: BigInt64Array, indices: Int32Array): BigInt64Array {
  const out = new BigInt64Array(indices.length);
  const source = new Int32Array(from.buffer, from.byteOffset, from.length * 2);
  const target = new Int32Array(out.buffer);
  for (let i = 0; i < indices.length; i++) {
    const at = (indices[i] ?? 0) * 2;
    target[2 * i] = source[at] ?? 0;
    target[2 * i + 1] = source[at + 1] ?? 0;
  }
  return out;
}

function pickBytes(
  from: { readonly offsets: Int32Array; readonly data: Uint8Array },
  indices: Int32Array,
): { kind: 'bytes'; offsets: Int32Array; data: Uint8Array } {
  const offsets = new Int32Array(indices.length + 1);
  let size = 0;
  for (let i = 0; i < indices.length; i++) {
    const at = indices[i] ?? 0;
    size += (from.offsets[at + 1] ?? 0) - (from.offsets[at] ?? 0);
    if (size > 0x7fffffff) throw new PageFault('strings of one page exceed 2 GiB', true);
    offsets[i + 1] = size;
  }
  const data = new Uint8Array(size);
  let end = 0;
  for (let i = 0; i < indices.length; i++) {
    const at = indices[i] ?? 0;
    end = copyBytes(from.data, from.offsets[at] ?? 0, from.offsets[at + 1] ?? 0, data, end);
  }
  return { kind: 'bytes', offsets, data };
}

export function concatValues(parts: readonly LeafValues[], node: FileNode): LeafValues {
  const empty = emptyValues(node);
  let total = 0;
  for (const part of parts) total += valueCount(part);
  const join = <T extends Uint8Array | Int32Array | BigInt64Array | Float32Array | Float64Array>(out: T): T => {
    let at = 0;
    for (const part of parts) {
      if (part.kind === 'bytes') continue;
      out.set(part.values as never, at);
      at += part.values.length;
    }
    return out;
  };
  switch (empty.kind) {
    case 'boolean':
      return { kind: 'boolean', values: join(new Uint8Array(total)) };
    case 'int32':
      return { kind: 'int32', values: join(new Int32Array(total)) };
    case 'int64':
      return { kind: 'int64', values: join(new BigInt64Array(total)) };
    case 'float32':
      return { kind: 'float32', values: join(new Float32Array(total)) };
    case 'float64':
      return { kind: 'float64', values: join(new Float64Array(total)) };
    case 'bytes':
      return concatBytes(parts, total);
  }
}

function concatBytes(parts: readonly LeafValues[], total: number): LeafValues {
  let size = 0;
  for (const part of parts) if (part.kind === 'bytes') size += (part.offsets.at(-1) ?? 0) - (part.offsets[0] ?? 0);
  if (size > 0x7fffffff) throw new PageFault('a column of strings exceeds 2 GiB', true);
  const offsets = new Int32Array(total + 1);
  const data = new Uint8Array(size);
  let at = 0;
  let end = 0;
  for (const part of parts) {
    if (part.kind !== 'bytes') continue;
    const first = part.offsets[0] ?? 0;
    const last = part.offsets.at(-1) ?? 0;
    data.set(part.data.subarray(first, last), end);
    const count = part.offsets.length - 1;
    for (let i = 1; i <= count; i++) offsets[at + i] = end + (part.offsets[i] ?? 0) - first;
    at += count;
    end += last - first;
  }
  return { kind: 'bytes', offsets, data };
}
